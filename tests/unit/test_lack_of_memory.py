"""A process that died of a lack of memory is distinguished from one that crashed or was killed."""

import signal

import pytest

from compilegate.processes.lack_of_memory import why

ABORTED = "before\nterminate called after throwing an instance of 'std::bad_alloc'\n  what(): x\n"
EXITED = 1 << 8
TRACEBACK = "Traceback (most recent call last):\n  File …\nMemoryError\n"
NUMPY = "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7 GiB\n"
TORCH = "RuntimeError: [enforce fail …] DefaultCPUAllocator: can't allocate memory: you tried …\n"


@pytest.mark.parametrize(
    ("status", "output", "killed", "reason"),
    [
        (signal.SIGKILL, "", True, "the kernel killed the process because memory ran out"),
        (signal.SIGKILL, TRACEBACK, False, ""),
        (signal.SIGSEGV, ABORTED, True, ""),
        (signal.SIGABRT, ABORTED, False, f"{ABORTED.splitlines()[1]}"),
        (signal.SIGABRT, "free(): invalid pointer", True, ""),
        (EXITED, TRACEBACK, False, "MemoryError"),
        (EXITED, NUMPY, False, NUMPY.strip()),
        (EXITED, TORCH, False, TORCH.strip()),
        (EXITED, f"{TRACEBACK}another line", False, ""),
        (EXITED, "ValueError: odd", True, ""),
        (0, TRACEBACK, True, ""),
        (None, TRACEBACK, True, ""),
    ],
)
def test_only_an_end_that_memory_explains_is_a_lack_of_memory(status, output, killed, reason):
    found = why(status, output, killed=killed)
    assert found.endswith(reason)
    assert bool(found) is bool(reason)
