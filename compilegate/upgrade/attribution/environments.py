"""Makes environments between two: the version in use, with some distributions of the candidate.

An environment is a complete virtual environment. Its files are hard links to the files of the two
environments, so it takes seconds and hardly any disk, needs no index, and has exactly the builds
that were compared. Only if the two have different versions of Python, an index provides the
changed distributions. An overlay on the path would be wrong: PyTorch finds CUDA's libraries
relative to its own files, so it would not load a cuDNN that is only in front of it on the path.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from compilegate.records.attribution import DistributionChange
from compilegate.runs import hidden_folders
from compilegate.upgrade.attribution import index
from compilegate.upgrade.attribution.distributions import Distribution, Installed
from compilegate.upgrade.attribution.index import MakingError

#: Bytes that stay free on the disk.
RESERVE = 2**30
#: How the folder of an environment begins that is not complete, before the process's id.
UNFINISHED = ".making-"


@dataclass(frozen=True)
class Environments:
    """Makes environments between two, and keeps them.

    Attributes:
        folder: Where they are kept, each under a name that its files decide.
        before: What the version in use has installed.
        now: What the candidate has installed.
        changes: The distributions that differ, by name.
    """

    folder: Path
    before: Installed
    now: Installed
    changes: Mapping[str, DistributionChange]

    @property
    def _links(self) -> bool:
        """Whether files of the candidate fit: those that are compiled are for one Python."""
        return self.before.python[:2] == self.now.python[:2]

    def obstacle(self, name: str) -> str:
        """Return why a distribution cannot be exchanged; empty if it can."""
        ours, theirs = (side.distributions.get(name) for side in (self.before, self.now))
        for found, side in ((ours, "the version in use"), (theirs, "the candidate")):
            if found is not None and not found.record:
                return f"{side} has no list of its files (RECORD); install it with pip or uv"
            if found is not None and found.installer == "conda":
                return f"conda installed it in {side}, in other places, too; use pip or uv"
        if ours is not None and ours.folder not in self.before.folders:
            return (
                f"the version in use imports it from {ours.folder}, outside its own site-packages; "
                "install it in the environment itself"
            )
        if theirs is not None and theirs.is_editable and not self._links:
            return "it is editable, and the two environments have different versions of Python"
        return ""

    def python_with(self, names: frozenset[str]) -> str:
        """Return the interpreter of the version in use with these changes. It may exist already.

        Args:
            names: The distributions to take from the candidate. None of them has an obstacle.

        Raises:
            MakingError: The environment cannot be made.
        """
        target = self.folder
        try:
            files, wanted = dict(self._files(names)), self._to_install(names)
            target = self.folder / self._key(files, wanted)
            if not target.exists():
                self._make(target, files, names)
        except OSError as error:
            where = error.filename2 or error.filename or target
            raise MakingError(
                f"cannot make the environment {target}: {where}: {error.strerror}"
            ) from error
        return str(target / "bin" / "python")

    def _files(self, names: frozenset[str]) -> Iterator[tuple[Path, Path]]:
        """Yield the files of an environment: relative to its site-packages, and their source."""
        ours, theirs = self.before.distributions, self.now.distributions
        gone = [ours[name] for name in sorted(names) if name in ours]
        kept = [found for name, found in ours.items() if name not in names and found.record]
        removed = {source for found in gone for _, source in recorded(found)}
        for found in kept:
            for target, source in recorded(found):
                removed.discard(source)  # distributions share the __init__ of a namespace
                if target.parts[0] == ".." and found.folder in self.before.folders:
                    yield target, source
        for folder in reversed(self.before.folders):  # of two files of one name, the first counts
            for source in _walk(Path(folder)):
                if source not in removed and _source_of(source) not in removed:
                    yield source.relative_to(folder), source
        for name in sorted(names) if self._links else ():
            if name in theirs:
                yield from recorded(theirs[name])

    def _to_install(self, names: frozenset[str]) -> list[str]:
        """Return what an index has to provide, because the candidate's files do not fit."""
        theirs = self.now.distributions
        wanted = [] if self._links else [name for name in sorted(names) if name in theirs]
        return [f"{name}=={theirs[name].version}" for name in wanted]

    def _key(self, files: Mapping[Path, Path], wanted: Iterable[str]) -> str:
        """Return a name that changes with any file. Compiled bytecode comes and goes."""
        digest = hashlib.sha256(f"{self.before.base} {self.before.python} {[*wanted]}".encode())
        for target, source in sorted(files.items()):
            if source.suffix != ".pyc":
                seen = source.stat()
                digest.update(f"{target}\0{seen.st_size}\0{seen.st_mtime_ns}\n".encode())
        return digest.hexdigest()[:16]

    def _make(self, target: Path, files: Mapping[Path, Path], names: frozenset[str]) -> None:
        """Make an environment in a folder of its own, and rename it when it is complete."""
        self.folder.mkdir(parents=True, exist_ok=True)
        hidden_folders.leave_out(self.folder)
        remove_unfinished(self.folder)
        prefix = f"{UNFINISHED}{os.getpid()}-"
        making = Path(tempfile.mkdtemp(prefix=prefix, dir=self.folder))
        try:
            self._make_empty(making)
            (site,) = making.glob("lib/python*/site-packages")
            wanted = self._to_install(names)
            _refuse_full_disk(files.values(), self._bytes_of(names) if wanted else 0, making)
            for place, source in files.items():
                _place(source, site / place, within=making)
            if wanted:
                index.install(making / "bin" / "python", wanted)
            lines = [str(self.changes[name]) for name in sorted(names)] or ["no changes"]
            text = "compilegate made this copy of the version in use, with these changes:\n"
            (making / "changes.txt").write_text(text + "".join(f"{line}\n" for line in lines))
            making.chmod(0o755)
            with contextlib.suppress(FileExistsError):  # another session made the same one
                making.rename(target)
        finally:
            shutil.rmtree(making, ignore_errors=True)

    def _bytes_of(self, names: frozenset[str]) -> int:
        theirs = self.now.distributions
        taken = (theirs[name] for name in names if name in theirs)
        return sum(source.stat().st_size for found in taken for _, source in recorded(found))

    def _make_empty(self, folder: Path) -> None:
        command = [self.before.base, "-m", "venv", "--without-pip", "--symlinks"]
        command += ["--system-site-packages"] if self.before.sees_base else []
        done = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise MakingError(
                f"{self.before.base} cannot make a virtual environment: "
                f"{(done.stderr or done.stdout).strip()}; install its module venv"
            )


