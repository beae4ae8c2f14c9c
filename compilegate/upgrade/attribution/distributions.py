"""The distributions of two environments, and which of them differ."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from compilegate.processes.child_process import ObserverError
from compilegate.records.attribution import DistributionChange

_SCRIPT = Path(__file__).with_name("list_distributions.py")
#: Listing takes a second. An interpreter that takes longer than this hangs.
_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Distribution:
    """An installed distribution.

    Attributes:
        version: Its version.
        requires: Its requirements, as its metadata writes them.
        folder: The folder that its files are named from, without symbolic links.
        record: The list of its files; empty where its installer wrote none.
        installer: The program that installed it, as far as it says so.
        is_editable: Whether its code is in a folder of sources.
    """

    version: str
    requires: tuple[str, ...] = ()
    folder: str = ""
    record: str = ""
    installer: str = ""
    is_editable: bool = False


@dataclass(frozen=True)
class Installed:
    """What an interpreter has installed.

    Attributes:
        distributions: By normalised name.
        folders: The folders that its own distributions are in, the first on the path first.
        python: Its version.
        base: The interpreter that its virtual environment was made from, or itself.
        sees_base: Whether its virtual environment also imports what the base has installed.
    """

    distributions: Mapping[str, Distribution]
    folders: tuple[str, ...]
    python: tuple[int, int, int]
    base: str
    sees_base: bool = False


def installed(python: str) -> Installed:
    """Return what an interpreter has installed.

    Args:
        python: Its path.

    Raises:
        ObserverError: It cannot be run, or does not answer in time.
    """
    command = [python, "-P", str(_SCRIPT)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise ObserverError(
            f"{python} has not listed its distributions in {_TIMEOUT_S:g} s; does it start?"
        ) from None
    except OSError as error:
        raise ObserverError(f"cannot run {python}: {error.strerror}; check the path") from error
    *_, last = done.stdout.splitlines() or [""]  # a library may have written lines before
    try:
        return msgspec.json.decode(last, type=Installed)
    except msgspec.MsgspecError:
        raise ObserverError(
            f"{python} could not list its distributions:\n{done.stderr.strip()}"
        ) from None


def changes(before: Installed, now: Installed) -> dict[str, DistributionChange]:
    """Return the distributions whose version differs, or that one of them lacks, by name."""
    ours, theirs = before.distributions, now.distributions
    found = {}
    for name in sorted({*ours, *theirs}):
        old, new = (side[name].version if name in side else "" for side in (ours, theirs))
        if old != new:
            found[name] = DistributionChange(name=name, before=old, now=new)
    return found
