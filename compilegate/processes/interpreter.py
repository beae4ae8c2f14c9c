"""Whether an interpreter can observe cases, asked before anything is started under it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from compilegate.processes.child_process import ObserverError

#: The least that an observing process needs.
_OLDEST_PYTHON = (3, 11)
_PROBE = (
    "import importlib.util as u, sys; "
    "print(*sys.version_info[:2], int(u.find_spec('torch') is not None))"
)


def check_interpreter(python: str, option: str = "--baseline-python") -> None:
    """Refuse an interpreter that cannot observe, before anything is started.

    Args:
        python: Its path.
        option: The option that names it.

    Raises:
        ObserverError: The path is no interpreter, or the interpreter is too old or has no torch.
    """
    given = f"{option} {python}"
    if Path(python).is_dir():
        raise ObserverError(f"{given} is a directory: name its interpreter, DIRECTORY/bin/python")
    try:
        done = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True, check=False)
    except OSError as error:
        raise ObserverError(f"{given} cannot be run: {error.strerror}; check the path") from error
    try:
        major, minor, has_torch = map(int, done.stdout.split())
    except ValueError:
        answer = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise ObserverError(
            f"{given} is not a Python interpreter: it answered {''.join(answer) or 'nothing'!r}"
        ) from None
    if (major, minor) < _OLDEST_PYTHON:
        oldest = ".".join(map(str, _OLDEST_PYTHON))
        raise ObserverError(f"{given} is Python {major}.{minor}: at least {oldest} is needed")
    if not has_torch:
        raise ObserverError(f"{given} has no torch: install it there, or name another interpreter")
