"""The processes of a session: the living ones, and a session that is still running."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.integration.conftest import CHECKOUT, surroundings


def living(runs: Path) -> list[str]:
    """Command lines of the living processes of the sessions with these runs, whoever adopted them.

    All have inherited the variable that :func:`surroundings` sets.
    """
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if f"COMPILEGATE_TEST={runs}".encode() in variables:
            found.append(words)
    return found


def soon(holds: Callable[[], object], within_s: float = 240.0) -> bool:
    """Whether a condition becomes true within some time."""
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


@contextmanager
def begun(
    words: Sequence[str], runs: Path, changes: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A session that is still running. It is killed at the end if it has not ended."""
    process = subprocess.Popen(
        words,
        cwd=CHECKOUT,
        env=surroundings(runs, changes, words),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # a new group, as a shell makes for Ctrl-C
        # A shell that starts these tests in the background has them ignore it, and so would this.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
