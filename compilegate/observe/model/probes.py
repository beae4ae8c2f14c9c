"""Probes: changes to the arguments of a call that hardly any test of a model makes.

A probe keeps the structure, the dtypes and the sizes of the arguments. It changes the memory layout
of their tensors, or puts values into them that a normal distribution never draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from compilegate.observe import nested
from compilegate.observe.floating import has_arithmetic
from compilegate.observe.model import cast_weights, integer_use
from compilegate.observe.model.losses import LOSSES, Loss
from compilegate.observe.model.state_changes import StateChange, change_others, swap_integers
from compilegate.records.case import Case
from compilegate.zoo.example import Call

#: Changes one tensor of a call. Returns the tensor itself where the change does not suit it.
Change = Callable[[Tensor], Tensor]

_AUTOCAST = {"f16": torch.float16, "bf16": torch.bfloat16}
#: The square of this number, and a sum of many such squares, do not overflow in float32.
_LARGE = 2.0**54
#: The largest number of a dtype overflows in sums, depending on their order. Numbers that are
#: smaller by this factor do not, unless a result changes with the factor.
_ROOM = 2.0**-10
#: The seed of the factors that scale state.
_SEED = 0


@dataclass(frozen=True)
class Probe:
    """A change to the arguments of a call.

    Attributes:
        name: What the call shows, as verdicts name it.
        change: Changes one tensor; None for a call whose sizes or number make the difference.
        repeats: How often both sides make the call before it is compared.
        overlaps: Whether elements of an input share memory. What a write to it gives depends on the
            order in which elements are written. The reference gets the same numbers without that:
            forward-mode derivatives of eager are wrong where elements share memory.
        loss: The form of the loss from which the backward starts; None for the usual one.
        changes_numbers: Whether it changes the floating numbers that modules have as attributes.
        changes_state: Changes parameters and buffers; None if they stay.
        without_gradients: Whether floating inputs require no gradients.
        makes_inputs: Whether the recipe has to make other inputs, of another size or other numbers.
        refills: Whether its tensors are those of the repetition before it, with other numbers.
        rival: Another change. Where it moves a NaN or an infinity of eager's results, overflow
            decides there, and nothing is compared.
        is_extreme: Whether the values are such that overflow may decide.
        may_overflow: Whether compiled code may overflow where eager does not, because it computes
            in another order: a variance as a mean of squares, for example.
        is_integral: Whether it changes integers. A model that uses them as sizes cannot take other
            values, and one that uses them as indices only takes those in range.
        has_zeros: Whether the sign of zeros in the output is compared.
        shows_gradients: Whether gradients are compared. PyTorch does not say to which of several
            NaN or infinities a maximum passes its gradient.
    """

    name: str
    change: Change | None = None
    repeats: int = 0
    is_extreme: bool = False
    may_overflow: bool = False
    is_integral: bool = False
    has_zeros: bool = False
    shows_gradients: bool = True
    overlaps: bool = False
    loss: Loss | None = None
    changes_numbers: bool = False
    changes_state: StateChange | None = None
    without_gradients: bool = False
    makes_inputs: bool = False
    refills: bool = False
    rival: Change | None = None

    def apply(self, call: Call, *, dense: bool = False) -> None:
        """Change the tensors among the arguments of a call.

        Args:
            call: The call.
            dense: Whether changed tensors have memory of their own for each element.
        """
        change = self._dense if dense and self.overlaps else self._changed
        call.args = nested.mapped(call.args, change)
        call.kwargs = nested.mapped(call.kwargs, change)

    def _dense(self, tensor: Tensor) -> Tensor:
        changed = self._changed(tensor)
        return (
            changed if changed is tensor else changed.clone(memory_format=torch.contiguous_format)
        )

    def _changed(self, tensor: Tensor) -> Tensor:
        if self.change is None or type(tensor) is not Tensor or tensor.layout is not torch.strided:
            return tensor
        with torch.no_grad():
            return self.change(tensor)

    def suits(self, call: Call) -> bool:
        """Whether the probe changes a tensor among the arguments of a call."""
        given = [*nested.leaves(call.args, ""), *nested.leaves(call.kwargs, "")]
        tensors = [leaf for _, leaf in given if isinstance(leaf, Tensor)]
        return any(self._changed(tensor) is not tensor for tensor in tensors)

    @property
    def has_extreme_floats(self) -> bool:
        """Whether it has numbers with which PyTorch's own operators may end the process."""
        return self.is_extreme and not self.is_integral

    @property
    def changes_inputs(self) -> bool:
        """Whether the probe changes tensors, and not the sizes or the number of calls alone."""
        return self.change is not None

    def rivalled(self) -> Probe:
        """Return the probe with the other change."""
        assert self.rival is not None
        return replace(self, change=self.rival, rival=None)


