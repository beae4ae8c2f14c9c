"""A plugin of pytest that prints what passed before the first test is set up.

Name it with ``PYTHONPATH=docs/measurements pytest -p before_first_case …``.
"""

import os
import time

from compilegate.observe.measure.contention import tree_s

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_printed: list[str] = []


def pytest_runtest_setup() -> None:
    """Print the seconds since pytest began, and the processor time of all its processes."""
    if _printed:
        return
    with open("/proc/self/stat") as file:
        began = int(file.read().rpartition(") ")[2].split()[19]) / _TICKS_A_SECOND
    wall_s = time.clock_gettime(time.CLOCK_BOOTTIME) - began
    _printed.append(f"{wall_s:.2f} s, {tree_s(os.getpid()):.2f} s of processor time")
    os.write(2, f"before the first test: {_printed[0]}\n".encode())
