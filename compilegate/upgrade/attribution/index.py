"""Installs exact versions of distributions into an environment, from the user's package index."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from compilegate.processes.child_process import ObserverError
from compilegate.upgrade.attribution import installer, pip_settings

#: How many lines of an installer's output an error shows.
_LINES = 4


class MakingError(ObserverError):
    """An environment cannot be made. The text names the distribution or file, and the way out."""


def install(python: Path, wanted: Sequence[str]) -> None:
    """Install distributions without what they require, with uv where it is on the path, else pip.

    Both take the index that pip is configured with.

    Args:
        python: The interpreter of the environment.
        wanted: The distributions: ``timm==1.0.31``.

    Raises:
        MakingError: A distribution cannot be installed.
    """
    variables: dict[str, str] = {}
    if uv := shutil.which("uv"):
        options, variables = pip_settings.for_uv()
        command = [uv, "pip", "install", *options, "--python", str(python), "--no-deps", *wanted]
    else:
        command = [sys.executable, "-m", "pip", "--python", str(python), "install"]
        command += ["--no-deps", "--no-input", *wanted]
    done = installer.run(command, python.parents[1], variables)
    if done.returncode:
        last = "\n".join((done.stderr or done.stdout).strip().splitlines()[-_LINES:])
        raise MakingError(
            f"cannot install {', '.join(wanted)}, since the two environments have different "
            f"versions of Python: {last}\nMake both with one version of Python, so that no index "
            "is needed, or name an index that has the distribution (PIP_INDEX_URL)"
        )
