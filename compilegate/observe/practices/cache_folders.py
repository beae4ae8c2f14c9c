"""Folders of Inductor's caches: use one, count what was found in it, and damage a copy of one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import torch._dynamo.utils as dynamo
from torch._inductor.utils import clear_caches

from compilegate.observe.practices.bench import Bench, StepFacts
from compilegate.records.wording import counted

#: The file that a fresh process writes to its folder once it is warm.
READY = "ready"

#: The folders of graphs in a cache: Inductor's and AOTAutograd's.
_GRAPHS = ("fxgraph", "aotautograd")
#: The endings of files that hold machine code.
_KERNELS = (".so", ".cubin", ".hsaco")


@dataclass(frozen=True)
class Lookups:
    """How often Inductor looked up a graph in its cache.

    Attributes:
        hits: Graphs whose code was found.
        misses: Graphs whose code was not found, and was stored.
        bypasses: Graphs that the cache does not accept.
    """

    hits: int
    misses: int
    bypasses: int

    @property
    def total(self) -> int:
        """The graphs that were looked up, or bypassed."""
        return self.hits + self.misses + self.bypasses

    def __str__(self) -> str:
        found = (
            counted(self.hits, "hit"),
            counted(self.misses, "miss", "misses"),
            counted(self.bypasses, "bypass", "bypasses"),
        )
        return ", ".join(each for each in found if not each.startswith("0 ")) or "none"


def lookups() -> Lookups:
    """Return the lookups since the last reset of the compiler."""
    counted = dynamo.counters["inductor"]
    return Lookups(*(int(counted[f"fxgraph_cache_{what}"]) for what in ("hit", "miss", "bypass")))


def note_found(facts: StepFacts, graphs: int) -> None:
    """Note whether the code of each graph was found, and what AOTAutograd made of it.

    AOTAutograd's cache does not accept each graph that Inductor's does. That is no miss.

    Args:
        facts: Receives the difference.
        graphs: How many graphs the process looked up that filled the cache.
    """
    wanted = f"a hit for {'each of ' * (graphs != 1)}{counted(graphs, 'graph')}"
    is_found = lookups() == Lookups(graphs, 0, 0)
    facts.require("lookups in the cache", wanted, wanted if is_found else str(lookups()))
    missed = int(dynamo.counters["aot_autograd"]["autograd_cache_miss"])
    text = counted(missed, "miss", "misses") if missed else "no miss"
    facts.require("the cache of AOTAutograd", "no miss", text)


def note_not_found(facts: StepFacts) -> None:
    """Note whether a graph was found, although something changed that its code depends on."""
    hits = lookups().hits
    facts.require("lookups in the cache", "no hit", counted(hits, "hit") if hits else "no hit")


@contextmanager
def in_use(bench: Bench, folder: Path) -> Iterator[None]:
    """Use a folder as cache, with an empty compiler that has loaded no code, as in a new process.

    Args:
        bench: Counts the graphs.
        folder: The folder, which need not exist.
    """
    bench.forget_compiled()
    places = {"TORCHINDUCTOR_CACHE_DIR": str(folder), "TRITON_CACHE_DIR": str(folder / "triton")}
    with mock.patch.dict(os.environ, places):
        clear_caches()
        try:
            yield
        finally:
            bench.forget_compiled()
            clear_caches()


def with_truncated_graphs(filled: Path, copy: Path) -> None:
    """Copy a cache, and cut the graphs of the copy in half, as a full disk does."""
    shutil.copytree(filled, copy)
    for path in _files(copy):
        if path.relative_to(copy).parts[0] in _GRAPHS:
            os.truncate(path, path.stat().st_size // 2)


def with_empty_kernels(filled: Path, copy: Path) -> bool:
    """Copy a cache, and empty the kernels of the copy, as a compiler that is killed leaves them.

    Returns:
        Whether the cache has kernels.
    """
    shutil.copytree(filled, copy)
    kernels = [path for path in _files(copy) if path.suffix in _KERNELS]
    for path in kernels:
        os.truncate(path, 0)
    return bool(kernels)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
