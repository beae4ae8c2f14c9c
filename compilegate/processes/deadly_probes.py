"""Cases in which eager dies of extreme numbers: they are observed again without these.

PyTorch's own operators may read outside of memory for a NaN or an infinity, or never return: the
gradient of ``grid_sample`` on CPU, for example. On a GPU, an index that is made of NaN triggers an
assertion, after which the process can use the GPU no more. That says nothing about compiled code.
But compiled code may have damaged the memory in which eager then dies, so eager must die in a
process of its own, too, that compiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from compilegate.processes.attempt import Attempt
from compilegate.records.observation import BUSY_MACHINE, EARLIER_ATTEMPTS, Observation
from compilegate.records.request import Request

#: The class of PyTorch's error after which a process can use its GPU no more.
LOST_DEVICE = "AcceleratorError"
#: A model in which eager loses the GPU in more calls than these fails: each costs an observation.
MOST_CALLS = 4


def without_them(
    request: Request, attempt: Attempt, begin: Callable[[Request], Attempt]
) -> Request | None:
    """Return the request for a case without extreme numbers, if eager alone dies of them.

    One of another probing call leaves out that call alone, if eager has lost the GPU in it.

    Args:
        request: What was observed.
        attempt: How. It is over.
        begin: Begins another attempt.
    """
    if attempt.lost_in:
        return _without_call(request, attempt)
    if request.unprobed or not _has_died(attempt):
        return None
    alone = begin(replace(request, eager_extremes=True, in_turns=False))
    alone.finish()
    if not _has_died(alone):
        return None
    failure = attempt.finish().failure
    assert failure is not None
    ending = "does not return" if failure.kind == "timeout" else f"dies of {failure.kind}"
    if failure.kind == LOST_DEVICE:
        ending = f"ends in {failure.message!r}"
    return replace(request, unprobed=f"eager {ending} in the call with {attempt.probing}")


def _without_call(request: Request, attempt: Attempt) -> Request | None:
    """Return the request without the probing call in which eager has lost the GPU."""
    failure, known = attempt.finish().failure, request.unprobed_calls
    if failure is None or failure.kind != LOST_DEVICE or len(known) == MOST_CALLS:
        return None
    reason = f"eager ends in {failure.message!r}"
    return replace(request, unprobed_calls={**known, attempt.lost_in: reason})


def with_time_of(before: Observation, made: Observation) -> Observation:
    """Return an observation with the time that the attempt before it took."""
    return replace(made, spent_s={**made.spent_s, EARLIER_ATTEMPTS: sum(before.spent_s.values())})


def _has_died(attempt: Attempt) -> bool:
    """Whether the process died, hung or lost its GPU in eager's call with extreme numbers."""
    made = attempt.finish()
    if made.failure is None or made.failure.kind == BUSY_MACHINE:
        return False
    has_lost_device = made.status == "raised" and made.failure.kind == LOST_DEVICE
    return bool(attempt.probing) and (has_lost_device or made.status in ("crashed", "timed_out"))