def layouts() -> tuple[Probe, ...]:
    """Return the probes that change how tensors lie in memory."""
    return (
        Probe("transposed inputs", _transposed),
        Probe("inputs with the channels last", _channels_last),
        Probe("every second element of a larger memory, with an offset", _spaced),
        Probe("inputs expanded from one row", _expanded, overlaps=True),
        Probe("inputs whose rows overlap in memory", _overlapping, overlaps=True),
    )


def of_losses(case: Case) -> tuple[Probe, ...]:
    """Return the probes whose loss has another form; none in *infer*.

    A user has such a loss who masks rows, takes one of several heads, averages over the batch, or
    scales a loss until it overflows.
    """
    return tuple(Probe(one.name, loss=one) for one in LOSSES) if case.phase == "train" else ()


def of_state(case: Case) -> tuple[Probe, ...]:
    """Return the probes that change what a model reads in each call and nothing else changes.

    In *infer*, floating numbers are scaled before the last calls. In *train*, only those with
    gradients move, so the others are scaled here.
    """
    trains = case.phase == "train"
    other = partial(change_others, scales=trains, device=case.device, seed=_SEED)
    return (
        Probe("other integers in buffers", changes_state=swap_integers, is_integral=True),
        Probe("other masks and zeros in buffers", changes_state=other),
    )


def extremes(case: Case) -> tuple[Probe, ...]:
    """Return the probes that change a few values of inputs.

    Args:
        case: The case. In half precision, code that keeps an intermediate result in float32 may
            overflow later than eager, so the largest numbers are left out. In float16, 32 times a
            number may overflow.
    """
    narrow = cast_weights.half(case) or _AUTOCAST.get(case.precision, torch.float32)
    tiny = torch.finfo(narrow).smallest_normal / 4
    probes: tuple[Probe, ...] = (
        Probe("NaN in the first row", _elements(torch.nan), is_extreme=True, shows_gradients=False),
        Probe(
            "infinities in two rows",
            _elements(torch.inf, -torch.inf),
            is_extreme=True,
            shows_gradients=False,
        ),
        Probe(
            "a row of zeros and one of denormals",
            _rows_of(0.0, tiny),
            is_extreme=True,
            has_zeros=True,
        ),
        Probe(
            "integers at both ends of their range",
            _largest_integers,
            is_extreme=True,
            is_integral=True,
            shows_gradients=False,
        ),
        Probe(
            "a row of False and one of True",
            _whole_rows_of_booleans,
            is_extreme=True,
            shows_gradients=False,
        ),
    )
    if narrow == torch.float16:
        return probes
    probes += (Probe("numbers 32 times as large", lambda tensor: _multiplied(tensor, 32.0)),)
    if narrow != torch.float32:
        return probes
    largest = torch.finfo(narrow).max
    # Both in one sum must not cancel: what is left would depend on its order.
    large, larger, near, at = (
        _elements(size, -size / 2) for size in (_LARGE, _LARGE / _ROOM, _ROOM * largest, largest)
    )
    return (
        *probes,
        Probe("numbers 1,024 times smaller", lambda tensor: _multiplied(tensor, 2.0**-10)),
        Probe("large numbers", large, is_extreme=True, rival=larger),
        Probe("numbers near the largest", near, is_extreme=True, may_overflow=True, rival=at),
    )


