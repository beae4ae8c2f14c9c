"""What lines of the user's code compute, and the first line that differs between two sides."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from compilegate.observe.compare.distances import distances
from compilegate.observe.dissect.graph import Frame
from compilegate.records.part import FEW, LineDiffers

#: How far results may be apart, as a share of the largest number: both sides run the same kernels.
_APART = 1e-5
#: As many elements are compared first, which tells most tensors apart.
_SAMPLE = 16
#: Bytes of the results of a call that are kept; what comes later is not compared.
_MOST = 1 << 30
#: The most numbers that are written down.
_FEW = 4


@dataclass(frozen=True)
class Made:
    """A tensor that a line of the user's code computes.

    Attributes:
        line: File and number of the line; empty for what a graph is given.
        code: Its text.
        caller: The line that calls its function, if that is known.
        module: The path of the user's submodule that runs the line; empty if that is not known.
        value: A copy of the tensor.
    """

    line: str
    code: str
    caller: str
    module: str
    value: torch.Tensor

    def __str__(self) -> str:
        """The line and its text."""
        return f"{self.line}: {self.code}"

    @functools.cached_property
    def allowed(self) -> float:
        """How far another tensor may be apart."""
        value = self.value.detach()
        if not value.is_floating_point() or not value.numel():
            return 0.0
        share = max(_APART, torch.finfo(value.dtype).eps)
        return share * float(value.abs().nan_to_num(0.0, 0.0, 0.0).max())

    @functools.cached_property
    def sample(self) -> torch.Tensor:
        """A few of its elements."""
        flat = self.value.detach().flatten()
        return flat[:: max(1, flat.numel() // _SAMPLE)]

    def is_like(self, other: Made, *, with_grad: bool = False) -> bool:
        """Whether another tensor is the same.

        Args:
            other: The other tensor.
            with_grad: Whether it must require a gradient if this one does, and else must not.
        """
        one, two = self.value, other.value
        if (one.dtype, one.shape) != (two.dtype, two.shape):
            return False
        if with_grad and one.requires_grad != two.requires_grad:
            return False
        pairs = ((self.sample, other.sample), (one.detach(), two.detach()))
        return all(
            torch.allclose(ours, theirs, rtol=0.0, atol=self.allowed, equal_nan=True)
            if one.is_floating_point() or one.is_complex()
            else torch.equal(ours, theirs)
            for ours, theirs in pairs
        )


@dataclass
class LineResults:
    """What the lines of the user's code compute in one call.

    Attributes:
        made: The tensors, in the order in which they are computed.
        reached: The lines that run, by file and number.
        writes: The lines that write to a tensor.
        touched: The line that makes each output, and the first to read each other tensor, by name.
        changed: The lines that change each attribute or variable, by its name.
    """

    made: list[Made] = field(default_factory=list)
    reached: set[str] = field(default_factory=set)
    writes: dict[str, None] = field(default_factory=dict)
    touched: dict[str, str] = field(default_factory=dict)
    changed: dict[str, list[str]] = field(default_factory=dict)
    _is_open: bool = False
    _bytes: int = 0

    def add(
        self, frames: Sequence[Frame], result: Any, *, module: str = "", writes: bool = False
    ) -> None:
        """Keep copies of the tensors in a result.

        Args:
            frames: What computes it: the innermost line of the user's code is the last.
            result: The result.
            module: The path of the user's submodule that computes it, if that is known.
            writes: Whether it writes to a tensor.
        """
        line, code = (frames[-1].source, frames[-1].text) if frames else ("", "")
        caller = f"{frames[-2].source}: {frames[-2].text}" if frames[1:] else ""
        if self._is_open and writes and frames:
            self.writes[f"{line}: {code}"] = None
        for value in pytree.tree_leaves(result) if self._is_open else ():
            if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
                continue
            self._bytes += value.numel() * value.element_size()
            if self._bytes <= _MOST:
                copy = value.detach().clone().requires_grad_(value.requires_grad)
                self.made.append(Made(line, code, caller, module, copy))

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Keep results in a ``with`` block."""
        self._is_open = True
        try:
            yield
        finally:
            self._is_open = False

    @property
    def of_lines(self) -> list[Made]:
        """The tensors of which the line is known."""
        return [one for one in self.made if one.line]


