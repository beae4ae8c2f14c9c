"""Calls that raise: in eager, where the recipe has a mistake, or behind a graph break."""

from __future__ import annotations

import re
from collections.abc import Iterator

from compilegate.judging.finding import Finding, indented, shorten, with_help
from compilegate.records.call import CallFacts
from compilegate.records.case import Case
from compilegate.records.observation import Observation
from compilegate.records.wording import counted

#: What Python raises for a package that is not installed.
_MISSING = re.compile(r"ModuleNotFoundError: No module named '(\w+)")

#: How many characters of an error tell it from others: the end may be left out.
_START = 100


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
        errors.setdefault(name, []).append(error_of_both(call))
    raising = [name for name, raised in errors.items() if all(raised)]
    if not raising:
        return None
    raised = errors[raising[0]][0]
    places = dict.fromkeys(call.raised_at for call in observation.calls if call.raised_at)
    where = [f"raised at {place}" for place in places]
    if len(raising) < len(errors):
        summary = f"eager raises at {' and at '.join(raising)}: {raised}"
        way_out = "correct the inputs or sizes of the recipe: eager returns at the other sizes"
        return Finding("failed", summary, (*where, way_out))
    summary = f"eager raises in {_all(len(observation.calls))}: {raised}"
    return Finding("failed", summary, (*where, *ways_out(raised), *without_autocast(observation)))


def ways_out(raised: str) -> list[str]:
    """Return what a recipe can say about an error that its model raises in eager.

    Args:
        raised: The class and the message of the error.
    """
    if missing := _MISSING.match(raised):
        return [
            f'to skip the model where {missing[1]} is missing: @model(…, requires="{missing[1]}")'
        ]
    return [f"if eager should raise: Example(…, raises={raised.partition(':')[0]})"]


def without_autocast(observation: Observation) -> list[str]:
    """Return how to leave out the cases with autocast, if this is one of them."""
    precision = Case.parse(observation.case).precision
    if precision == "f32":
        return []
    why = f"if the model does not support autocast ({precision})"
    return [f'{why}: @model(…, settings=("*-f32-*",))']


def fixed_dimensions(raised: str) -> list[str]:
    """Return what a recipe can do where the code fixes a dimension that *marked* marks.

    Args:
        raised: The class and the message of the error.
    """
    if not raised.startswith("ConstraintViolationError: "):
        return []
    return [
        "the setting 'marked' marks the dimensions that dims of Example names, and the model or "
        "Inductor fixes one: leave that out of dims, or change the code",
        'TORCH_LOGS=dynamic names the line: look for "eval Eq(…)"',
    ]


def behind_breaks(observation: Observation) -> Iterator[str]:
    """Yield the graph breaks of a case that ended, with PyTorch's help.

    One is often the cause: eager code between two graphs does to their tensors what one graph
    would do, such as a derivative of a derivative. A frame that the error itself left to eager is
    none of them.
    """
    capture, failure = observation.capture, observation.failure
    if capture is None or failure is None:
        return
    error = failure.message[:_START]
    found = (*capture.breaks, *capture.fallbacks)
    if breaks := [one for one in found if one.reason[:_START] != error]:
        yield "Dynamo had broken the graph before that, which may be the cause:"
        yield from indented(with_help(shorten([*dict.fromkeys(map(str, breaks))]), breaks))


def error_of_both(call: CallFacts) -> str:
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
