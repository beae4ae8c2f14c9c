"""Runs an installer so that an interrupted one leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType


def run(
    command: Sequence[str], folder: Path, variables: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[str]:
    """Run an installer, and wait for it.

    pip unpacks wheels of several GB into a temporary folder, and starts another pip for another
    interpreter, which goes on when the first one is killed. So all of its processes are killed
    if the wait is interrupted, and what they unpack is in the folder that is then removed.

    Args:
        command: The installer.
        folder: The environment, which the caller removes if it stays unfinished.
        variables: Environment variables next to those of this process.

    Returns:
        The process that ended, with its output.
    """
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    env = {**os.environ, **variables, "TMPDIR": str(temporary)}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return subprocess.CompletedProcess(command, process.returncode, output, errors)