def differs_from_eager(graph: LineResults, eager: LineResults) -> LineDiffers:
    """Return the first line that a graph of Dynamo computes otherwise than eager.

    Eager may compute more: Dynamo leaves out what nothing reads.

    Args:
        graph: The results of the graph's nodes.
        eager: Those of the functions that eager calls.
    """
    made, expected = graph.of_lines, eager.of_lines
    unused: dict[str, list[int]] = defaultdict(list)
    for index, one in enumerate(expected):
        unused[one.line].append(index)
    unseen: dict[str, None] = {}
    last = -1  # of eager's results, the last one that was the same
    for number, one in enumerate(made):
        indices = unused[one.line]
        same = next((i for i in indices if one.is_like(expected[i], with_grad=True)), None)
        if same is not None:
            indices.remove(same)
            last = max(last, same)
        elif not indices and one.line in eager.reached:
            unseen[str(one)] = None  # eager may compute it with other functions, as NumPy's
        else:
            others = [expected[index] for index in indices]
            modules = _modules(one, others)
            right = others[0] if modules else _nearest(one, others)
            left_out = _before(one, expected[last + 1 :], {each.line for each in made})
            found = _found(one, right, one, compared=number - len(unseen))
            names = tuple(dict.fromkeys(map(str, left_out)))
            called_at = left_out[0].caller if left_out else ""
            return replace(
                found,
                left_out=names,
                left_out_at=called_at if called_at != found.caller else "",
                unseen=tuple(unseen),
                modules=modules,
            )
    compared = len(made) - len(unseen)
    return LineDiffers(unseen=tuple(unseen), lines=_few(made), compared=compared)


def differs_from_dynamo(graph: LineResults, dynamo: LineResults) -> LineDiffers:
    """Return the first line that a graph of AOTAutograd computes otherwise than Dynamo's graph.

    It may compute more, and leaves out what changes nothing or what nothing reads: a value may be
    that of another line, and a line may have none.

    Args:
        graph: What AOTAutograd's graphs are given, and the results of their nodes.
        dynamo: The results of the nodes of Dynamo's graphs.
    """
    made = dynamo.of_lines
    for number, one in enumerate(made):
        others = [other for other in graph.of_lines if other.line == one.line]
        if others and not any(map(one.is_like, graph.made)):
            return _found(one, one, _nearest(one, others), compared=number)
    return LineDiffers(compared=len(made), lines=_few(made), writes=tuple(dynamo.writes))


def _few(made: Sequence[Made]) -> tuple[str, ...]:
    """Return the lines that compute some tensors; none if they are many."""
    lines = tuple(dict.fromkeys(map(str, made)))
    return lines if len(lines) <= FEW else ()


def _found(line: Made, right: Made | None, wrong: Made | None, *, compared: int) -> LineDiffers:
    return LineDiffers(
        source=line.line,
        code=line.code,
        caller=line.caller,
        right=_shown(right.value, wrong.value if wrong else None) if right else "",
        wrong=_shown(wrong.value, right.value if right else None) if wrong else "",
        compared=compared,
    )


def _modules(wrong: Made, others: Sequence[Made]) -> tuple[str, ...]:
    """Return the submodule in which eager runs a line next, and that of the graph, if another."""
    pair = tuple(each.module for each in (*others[:1], wrong))
    return pair if all(pair) and len({*pair}) == 2 else ()


def _nearest(one: Made, others: Sequence[Made]) -> Made | None:
    """Return the tensor that is most like another one; None if there is none."""

    def apart(other: Made) -> tuple[bool, float]:
        if other.value.shape != one.value.shape:
            return True, 0.0
        return False, float(distances(one.value, other.value).mean())

    return min(others, key=apart, default=None)


def _before(wrong: Made, eager: Sequence[Made], lines: set[str]) -> list[Made]:
    """Return what eager alone computes before a line: one that no graph has, or once more.

    Args:
        wrong: What a graph computes in the line.
        eager: What eager computes after the last result that is the same.
        lines: All lines of the graph. Where eager does not run the line, the first of them ends it.
    """
    ends = {wrong.line} if any(one.line == wrong.line for one in eager) else lines
    return [*itertools.takewhile(lambda one: one.line not in ends, eager)]


def _shown(value: torch.Tensor, other: torch.Tensor | None) -> str:
    """Return what is different of a tensor: its dtype, its shape, its gradient, or a number."""
    if other is None or (value.dtype, value.shape) != (other.dtype, other.shape):
        return f"{str(value.dtype).removeprefix('torch.')} of shape {tuple(value.shape)}"
    if value.requires_grad != other.requires_grad:
        return "a tensor that requires " + ("a" if value.requires_grad else "no") + " gradient"
    if value.numel() <= _FEW:
        return ", ".join(f"{number:g}" for number in value.flatten().tolist())
    worst = distances(value, other).argmax()
    index = [int(i) for i in torch.unravel_index(worst, value.shape)]
    return f"{value.flatten()[worst].item():g} at {index}"
