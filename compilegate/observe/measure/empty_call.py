"""Times a compiled call that computes next to nothing: what this machine needs for any call.

Guards, dispatch and, in training, autograd cost the host as much in a call of a real model. How
long they take differs from machine to machine, so budgets count in such calls, not in microseconds.
The call is one product of 4 x 4 matrices. Inductor leaves that to PyTorch's own kernel, so nothing
is generated: compiling takes a fraction of a second even in an empty cache.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager

import torch

from compilegate.observe.capture import compiling
from compilegate.observe.device.protocol import Device, Step
from compilegate.observe.measure.rounds import calls_of_a_round
from compilegate.records.case import Case

_SIZE = 4
_ROUNDS = 9


def empty_call_ns(
    case: Case,
    device: Device,
    backend: str,
    *,
    alone: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
) -> float:
    """Compile an empty call in a case's phase, mode and dynamic setting, and time it.

    Dynamo counts this compilation, too: whatever is to be read about the case must have been read.

    Args:
        case: Gives the setting.
        device: Runs it.
        backend: The compiler backend.
        alone: Entered while calls are timed, after the first one has compiled.

    Returns:
        The median nanoseconds of a call over several rounds.
    """
    step = _empty_step(case, backend)
    step()
    with alone():
        calls, _ = calls_of_a_round(step, device)
        return statistics.median(device.elapsed_ns(step, calls) / calls for _ in range(_ROUNDS))


def _empty_step(case: Case, backend: str) -> Step:
    run = torch.compile(torch.mm, **compiling.options(case, backend, tunes=False))
    given, cotangent = (torch.ones(_SIZE, _SIZE, device=case.device) for _ in range(2))
    leaf = torch.ones_like(given, requires_grad=case.phase == "train")

    def infer() -> None:
        with torch.no_grad():
            _call(given, leaf)

    def train() -> None:
        leaf.grad = None
        _call(given, leaf).backward(cotangent)

    def _call(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        if case.uses_cuda_graphs:
            torch.compiler.cudagraph_mark_step_begin()
        product: torch.Tensor = run(one, other)
        return product

    return train if case.phase == "train" else infer
