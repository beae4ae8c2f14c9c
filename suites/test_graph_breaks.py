"""The whole model is captured: no graph break that is not budgeted, nothing left to eager.

Breaks are known by reason and place, so that a new one shows even where an old one went.
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/compile/programming_model.graph_breaks_index.html
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from compilegate.judging.aspects import AllowedBreak, Budget
from compilegate.judging.judge import Finding, Judge, shorten
from compilegate.records.observation import GraphBreak, Observation


def is_allowed(found: GraphBreak, allowed: AllowedBreak) -> bool:
    """Whether a budgeted break is this one: part of its reason, the end of its file's path."""
    return allowed.reason in found.reason and f"/{found.file}".endswith(
        f"/{allowed.place}" if allowed.place else ""
    )


def rule(observation: Observation, budget: Budget) -> Finding:
    """No more distinct breaks than budgeted, each of a known kind at a known place."""
    capture = observation.capture
    assert capture is not None
    # A frame that is left to eager for the reason of a break is that break met again.
    met_already = {(found.reason, found.file) for found in capture.breaks}
    left = [f for f in capture.fallbacks if (f.reason, f.file) not in met_already]
    met = [*capture.breaks, *left]
    if any(call.raised for call in observation.calls):  # a frame that raises, as it does in eager
        met = [found for found in met if not found.reason.startswith("Observed exception")]
    unknown = [
        found
        for found in met
        if not any(is_allowed(found, allowed) for allowed in budget.graph_breaks)
    ]
    known = len(met) - len(unknown)
    if len(unknown) > budget.max_graph_breaks:
        lines = [str(found) for found in unknown]
        count = f"{len(unknown)} graph break{'s' * (len(unknown) != 1)} not budgeted"
        return Finding("failed", f"{count}: {lines[0]}", shorten(lines), _proposal(budget, unknown))
    budgeted = f" ({known} budgeted)" if known else ""
    return Finding("passed", f"{capture.graphs} graphs, {len(met)} graph breaks{budgeted}")


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