def recorded(found: Distribution) -> Iterator[tuple[Path, Path]]:
    """Yield the files of a distribution, except programs: relative to its folder, and their place.

    https://packaging.python.org/specifications/recording-installed-packages/
    """
    folder = Path(found.folder)
    with open(found.record, newline="", encoding="utf-8") as lines:
        for entry in (row[0] for row in csv.reader(lines) if row):
            place = Path(os.path.normpath(entry))
            source = Path(os.path.normpath(folder / place))
            if not place.is_absolute() and not _is_program(place) and source.exists():
                yield place, source


def _is_program(place: Path) -> bool:
    """Whether a file is a program of the environment, which names the interpreter it is for."""
    outside = [part for part in place.parts if part != ".."]
    return place.parts[0] == ".." and outside[:1] == ["bin"]


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder, but no link to nothing, nor what is in a link to its parents."""
    for path, folders, names in os.walk(folder, followlinks=True):
        here = Path(path).resolve()
        folders[:] = [
            name for name in folders if not here.is_relative_to(Path(path, name).resolve())
        ]
        yield from (file for name in names if (file := Path(path, name)).exists())


def _source_of(path: Path) -> Path | None:
    """Return the source of a file of bytecode. Nothing else shows whether it fits that source."""
    if path.suffix != ".pyc" or path.parent.name != "__pycache__":
        return None
    return path.parent.parent / f"{path.name.partition('.')[0]}.py"


def _place(source: Path, target: Path, within: Path) -> None:
    """Link a file, or copy it where the disk, or the owner of the file, allows no link."""
    target = Path(os.path.normpath(target))
    if not target.is_relative_to(within):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _refuse_full_disk(sources: Iterable[Path], needed: int, folder: Path) -> None:
    """Refuse to fill the disk with files that have to be copied or installed.

    Args:
        sources: The files to link or to copy.
        needed: Bytes of the files to install.
        folder: Where the environment is made.

    Raises:
        MakingError: There is too little space.
    """
    probe, linkable = folder / "probe", dict[tuple[int, int], bool]()
    for source in sources:
        seen = source.stat()
        kind = (seen.st_dev, seen.st_uid)  # a link needs one file system, and may need the owner
        if kind not in linkable:
            linkable[kind] = not _is_overlay(seen.st_dev) and _can_link(source, probe)
        needed += 0 if linkable[kind] else seen.st_size
    free = shutil.disk_usage(folder).free
    if needed + RESERVE > free:
        raise MakingError(
            f"{folder.parent} has {free / 2**30:.1f} GiB free; an environment needs "
            f"{needed / 2**30:.1f} GiB there, and {RESERVE / 2**30:.0f} GiB must stay free. Free "
            "some, or put the folder of runs on the file system of the version in use, where files "
            "are linked and take no space"
        )


def _can_link(source: Path, probe: Path) -> bool:
    try:
        os.link(source, probe)
    except OSError:
        return False
    probe.unlink()
    return True


def _is_overlay(device: int) -> bool:
    """Whether files of a device are those of a container's image, which a link copies.

    https://docs.kernel.org/filesystems/overlayfs.html#non-directories
    """
    number = f"{os.major(device)}:{os.minor(device)}"
    with contextlib.suppress(OSError):
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        return any(f" {number} " in line and " - overlay " in line for line in mounts)
    return False


def remove_unfinished(folder: Path) -> list[Path]:
    """Remove what a killed process left behind in a folder of environments, and return it."""
    found = []
    for path in sorted(folder.glob(f"{UNFINISHED}*")):
        process = path.name.removeprefix(UNFINISHED).partition("-")[0]
        if not Path("/proc", process).exists():
            shutil.rmtree(path, ignore_errors=True)
            found.append(path)
    return found
