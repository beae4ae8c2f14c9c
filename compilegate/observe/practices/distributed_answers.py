"""What the ranks of the practice ``distributed`` leave in a folder, and how it is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from compilegate.observe.practices.distributed_ways import RANKS, Way

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Answer:
    """What one rank found in one way.

    Attributes:
        steps: The gradients after each step: of parameters the mean over ranks, of inputs its own.
        weights: The weights after a step of an optimizer.
        compilations: How many code objects each step compiled.
        graphs: How many graphs were captured.
        breaks: The reasons and places of graph breaks.
        operators: The names of the nodes of each graph, without its inputs.
    """

    steps: tuple[Tensors, ...]
    weights: Tensors
    compilations: tuple[int, ...]
    graphs: int
    breaks: tuple[str, ...]
    operators: tuple[tuple[str, ...], ...]

    def leave(self, folder: Path, way: Way, rank: int, barrier: Callable[[], object]) -> None:
        """Write the answer of a rank. There is a file of its name only when it is whole.

        Except for the first rank, it has only the tensors that differ from those of the first.

        Args:
            folder: The folder of all ranks.
            way: The way.
            rank: The rank.
            barrier: Waits for all ranks. Each calls it once.
        """
        groups = self._groups()
        if rank != 0:
            barrier()
            first = read(folder, way, next(iter(self.weights.values())).device)[0]
            pairs = zip(groups, first._groups(), strict=True)
            groups = tuple(_unlike(ours, theirs) for ours, theirs in pairs)
        names = [[*group] for group in self._groups()]
        rest = (self.compilations, self.graphs, self.breaks, self.operators)
        part = _file(folder, way, rank).with_suffix(".part")
        torch.save((names, groups, *rest), part)
        part.replace(_file(folder, way, rank))
        if rank == 0:
            barrier()

    def _groups(self) -> tuple[Tensors, ...]:
        return (*self.steps, self.weights)


def are_identical(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Whether two tensors have the same dtype and the same numbers.

    ``torch.equal`` is true for equal numbers of different dtypes, too.
    """
    return ours.dtype == theirs.dtype and torch.equal(ours, theirs)


def _unlike(ours: Tensors, first: Tensors) -> Tensors:
    """Return the tensors that the first rank does not have bit by bit."""
    return {
        name: value
        for name, value in ours.items()
        if name not in first or not are_identical(value, first[name])
    }


def read(folder: Path, way: Way, device: torch.device | str) -> list[Answer]:
    """Return the answers for a way, of the first ranks that have left one.

    Args:
        folder: The folder of all ranks.
        way: The way.
        device: Where the tensors are wanted.
    """
    found: list[Answer] = []
    for rank in range(RANKS):
        file = _file(folder, way, rank)
        if not file.exists():
            break
        names, groups, compilations, *captured = torch.load(
            file, map_location=device, weights_only=True
        )
        first = found[0]._groups() if found else groups
        *steps, weights = (
            {name: own[name] if name in own else others[name] for name in of_group}
            for of_group, own, others in zip(names, groups, first, strict=True)
        )
        found.append(Answer(tuple(steps), weights, compilations, *captured))
    return found


def is_complete(folder: Path, way: Way) -> bool:
    """Whether every rank has left its answer for a way."""
    return all(_file(folder, way, rank).exists() for rank in range(RANKS))


def _file(folder: Path, way: Way, rank: int) -> Path:
    letters = "".join(filter(str.isalnum, way.name))
    return folder / f"{letters}-{rank}.pt"


def note_stage(folder: Path, rank: int, stage: str) -> None:
    """Write what a rank does from here on."""
    (folder / f"stage-{rank}").write_text(stage)


@dataclass(frozen=True)
class RankFailure:
    """The error that ends a rank.

    Attributes:
        text: The error, with its class.
        held_by_others: The share of the memory that other processes held when it ran out; None if
            that is unknown, 0 for any other error.
    """

    text: str
    held_by_others: float | None = 0.0


def note_error(folder: Path, rank: int, failure: RankFailure) -> None:
    """Write the error that ends a rank."""
    (folder / f"error-{rank}").write_text(json.dumps([failure.text, failure.held_by_others]))


def stages(folder: Path) -> Mapping[int, str]:
    """Return what each rank does."""
    return _notes(folder, "stage")


def errors(folder: Path) -> Mapping[int, RankFailure]:
    """Return the errors that ended ranks, the first first: others follow from it."""
    notes = _notes(folder, "error").items()
    return {rank: RankFailure(*json.loads(note)) for rank, note in notes}


def _notes(folder: Path, kind: str) -> Mapping[int, str]:
    """Return the notes of a kind by rank, the oldest first."""
    files = {rank: folder / f"{kind}-{rank}" for rank in range(RANKS)}
    made = {rank: file for rank, file in files.items() if file.exists()}
    order = sorted(made, key=lambda rank: made[rank].stat().st_mtime_ns)
    return {rank: made[rank].read_text() for rank in order}
