"""Prepare the arguments of a subject's calls: on its device, in its dtype, with gradients."""

from __future__ import annotations

from collections.abc import Collection

import torch

from compilegate.observe import nested
from compilegate.observe.floating import has_arithmetic
from compilegate.observe.model import cast_weights
from compilegate.observe.model.calls import (
    PlannedCall,
    arguments,
    has_fixed_inputs,
    input_tensors,
    reverse_rows,
)
from compilegate.observe.model.changed_numbers import ChangedNumbers
from compilegate.observe.model.given_arguments import GivenArguments
from compilegate.observe.model.losses import Loss
from compilegate.observe.model.seeding import seed_everything
from compilegate.records.case import Case
from compilegate.zoo.example import Call, Example


class Preparation:
    """Prepares the arguments of all calls of one subject.

    Args:
        example: What the recipe returned.
        case: The case, which determines the device, and the dtype of floating arguments.
        dtype: The dtype of a reference, to which they are cast then; None keeps that of the case.
        seed: The call with number ``index`` has the seed ``seed + 1 + index``.
        input_gradients: Whether floating inputs require gradients.
        written_inputs: The names of inputs that must not require gradients, because the model
            writes to them.
    """

    def __init__(
        self,
        example: Example,
        case: Case,
        dtype: torch.dtype | None,
        seed: int,
        *,
        input_gradients: bool,
        written_inputs: Collection[str],
    ) -> None:
        self._example = example
        self._given = GivenArguments(example)
        self._seed, self._is_reference = seed, dtype is not None
        self._input_gradients = input_gradients
        self._written_inputs = written_inputs
        self._casts = [
            nested.Recast(case.device, to) for to in (cast_weights.half(case), dtype) if to
        ] or [nested.Recast(case.device, None)]
        #: A call, and the one whose forward runs before the backward of the first.
        self._overlapping: tuple[Call, Call] | None = None
        #: A call whose loss has another form.
        self._with_loss: tuple[Call, Loss] | None = None
        #: The tensors of a call that the next call gets again, with other numbers, by path.
        self._refilled: dict[str, torch.Tensor] = {}
        #: What a probing call has changed in modules. The next call restores it.
        self._changed: ChangedNumbers | None = None

    def prepare(self, planned: PlannedCall) -> Call:
        """Return the arguments of a call, with fresh values that depend only on its number.

        A probing call that changes numbers of modules does so from now to the next call.
        """
        if self._changed is not None:
            self._changed.put_back()
            self._changed = None
        seed_everything(self._seed + 1 + planned.index)
        call = self._arguments(planned)
        if planned.overlaps:
            self._overlapping = (call, self._another_like(call, planned))
        if planned.probe is not None and planned.probe.loss is not None:
            self._with_loss = (call, planned.probe.loss)
        if planned.probe is not None and planned.probe.changes_numbers:
            self._changed = ChangedNumbers(self._example.module)
        if planned.index % 2 and not planned.is_probing and has_fixed_inputs(self._example):
            reverse_rows([*input_tensors(call).values()])
        if planned.probe is not None and planned.probe.refills and not self._is_reference:
            return self._refill(call)
        self._refilled = {}
        return call

    def overlapping(self, call: Call) -> list[Call]:
        """Return a call, and the call whose forward runs before its backward, if there is one."""
        if self._overlapping is not None and self._overlapping[0] is call:
            return [*self._overlapping]
        return [call]

    def loss_of(self, call: Call) -> Loss | None:
        """Return the form of a call's loss; None for the usual one."""
        is_known = self._with_loss is not None and self._with_loss[0] is call
        return self._with_loss[1] if self._with_loss is not None and is_known else None

    def _refill(self, call: Call) -> Call:
        """Give every second call the tensors of the call before it, filled with its own numbers.

        A service keeps one tensor for its inputs, and copies each request into it.
        """
        kept, fresh = self._refilled, input_tensors(call)
        self._refilled = {} if kept else fresh
        used = {
            id(tensor): kept[name]
            for name, tensor in fresh.items()
            if name in kept and _can_hold(kept[name], tensor)
        }

        def written(tensor: torch.Tensor) -> torch.Tensor:
            if id(tensor) not in used:
                return tensor
            with torch.no_grad():
                used[id(tensor)].grad = None
                return used[id(tensor)].copy_(tensor)

        call.args, call.kwargs = (
            nested.mapped(call.args, written),
            nested.mapped(call.kwargs, written),
        )
        return call

    def _another_like(self, call: Call, planned: PlannedCall) -> Call:
        """Return a call with the shapes of another one.

        Its values differ, unless the recipe draws sizes, such as the lengths of packed texts. The
        sizes of this call are not recorded, so a recompilation for them would not be allowed.
        """
        other = self._arguments(planned)
        if _shapes(other) == _shapes(call):
            return other
        seed_everything(self._seed + 1 + planned.index)
        return self._arguments(planned)

    def _arguments(self, planned: PlannedCall) -> Call:
        given = self._given.copied() if planned.is_probing else None
        call = arguments(self._example, planned) if given is None else given
        for recast in self._casts:
            call.args, call.kwargs = recast(call.args), recast(call.kwargs)
        if planned.probe is not None:
            planned.probe.apply(call, dense=self._is_reference)
        if self._input_gradients and not (planned.probe and planned.probe.without_gradients):
            for name, tensor in input_tensors(call).items():
                if has_arithmetic(tensor) and tensor.is_leaf:
                    tensor.requires_grad_(name not in self._written_inputs)
        return call


def _can_hold(kept: torch.Tensor, tensor: torch.Tensor) -> bool:
    """Whether a tensor of an earlier call can take the numbers of another one."""
    plain = type(kept) is type(tensor) is torch.Tensor and kept.layout is torch.strided
    return (
        plain
        and kept.is_leaf
        and kept.is_contiguous()
        and (kept.shape, kept.dtype, kept.stride()) == (tensor.shape, tensor.dtype, tensor.stride())
    )


def _shapes(call: Call) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in input_tensors(call).items()}
