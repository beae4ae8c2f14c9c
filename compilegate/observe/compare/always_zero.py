"""Find tensors that are zero whatever the inputs and weights: zero is their right value.

A tensor may be zero because nothing reaches it: a head that starts at zero, a ReLU that never
opens. A fault could hide there. A difference of equal terms is zero, too, and hides nothing. Eager
runs on other numbers tell the two apart: they wake the first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

import torch

from compilegate.observe.capture import eager_calls
from compilegate.observe.floating import has_arithmetic
from compilegate.observe.model.asserted_ranges import InRange
from compilegate.observe.model.calls import PlannedCall, input_tensors
from compilegate.observe.model.result import Result
from compilegate.observe.model.subject import Subject
from compilegate.records.call import Checked, TensorError

#: Far from the seeds of weights, inputs and nudges.
_SEED = 3_000_017
#: Factors on all numbers, after noise of their own scale was added: a threshold is passed, and what
#: was negative is positive.
_FACTORS = (1.0, 1000.0, -1.0)


class AlwaysZero:
    """Marks the tensors of calls that are zero on all numbers.

    Args:
        build: Builds another eager model.
    """

    def __init__(self, build: Callable[[], Subject]) -> None:
        self._build = build
        #: The names of these tensors, by the call that was made on other numbers.
        self._names: dict[int, frozenset[str]] = {}

    def mark(self, planned: PlannedCall, eager: Subject, checked: Checked) -> Checked:
        """Return the errors of a call, those of tensors that are always zero marked.

        Such a tensor decides nothing: eager gives no other answer.

        Args:
            planned: The call.
            eager: The eager subject.
            checked: The errors of the outputs, or of the gradients and updates.
        """
        if not any(map(_is_zero, checked.errors)):
            return checked
        # The calls that an example lists differ in more than their numbers.
        key = planned.index if eager.example.calls else 0
        if key not in self._names:
            self._names[key] = frozenset(self._zero_throughout(planned))
        zero = {error.name for error in checked.errors if _is_zero(error)} & self._names[key]
        return replace(
            checked,
            errors=tuple(replace(one, always_zero=one.name in zero) for one in checked.errors),
            decisions=tuple(one for one in checked.decisions if one.where not in zero),
        )

    def _zero_throughout(self, planned: PlannedCall) -> set[str]:
        """Return the names of the tensors that no run on other numbers wakes."""
        asleep: set[str] | None = None
        for number, factor in enumerate(_FACTORS):
            with contextlib.suppress(Exception):  # these numbers are outside the model's domain
                zero = _zeros(self._run(planned, factor, number))
                asleep = zero if asleep is None else asleep & zero
        return asleep or set()

    def _run(self, planned: PlannedCall, factor: float, number: int) -> Result:
        subject = self._build()
        call = subject.prepare(planned)
        generator = torch.Generator(subject.case.device).manual_seed(_SEED + number)
        tensors = (*subject.parameters().values(), *subject.buffers().values())
        for tensor in (*tensors, *input_tensors(call).values()):
            if has_arithmetic(tensor):
                with torch.no_grad(), contextlib.suppress(RuntimeError):  # an expanded input
                    tensor.copy_(factor * (tensor + _noise(tensor, generator)))
        on_gpu = subject.case.device != "cpu"
        with InRange() if on_gpu else contextlib.nullcontext():  # or it might lose its context
            result = eager_calls.call(subject, call, planned.index)
        if result.error is not None:
            raise result.error
        return result


def _noise(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return normal numbers of the scale of a tensor, of scale 1 where it is zero."""
    scale = tensor.square().mean().sqrt().nan_to_num(0.0, 0.0)
    drawn = torch.randn(
        tensor.shape, generator=generator, device=tensor.device, dtype=torch.float32
    )
    return drawn.to(tensor.dtype) * torch.where(scale > 0, scale, 1.0)


def _zeros(result: Result) -> set[str]:
    """Return the names of outputs, gradients and updates without a finite element but zero."""
    gradients = {f"gradient {name}": value for name, value in result.gradients.items()}
    zero = {
        name
        for name, value in {**result.output, **gradients}.items()
        if isinstance(value, torch.Tensor) and not bool(value.nan_to_num(0.0, 0.0, 0.0).any())
    }
    return zero | {f"update {n.removeprefix('gradient ')}" for n in zero if n in gradients}


def _is_zero(error: TensorError) -> bool:
    return error.numel > 0 and error.scale == 0.0 and error.eager_max == 0.0
