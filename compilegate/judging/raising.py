"""Calls that raise in eager although the recipe does not say so: a mistake in it."""

from __future__ import annotations

from compilegate.judging.finding import Finding
from compilegate.records.observation import Observation
from compilegate.records.wording import counted


def unexpected(observation: Observation) -> Finding | None:
    """Return the finding of a case whose eager model raises in all calls, or at some sizes.

    Nothing is known of compiled code then. Of calls that a recipe lists, which have one size, some
    may raise: compiled code must raise in the same ones.
    """
    calls = observation.calls
    if observation.raises or not calls:
        return None
    sizes = {tuple(call.sizes.items()): True for call in calls}
    for call in calls:
        sizes[tuple(call.sizes.items())] &= bool(call.raised)
    raising = [", ".join(f"{name}={size}" for name, size in one) for one in sizes if sizes[one]]
    if not raising:
        return None
    raised = next(call.raised for call in calls if call.raised and sizes[tuple(call.sizes.items())])
    if len(raising) < len(sizes):
        summary = f"eager raises at {' and at '.join(raising)}: {raised}"
        way_out = "mend the inputs or the sizes of the recipe: at the others, it returns"
    else:
        summary = f"eager raises in {_all(len(calls))}: {raised}"
        way_out = f"if it is meant to: Example(…, raises={raised.partition(':')[0]})"
    return Finding("failed", summary, (way_out,))


def _all(calls: int) -> str:
    return "its call" if calls == 1 else f"all {counted(calls, 'call')}"
