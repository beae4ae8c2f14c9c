"""Dynamo captures the whole model, without a graph break that the budget does not allow.

Budgets name breaks by reason and place, so that a new break shows even if an old one disappeared.
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/compile/programming_model.graph_breaks_index.html
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from compilegate.judging.budget import AllowedBreak, Budget
from compilegate.judging.finding import Finding, shorten, with_help
from compilegate.judging.judge import Judge
from compilegate.records import graph_breaks
from compilegate.records.call import CallFacts
from compilegate.records.observation import GraphBreak, Observation
from compilegate.records.wording import counted


def is_allowed(found: GraphBreak, allowed: AllowedBreak) -> bool:
    """Whether a budgeted break matches this one, by reason and path."""
    return allowed.reason in found.reason and f"/{found.file}".endswith(
        f"/{allowed.place}" if allowed.place else ""
    )


def rule(observation: Observation, budget: Budget) -> Finding:
    """No more distinct breaks than budgeted, each of a known kind at a known place."""
    capture = observation.capture
    assert capture is not None
    found_breaks = graph_breaks.found_in(capture)
    met = [found for found in found_breaks if not _is_of_an_error(found, observation.calls)]
    unknown = [
        found
        for found in met
        if not any(is_allowed(found, allowed) for allowed in budget.graph_breaks)
    ]
    known = len(met) - len(unknown)
    distinct = graph_breaks.distinct(unknown)
    if len(distinct) > budget.max_graph_breaks:
        count = f"{len(distinct)} graph break{'s' * (len(distinct) != 1)} not budgeted"
        complaints = tuple(map(str, distinct))
        return Finding(
            "failed",
            f"{count}: {distinct[0]}",
            tuple(with_help(shorten(complaints), distinct)),
            _proposal(budget, unknown),
            complaints=complaints,
        )
    budgeted = f" ({known} budgeted)" if known else ""
    return Finding(
        "passed",
        f"{counted(capture.graphs, 'graph')}, {counted(len(met), 'graph break')}{budgeted}",
    )


def _is_of_an_error(found: GraphBreak, calls: Sequence[CallFacts]) -> bool:
    """Whether a break occurs only in calls that raise as in eager, and compute nothing.

    A later call that returns, and that no guard tells from such a call, runs the same broken code.
    Runs of earlier versions do not tell the calls of a break.
    """
    if not found.calls:
        raises = any(call.raised for call in calls)
        return raises and found.reason.startswith("Observed exception")
    if not all(index < len(calls) and calls[index].raised for index in found.calls):
        return False
    kinds = [(calls[index].rest, calls[index].numbers) for index in found.calls]
    later = [call for call in calls[found.calls[0] :] if not call.raised]
    return not any((call.rest, call.numbers) in kinds for call in later)


def _proposal(budget: Budget, unknown: Sequence[GraphBreak]) -> dict[str, list[dict[str, str]]]:
    """The budgeted breaks and the unknown ones: an exact entry replaces what it inherits."""
    places = {(allowed.reason, allowed.place) for allowed in budget.graph_breaks}
    places |= {(found.reason, found.file) for found in unknown}
    return {
        "graph_breaks": [{"reason": reason, "place": place} for reason, place in sorted(places)]
    }


@pytest.mark.aspect("graph_breaks")
def test_no_unbudgeted_graph_break(judge: Judge) -> None:
    judge(rule)
