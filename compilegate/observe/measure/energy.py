"""Energy of a call, eager beside compiled, by the GPU's own counter.

The counter moves in steps of some tens of milliseconds. Each block of calls therefore begins and
ends at a step, and calls are counted between the two.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from compilegate.observe.device.nvml import Gpu, UnavailableError
from compilegate.records.performance import Energy

Step = Callable[[], object]

#: A block lasts this long, so that it spans many steps of the counter.
_BLOCK_S = 0.6
#: A counter that has not moved for so long counts as unavailable.
_PATIENCE_S = 2.0


def of_a_call(eager: Step, compiled: Step, *, shares_gpu: bool = False) -> Energy:
    """Joules of one call of each, in blocks eager, compiled, compiled, eager.

    Args:
        eager: One eager call.
        compiled: One compiled call.
        shares_gpu: Whether other cases are observed on this GPU meanwhile: its counter is one.
    """
    if shares_gpu:
        return Energy(unavailable="other cases were observed on the same GPU")
    try:
        gpu = Gpu()
        blocks = [_block(gpu, step) for step in (eager, compiled, compiled, eager)]
    except UnavailableError as error:
        return Energy(unavailable=str(error))
    first, second, third, fourth = blocks
    return Energy(eager_j=(first + fourth) / 2, compiled_j=(second + third) / 2)


def _block(gpu: Gpu, step: Step) -> float:
    """Joules a call."""
    start = _at_next_step(gpu, step)[0]
    calls, deadline = 0, time.monotonic() + _BLOCK_S
    while time.monotonic() < deadline:
        step()
        torch.cuda.synchronize()
        calls += 1
    end, more = _at_next_step(gpu, step)
    return (end - start) / (calls + more)


def _at_next_step(gpu: Gpu, step: Step) -> tuple[float, int]:
    """Go on calling until the counter moves: what it shows then, and the calls made."""
    before = gpu.energy_j()
    calls, deadline = 0, time.monotonic() + _PATIENCE_S
    while (now := gpu.energy_j()) == before:
        if time.monotonic() > deadline:
            raise UnavailableError("NVML: the energy counter stands still")
        step()
        torch.cuda.synchronize()
        calls += 1
    return now, calls
