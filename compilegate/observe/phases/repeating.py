"""The same call, again and again: each side is compared with itself."""

from __future__ import annotations

from dataclasses import replace

from compilegate.observe import error_text
from compilegate.observe.capture import compiling
from compilegate.observe.compare import repetition
from compilegate.observe.compare.repetition import Repetition
from compilegate.observe.device import out_of_memory
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.phases.calls import PairedCalls
from compilegate.records.call import Difference


class LeftOutError(Exception):
    """A probing call says nothing about compiled code. The message says why."""


def repeated(calls: PairedCalls, planned: PlannedCall, times: int) -> tuple[Difference, ...]:
    """Make a call on both sides again and again, and compare each side with itself alone.

    Raises:
        LeftOutError: Eager raises, as a queue may that its calls fill.
    """
    if planned.probe is not None and planned.probe.refills:  # by the numbers of the call itself
        planned = replace(planned, index=planned.index + 1)
    sides = (calls.eager, Repetition()), (calls.compiled, Repetition())
    for side, seen in sides * times:
        call = side.prepare(planned)
        compiling.mark_dynamic(side, call)
        side.forget_gradients(call)
        try:
            made = side.step(call)
        except Exception as error:
            if side is calls.compiled or out_of_memory.is_fatal(error):
                raise
            raise LeftOutError(f"repeated in eager, {error_text.with_kind(error)}") from error
        seen.add(made)
    return repetition.unlike(*(seen for _, seen in sides))
