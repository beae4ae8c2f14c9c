"""The memory of the machine that a process may use, as the kernel accounts for it.

Both sides read it: a child whose allocation fails, and the pytest side when a child was killed.
https://docs.kernel.org/admin-guide/cgroup-v2.html, memory.events
https://docs.kernel.org/admin-guide/cgroup-v1/memory.html
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
from collections.abc import Iterator
from pathlib import Path

#: cgroup v1 writes this many bytes or more where there is no limit.
_NO_LIMIT = 1 << 60
#: By the version of cgroups: the files of the limit, of the peak, and of the counter of kills.
_FILES = {
    "cgroup2": ("memory.max", "memory.peak", "memory.events"),
    "cgroup": ("memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control"),
}


class MemoryAccount:
    """The limits of a process, and how often the kernel has killed for lack of memory.

    Args:
        pid: The process; this one by default. It need not live on.
        root: The root of the file system.
    """

    def __init__(self, pid: int | None = None, root: Path = Path("/")) -> None:
        self._proc = root / "proc"
        name = "self" if pid is None else str(pid)
        self._version, self._groups = self._find(_read(self._proc / name / "cgroup"), root)
        self._address_space = resource.RLIM_INFINITY
        with contextlib.suppress(OSError):  # it has ended
            self._address_space = resource.prlimit(pid or os.getpid(), resource.RLIMIT_AS)[0]

    def _find(self, membership: str, root: Path) -> tuple[str, list[Path]]:
        """Return the version of the cgroups that limit memory, and their folders, inner first."""
        for version, mounted, top in self._mounts():
            wanted = (
                r"^0::(.*)$" if version == "cgroup2" else r"^\d+:[^:\n]*\bmemory\b[^:\n]*:(.*)$"
            )
            if (found := re.search(wanted, membership, re.MULTILINE)) is None:
                continue
            top_folder = root / mounted.lstrip("/")
            inside = "/" + found[1].removeprefix(top.rstrip("/")).lstrip("/")
            folder = top_folder / inside.lstrip("/")
            # A container may see its own group as the root, and its path from outside.
            folder = folder if folder.is_dir() else top_folder
            groups = [folder, *folder.parents]
            groups = groups[: groups.index(top_folder) + 1]
            if any((group / _FILES[version][0]).exists() for group in groups):
                return version, groups
        return "cgroup2", []

    def _mounts(self) -> Iterator[tuple[str, str, str]]:
        """Yield version, mount point and the group that is mounted, of each that may hold memory.

        https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html
        """
        for line in _read(self._proc / "self" / "mountinfo").splitlines():
            left, _, right = line.partition(" - ")
            fields, kind = left.split(), right.split()
            if kind[:1] == ["cgroup2"] or (
                kind[:1] == ["cgroup"] and "memory" in kind[-1].split(",")
            ):
                yield kind[0], fields[4], fields[3]

    def kills(self) -> int | None:
        """Return how many processes the kernel has killed for lack of memory; None if unknown.

        They are those of the process's own cgroup. Without cgroups, they are the machine's.
        """
        sources = [group / _FILES[self._version][2] for group in self._groups[:1]]
        for path in (*sources, self._proc / "vmstat"):
            if found := re.search(r"^oom_kill (\d+)$", _read(path), re.MULTILINE):
                return int(found[1])
        return None

    def describe(self) -> str:
        """Return the limits and the peak in words: ``its cgroup is limited to 2.0 GiB …``."""
        limit_file, peak_file, _ = _FILES[self._version]
        limits = ((_number(group / limit_file) or _NO_LIMIT, group) for group in self._groups)
        limit, group = min(limits, key=lambda pair: pair[0], default=(_NO_LIMIT, Path()))
        parts = []
        if limit < _NO_LIMIT:
            peak = _number(group / peak_file)
            used = f", of which {gib(peak)} were used at most" if peak is not None else ""
            parts.append(f"its cgroup is limited to {gib(limit)}{used}")
        if self._address_space != resource.RLIM_INFINITY:
            parts.append(f"its address space (RLIMIT_AS) is limited to {gib(self._address_space)}")
        total = re.search(r"^MemTotal:\s+(\d+) kB", _read(self._proc / "meminfo"), re.MULTILINE)
        if not parts and total is not None:
            parts.append(f"the machine has {gib(1024 * int(total[1]))}")
        return "; ".join(parts)


def own_peak_bytes() -> int:
    """Return the most memory that this process had resident."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def gib(size: int) -> str:
    """Return a number of bytes in words: ``2.0 GiB``."""
    return f"{size / 2**30:.1f} GiB"


def _number(path: Path) -> int | None:
    text = _read(path).strip()  # "max" where there is no limit
    return int(text) if text.isdecimal() else None


def _read(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(errors="replace")
    return ""
