"""What a call costs at another size, once compiled code for that size exists.

Code for the second size is compiled by itself, often for any size. It may be slow or wasteful where
that for the first size is neither. A few calls show that roughly.
"""

from __future__ import annotations

import time

from compilegate.observe.capture import compile_log
from compilegate.observe.device import device as device_of
from compilegate.observe.measure import memory
from compilegate.observe.measure.contention import OtherProcesses
from compilegate.observe.model.calls import PlannedCall, has_fixed_inputs, varied_calls
from compilegate.observe.model.subject import Subject
from compilegate.observe.phases import costs
from compilegate.observe.phases.calls import CallsSeen
from compilegate.observe.phases.costs import Steps
from compilegate.observe.phases.eager import FirstCall
from compilegate.observe.phases.progress import Progress
from compilegate.records.call import CallFacts
from compilegate.records.performance import OtherSize
from compilegate.records.request import Request

#: Rounds of one call a side, unless they take longer than this.
_ROUNDS, _LEAST_ROUNDS, _MOST_S = 7, 3, 1.0


def observe(
    first: FirstCall,
    compiled: Subject,
    seen: CallsSeen,
    vary: dict[str, tuple[int, ...]],
    *,
    request: Request,
    progress: Progress,
) -> OtherSize | None:
    """Measure what a call costs at another size, if time or memory is wanted.

    Args:
        first: The first call of eager.
        compiled: The compiled model, which has been called at its other sizes.
        seen: The calls so far.
        vary: The sizes of each named dimension.
        request: Says what is wanted. What alternates with another process is not timed here.
        progress: Is given the stages and the time.

    Returns:
        The costs; None if there is no other size, if the memory of CUDA graphs would count for all
        sizes, or if the call compiles again.
    """
    wanted = {"time", "memory"} & set(request.wants) and "vary" in request.wants
    call = _planned(first.eager, vary)
    if not wanted or call is None or any(map(_raised, seen.calls)):
        return None
    device = device_of(first.eager.case.device)
    with costs.stepping(first, compiled, call, device) as steps:
        return _measured(steps, call, request, progress)


def _raised(made: CallFacts) -> bool:
    """Whether eager raised in a call; compiled code may have raised another error."""
    return bool(made.raised) or any(one.what == "raises" for one in made.outputs.differences)


def _planned(eager: Subject, vary: dict[str, tuple[int, ...]]) -> PlannedCall | None:
    if eager.case.uses_cuda_graphs or has_fixed_inputs(eager.example):
        return None
    calls = varied_calls(eager.example, vary, eager.case)
    first = {name: sizes[0] for name, sizes in vary.items()}
    return next((call for call in calls if call.sizes != first), None)


def _measured(
    steps: Steps, call: PlannedCall, request: Request, progress: Progress
) -> OtherSize | None:
    timed: tuple[list[float], list[float]] = ([], [])
    peaks, before = [0, 0], compile_log.compilations()
    with progress.spend("run"):
        for step in (steps.eager, steps.compiled):
            step()
        if compile_log.compilations() != before:
            return None
        others = OtherProcesses(progress.machine.stopped_s)
        if "time" in request.wants and not request.in_turns:
            progress.enter("time")
            with progress.alone():
                timed = _rounds(steps)
        busy = others.share()
        if "memory" in request.wants:
            progress.enter("memory")
            steps.drop_gradients()
            peaks = [memory.peak_bytes(one, steps.device) for one in (steps.eager, steps.compiled)]
    return OtherSize(
        sizes=call.sizes,
        eager_ns=tuple(timed[0]),
        compiled_ns=tuple(timed[1]),
        busy=busy,
        eager_peak_bytes=peaks[0],
        compiled_peak_bytes=peaks[1],
    )


def _rounds(steps: Steps) -> tuple[list[float], list[float]]:
    begun = time.monotonic()
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(_ROUNDS):
        if number >= _LEAST_ROUNDS and time.monotonic() - begun > _MOST_S:
            break
        for side, step in enumerate((steps.eager, steps.compiled)):
            taken[side].append(steps.device.elapsed_ns(step, 1))
    return taken
