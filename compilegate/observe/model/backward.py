"""The backward of a case: from fixed random cotangents, with scaling in float16."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from compilegate.observe import nested
from compilegate.observe.model import cast_weights
from compilegate.observe.model.cotangents import Cotangents, scattered
from compilegate.observe.model.float64 import Lifting
from compilegate.observe.model.grad_scaling import BACKOFF, SCALE, Scaling
from compilegate.observe.model.losses import Loss
from compilegate.observe.model.random_draws import DrawRecording
from compilegate.records.case import Case
from compilegate.zoo.example import Call


class Backward:
    """Runs the backward of the calls of one subject.

    Args:
        case: The case, which determines the precision and the device.
        seed: The seed of the cotangents, the same for every subject of a case.
        lifting: The lifting of a reference.
        leaves_of: Returns the tensors in which a call leaves gradients.
    """

    def __init__(
        self,
        case: Case,
        seed: int,
        lifting: Lifting | None,
        leaves_of: Callable[[Call], list[torch.Tensor]],
    ) -> None:
        self._case = case
        self._lifting = lifting
        self._leaves_of = leaves_of
        self._cotangents = Cotangents(seed)
        self._scaling: tuple[Call, Scaling] | None = None
        self._scale, self._fits = SCALE, False

    @property
    def found_inf(self) -> bool | None:
        """Whether a scaled gradient overflowed; None where gradients are not scaled."""
        return None if self._scaling is None else self._scaling[1].found_inf

    def run(
        self,
        outputs: Sequence[Any],
        call: Call,
        recording: DrawRecording | None,
        *,
        loss: Loss | None = None,
        kept: Callable[[], Mapping[str, torch.Tensor]] = dict,
    ) -> None:
        """Run backward over every floating output, one call after the other.

        The cotangents of overlapping calls have another memory layout than the outputs.

        Args:
            outputs: The output of the call, then those of the calls that overlap it.
            call: The call, in whose leaves the gradients arrive.
            recording: Records random draws.
            loss: Changes the cotangents; None keeps them.
            kept: Returns what the forward has left in attributes, by name. A usual backward starts
                from there, too.
        """
        found = [nested.output_tensors(output) for output in outputs]
        if loss is None and len(outputs) == 1:
            found[0] |= kept()
        roots = [_roots(tensors) for tensors in found]
        if not any(roots):
            return
        scaling = self._scaling_of(call)
        for of_one in filter(None, roots):
            tensors = [*of_one.values()]
            cotangents = [self._cotangents.of(path, tensor) for path, tensor in of_one.items()]
            if loss is not None:
                tensors, cotangents = loss.start(tensors, cotangents)
            if scaling:
                pairs = zip(scaling.scale(cotangents), tensors, strict=True)
                cotangents = [scaled.to(tensor.dtype) for scaled, tensor in pairs]
            if len(outputs) > 1:
                cotangents = [*map(scattered, cotangents)]
            with contextlib.ExitStack() as stack:
                if self._lifting:
                    stack.enter_context(self._lifting.active(cast_weights.dtype_of(self._case)))
                if recording:
                    stack.enter_context(recording.active())
                torch.autograd.backward(tensors, cotangents)
        if scaling:
            scaling.unscale()
            self._back_off(scaling)

    def functional(self, output: Any) -> float:
        """Return the number whose gradient :meth:`run` computes: ⟨cotangent, output⟩."""
        tensors = _roots(nested.output_tensors(output)).items()
        return sum(
            float((tensor.detach().double() * self._cotangents.of(path, tensor).double()).sum())
            for path, tensor in tensors
        )

    def _back_off(self, scaling: Scaling) -> None:
        """Lower the scale until one call does not overflow, as ``GradScaler`` does in training.

        After that it stays: extreme numbers overflow with any scale.
        """
        if self._fits:
            return
        self._fits = not scaling.found_inf
        if not self._fits:
            self._scale = scaling.init_scale / BACKOFF

    def _scaling_of(self, call: Call) -> Scaling | None:
        if self._case.precision != "f16" or self._lifting:
            return None
        known = self._scaling
        if known is None or known[0] is not call or known[1].init_scale != self._scale:
            scaling = Scaling(self._leaves_of(call), self._case.device, self._scale)
            self._scaling = known = (call, scaling)
        return known[1]


def _roots(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the tensors that require gradients, by path; of jagged ones, their values."""
    return {
        path: tensor.values() if tensor.layout is torch.jagged else tensor
        for path, tensor in tensors.items()
        if tensor.requires_grad
    }
