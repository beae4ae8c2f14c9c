"""Makes environments of releases of torch, and keeps them."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from packaging.version import InvalidVersion, Version

from compilegate.runs import hidden_folders
from compilegate.upgrade.attribution import installer, pip_settings
from compilegate.upgrade.attribution.environments import RESERVE, UNFINISHED, remove_unfinished
from compilegate.upgrade.attribution.index import MakingError

#: What torch and the libraries that it needs take on the disk, with CUDA's.
BYTES = 6 * 2**30
#: How many lines of an installer's output an error shows.
_LINES = 4
_RANGE = re.compile(r"(?P<first>\d+\.\d+(?:\.\d+)?)\.\.(?P<last>\d+\.\d+(?:\.\d+)?)")


def releases(text: str) -> list[str]:
    """Return the releases of torch that a range or a list names, from old to new.

    Args:
        text: ``2.12..2.15``, of which the configured index says what there is and the last release
            of each minor version counts; or ``2.12.1,2.13.0``, exact versions.

    Raises:
        MakingError: It is neither, or the index has no release in the range.
    """
    if found := _RANGE.fullmatch(text.strip()):
        first, last = Version(found["first"]), Version(found["last"])
        if last.release[: len(first.release)] < first.release[: len(last.release)]:
            raise MakingError(f"--torch {text}: the older release comes first, as in 2.12..2.15")
        last_of_minor: dict[tuple[int, ...], Version] = {}
        for version in sorted(_available()):
            is_inside = first <= version and version.release[: len(last.release)] <= last.release
            if is_inside and not version.is_prerelease:
                last_of_minor[version.release[:2]] = version
        if not last_of_minor:
            raise MakingError(f"--torch {text}: the index has no such release of torch")
        return [str(version) for version in last_of_minor.values()]
    try:
        return [str(version) for version in sorted({Version(name) for name in text.split(",")})]
    except InvalidVersion as error:
        raise MakingError(
            f"--torch {text}: {error}; expected 2.12..2.15 or 2.12.1,2.13.0"
        ) from None


def is_range(text: str) -> bool:
    """Whether a text names a range, whose releases are those of the index."""
    return bool(_RANGE.fullmatch(text.strip()))


def _available() -> list[Version]:
    """Return the versions of torch that the configured index has for this Python."""
    command = [sys.executable, "-m", "pip", "index", "versions", "torch"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"Available versions: (.*)", done.stdout)
    if done.returncode or not found:
        last = _last_lines(done)
        raise MakingError(f"the index does not say which releases of torch it has: {last}")
    versions = {Version(word.strip()) for word in found[1].split(",")}
    # A build such as 2.13.0+cpu counts where the index has no plain 2.13.0.
    return [v for v in versions if v.local is None or Version(v.public) not in versions]


@dataclass(frozen=True)
class ReleaseEnvironments:
    """Environments with one release of torch each, and the libraries that a model needs.

    Attributes:
        folder: Where they are kept.
        libraries: Distributions next to torch; the installer chooses versions that fit.
        say: Shows a line, since installing takes minutes.
        own: The interpreters that the user has of some releases: nothing is made for these.
    """

    folder: Path
    libraries: Sequence[str] = ()
    say: Callable[[str], None] = print
    own: Mapping[str, str] = field(default_factory=dict)

    def path(self, release: str) -> Path:
        """The folder of the environment of a release."""
        return self.folder / "-".join((f"torch-{release}", *sorted(self.libraries)))

    def _is_there(self, release: str) -> bool:
        return release in self.own or self.path(release).exists()

    def places(self, names: Sequence[str]) -> Iterator[str]:
        """Yield a line for each release: where it is, or would be."""
        for name in names:
            if name in self.own:
                yield f"{name}: {self.own[name]}"
            else:
                how = "is in" if self._is_there(name) else "would be installed into"
                yield f"{name}: {how} {self.path(name)}"

    def remove_unfinished(self) -> None:
        """Remove the environments that killed processes have left unfinished, and say so."""
        for path in remove_unfinished(self.folder):
            self.say(f"removed {path}, which a killed process left unfinished")

    def check_index(self, names: Sequence[str]) -> None:
        """Refuse releases that the configured index does not have, before anything is installed.

        Raises:
            MakingError: The index lacks one that must be installed.
        """
        missing = [Version(name) for name in names if not self._is_there(name)]
        missing = [version for version in missing if not version.is_prerelease]
        if not missing:
            return
        try:
            known = {version.public for version in _available()}
        except MakingError:  # another installer may reach it
            return
        if unknown := [str(version) for version in missing if version.public not in known]:
            newest = max(known, key=Version)
            raise MakingError(
                f"the index has no torch {', '.join(unknown)} for Python "
                f"{platform.python_version()}; its newest release is {newest}"
            )

    def check_disk(self, names: Sequence[str]) -> str:
        """Say how much disk a bisection may take, before anything is installed.

        Args:
            names: The releases to search.

        Returns:
            The sentence to show.

        Raises:
            MakingError: There is less than that.
        """
        missing = [name for name in names if not self._is_there(name)]
        most = min(len(missing), 2 + max(len(names) - 2, 0).bit_length())
        if not most:
            return f"the environments are in {self.folder}"
        disk = next(path for path in (self.folder, *self.folder.parents) if path.exists())
        needed, free = most * BYTES, shutil.disk_usage(disk).free
        plural, each = ("", "") if most == 1 else ("s", " each")
        text = (
            f"up to {most} environment{plural} of about {BYTES / 2**30:.0f} GiB{each} in "
            f"{self.folder}: {needed / 2**30:.0f} GiB, of {free / 2**30:.1f} GiB that are free"
        )
        if needed + RESERVE > free:
            raise MakingError(
                f"{text}, where {RESERVE / 2**30:.0f} GiB must stay free: free some, narrow the "
                "range, or name interpreters that exist with --python"
            )
        return text

    def python(self, release: str) -> str:
        """Return the interpreter of a release. Its environment is made if there is none.

        Raises:
            MakingError: It cannot be made.
        """
        if release in self.own:
            return self.own[release]
        target = self.path(release)
        if not target.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            hidden_folders.leave_out(self.folder)
            making = Path(tempfile.mkdtemp(prefix=f"{UNFINISHED}{os.getpid()}-", dir=self.folder))
            try:
                self.say(f"{release}: installing torch into {target}")
                _make(making, [_requirement(release), *self.libraries])
                making.rename(target)
            finally:
                shutil.rmtree(making, ignore_errors=True)
        return str(target / "bin" / "python")


def _requirement(release: str) -> str:
    """Return what installs a release itself, where the index has it, and no build such as +cpu.

    Such a build satisfies ``==``, and an installer prefers it. Libraries are made for the release.
    """
    try:
        is_listed = Version(release) in _available()
    except MakingError:  # the installer says more
        is_listed = False
    return f"torch{'===' if is_listed else '=='}{release}"


def _make(folder: Path, wanted: Sequence[str]) -> None:
    """Make an environment, with uv where it is on the path. Both take pip's index."""
    python = folder / "bin" / "python"
    if uv := shutil.which("uv"):
        empty = [uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(folder)]
        _run(empty, folder)
        options, variables = pip_settings.for_uv()
        words = [uv, "pip", "install", "--quiet", *options, "--python", str(python), *wanted]
        _run(words, folder, variables)
    else:
        _run([sys.executable, "-m", "venv", "--without-pip", str(folder)], folder)
        pip = [sys.executable, "-m", "pip", "--python", str(python)]
        _run([*pip, "install", "--quiet", "--no-input", *wanted], folder)


def _run(
    command: Sequence[str], folder: Path, variables: Mapping[str, str] = MappingProxyType({})
) -> None:
    done = installer.run(command, folder, variables)
    if done.returncode:
        raise MakingError(f"{' '.join(command[-3:])} failed: {_last_lines(done)}")


def _last_lines(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last lines of an installer's output, and of pip's the errors, no warnings."""
    lines = (done.stderr or done.stdout).strip().splitlines()
    errors = [line for line in lines if line.startswith("ERROR:")]
    return "\n".join((errors or lines)[-_LINES:])