def _multiplied(tensor: Tensor, factor: float) -> Tensor:
    return tensor * factor if has_arithmetic(tensor) and tensor.numel() else tensor


def _transposed(tensor: Tensor) -> Tensor:
    if tensor.dim() < 2 or tensor.numel() < 2:
        return tensor
    backwards = [*reversed(range(tensor.dim()))]
    return tensor.permute(backwards).contiguous().permute(backwards)


def _channels_last(tensor: Tensor) -> Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    memory_format = formats.get(tensor.dim())
    if memory_format is None or tensor.is_contiguous(memory_format=memory_format):
        return tensor
    return tensor.contiguous(memory_format=memory_format)


def _spaced(tensor: Tensor) -> Tensor:
    """Return the same numbers; what lies between them is NaN, or another element if integer."""
    if not tensor.numel():
        return tensor
    memory = tensor.new_empty((*tensor.shape, 2))
    memory[..., 0] = torch.nan if tensor.is_floating_point() else tensor.flatten()[0]
    memory[..., 1] = tensor
    return memory[..., 1]


def _expanded(tensor: Tensor) -> Tensor:
    if not tensor.dim() or tensor.shape[0] < 2:
        return tensor
    return tensor[:1].clone().expand_as(tensor)


def _overlapping(tensor: Tensor) -> Tensor:
    """Return windows over the elements, each of which begins one element after the last.

    Integers stay: a window holds the end of one row and the beginning of the next, so that offsets
    would no longer rise. A GPU's kernel that asserts it loses its context.
    """
    if (
        integer_use.is_integer(tensor)
        or tensor.dim() < 2
        or tensor.shape[0] < 2
        or not tensor.numel()
    ):
        return tensor
    flat = tensor.clone(memory_format=torch.contiguous_format)
    return flat.as_strided(tensor.shape, (1, *flat.stride()[1:]))


def _elements(*values: float) -> Change:
    """Put a value into the middle of the first row, the next one into the second, and so on."""

    def write(rows: Tensor) -> None:
        for row, value in zip(rows[: len(values)], values, strict=False):
            row[row.numel() // 2] = value

    return _written(write)


def _largest_integers(tensor: Tensor) -> Tensor:
    """Put the largest number and the least that can be negated into the first and the last rows.

    The least number of all, divided by −1, kills the process. In the last rows, they are the last
    elements: Inductor computes those that fill no vector by other code.
    """
    if not integer_use.is_integer(tensor) or not tensor.dim() or not tensor.numel():
        return tensor
    largest = torch.iinfo(tensor.dtype).max
    least = -largest if torch.iinfo(tensor.dtype).min else 0
    changed = tensor.clone(memory_format=torch.contiguous_format)
    rows = changed.view(len(changed), -1)
    for row, value in zip(rows[:2], (largest, least), strict=False):
        row[row.numel() // 2] = value
    for row, value in zip(list(rows[-2:])[::-1], (largest, least), strict=False):
        row[-1] = value
    return changed


def _whole_rows_of_booleans(tensor: Tensor) -> Tensor:
    """Fill the first row with False and the second with True: a mask may hide all of a row."""
    if tensor.dtype != torch.bool or not tensor.dim() or not tensor.numel():
        return tensor
    changed = tensor.clone(memory_format=torch.contiguous_format)
    for row, value in zip(changed[:2], (False, True), strict=False):
        row.fill_(value)
    return changed


def _rows_of(*values: float) -> Change:
    """Fill the first row with a value of alternating sign, the second with the next one."""

    def write(rows: Tensor) -> None:
        for row, value in zip(rows[: len(values)], values, strict=False):
            row[::2], row[1::2] = -value, value

    return _written(write)


def _written(write: Callable[[Tensor], None]) -> Change:
    """Return a change that writes to the flat rows of a copy of a floating tensor."""

    def change(tensor: Tensor) -> Tensor:
        if not has_arithmetic(tensor) or not tensor.dim() or not tensor.numel():
            return tensor
        changed = tensor.clone(memory_format=torch.contiguous_format)
        write(changed.view(len(changed), -1))
        return changed

    return change
