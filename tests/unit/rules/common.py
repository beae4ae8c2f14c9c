"""What tests of several rules share."""

import dataclasses

from compilegate.judging.budget import AllowedBreak, Budget
from tests.unit.making import (
    make_call,
    make_observation,
)

STRICT = Budget(
    min_speedup=1.0,
    max_compile_s=60.0,
    max_compile_calls=1_000_000,
    max_memory_ratio=1.1,
    max_energy_ratio=1.1,
)


def once(**groups):
    return make_observation(calls=(make_call(**groups),))


def assert_proposal_helps(rule, observation, budget):
    """What --budgets-update would write makes the same observation pass."""
    finding = rule(observation, budget)
    assert finding.outcome == "failed"
    proposal = dict(finding.proposal)
    if "graph_breaks" in proposal:
        added = tuple(AllowedBreak(**table) for table in proposal["graph_breaks"])
        proposal["graph_breaks"] = (*budget.graph_breaks, *added)
    assert rule(observation, dataclasses.replace(budget, **proposal)).outcome == "passed"
