"""Calls that raise in eager although the recipe does not say so: a mistake in it."""

from __future__ import annotations

from compilegate.judging.finding import Finding
from compilegate.records.call import CallFacts
from compilegate.records.case import Case
from compilegate.records.observation import Observation
from compilegate.records.wording import counted


def unexpected(observation: Observation) -> Finding | None:
    """Return the finding of a case that raises in all calls, or at some sizes, on both sides.

    Nothing is known of compiled code then. Of calls that a recipe lists, which have one size, some
    may raise: compiled code must raise in the same ones.
    """
    if observation.raises:
        return None
    errors: dict[str, list[str]] = {}
    for call in observation.calls:
        name = ", ".join(f"{dimension}={size}" for dimension, size in call.sizes.items())
        errors.setdefault(name, []).append(_raised(call))
    raising = [name for name, raised in errors.items() if all(raised)]
    if not raising:
        return None
    raised = errors[raising[0]][0]
    if len(raising) < len(errors):
        summary = f"eager raises at {' and at '.join(raising)}: {raised}"
        way_out = "correct the inputs or sizes of the recipe: eager returns at the other sizes"
        return Finding("failed", summary, (way_out,))
    summary = f"eager raises in {_all(len(observation.calls))}: {raised}"
    as_named = f"if eager should raise: Example(…, raises={raised.partition(':')[0]})"
    return Finding("failed", summary, (as_named, *without_autocast(observation)))


def without_autocast(observation: Observation) -> list[str]:
    """Return how to leave out the cases with autocast, if this is one of them."""
    precision = Case.parse(observation.case).precision
    if precision == "f32":
        return []
    why = f"if the model does not support autocast ({precision})"
    return [f'{why}: @model(…, settings=("*-f32-*",))']


def _raised(call: CallFacts) -> str:
    """Return what eager raises in a call in which compiled code raises, too; else nothing.

    The errors may differ: a kernel words an index that is out of range in its own way.
    """
    unlike = (
        one.eager
        for one in call.outputs.differences
        if one.what == "raises" and "nothing" not in (one.eager, one.compiled)
    )
    return call.raised or next(unlike, "")


def _all(calls: int) -> str:
    return "its call" if calls == 1 else f"all {counted(calls, 'call')}"
