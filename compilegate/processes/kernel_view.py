"""What the kernel shows of a process that does not go on: what it waits in, and for what.

It serves where a process writes no stacks: it is stopped, or waits uninterruptibly for a disk or a
driver. It also shows the processes that a case waits for, such as compile workers.
https://docs.kernel.org/filesystems/proc.html
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path

#: How many processes are described, and how many functions of the kernel's own stack.
_MOST_PROCESSES, _MOST_FUNCTIONS = 6, 5


def describe(pids: Sequence[int], *, proc: Path = Path("/proc")) -> str:
    """Return a line for each process that lives, and what is readable of the kernel's stack.

    Args:
        pids: The processes.
        proc: Where the kernel shows them.
    """
    lines = [line for pid in pids[:_MOST_PROCESSES] for line in _lines(proc / str(pid))]
    if len(pids) > _MOST_PROCESSES:
        lines.append(f"and {len(pids) - _MOST_PROCESSES} more processes")
    return "\n".join(lines)


def _lines(process: Path) -> list[str]:
    status = _read(process / "status")
    name = re.search(r"^Name:\s*(.+)$", status, re.MULTILINE)
    state = re.search(r"^State:\s*(.+)$", status, re.MULTILINE)
    if name is None or state is None:  # it has ended
        return []
    parts = [f"state {state[1]}"]
    call = _read(process / "syscall").split()
    if call and call[0].isdecimal():
        parts.append(f"system call {call[0]}")
    where = _read(process / "wchan").strip()
    if where not in ("", "0"):
        parts.append(f"waits in {where}")
    # The kernel shows its own stack to root alone: "[<0>] pipe_read+0x44/0x100".
    functions = re.findall(r"^\[<0>\] ([\w.]+)", _read(process / "stack"), re.MULTILINE)
    shown = [f"    {function}" for function in functions[:_MOST_FUNCTIONS]]
    return [f"process {process.name} ({name[1]}): {', '.join(parts)}", *shown]


def _read(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(errors="replace")
    return ""
