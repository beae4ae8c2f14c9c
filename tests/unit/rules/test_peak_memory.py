"""The peak of memory, what calls leave, and what is proposed where a case needs more."""

import dataclasses

import pytest

from compilegate.judging.budget import Budget
from compilegate.suites import test_memory
from tests.unit.making import make_memory, make_observation
from tests.unit.rules.common import STRICT, assert_proposal_helps

MIB = 2**20


def test_the_figures_of_the_gpus_allocator_are_described():
    seen = dataclasses.replace(
        make_memory(compiled=100 * MIB),
        eager_reserved_bytes=120 * MIB,
        compiled_reserved_bytes=130 * MIB,
        graphs_bytes=8 * MIB,
        compile_peak_bytes=500 * MIB,
    )
    assert test_memory.rule(make_observation(memory=seen), STRICT).details == (
        "reserved: eager 120 MiB, compiled 130 MiB, of which CUDA graphs keep 8 MiB",
        "peak while compiling: 500 MiB",
    )


@pytest.mark.parametrize(
    ("compiled", "slack", "outcome"),
    [
        (100, 0, "passed"),
        (110, 0, "passed"),
        (111, 0, "failed"),
        (111, 1, "passed"),
        (112, 1, "failed"),
        (10, 0, "passed"),
    ],
)
def test_peak_memory_over_ratio_and_slack_fails(compiled, slack, outcome):
    observation = make_observation(memory=make_memory(100, compiled))
    budget = Budget(max_memory_ratio=1.1, memory_slack_bytes=slack)
    assert test_memory.rule(observation, budget).outcome == outcome


def test_a_case_that_needs_too_much_memory_reports_and_proposes_the_ratio():
    observation = make_observation(memory=make_memory(100 * 2**20, 200 * 2**20))
    finding = test_memory.rule(observation, STRICT)
    assert finding.summary == "peak 200.0 MiB, eager 100.0 MiB (2.00×), at most 1.1× allowed"
    assert finding.proposal == {"max_memory_ratio": 2.2}
    assert_proposal_helps(test_memory.rule, observation, STRICT)


@pytest.mark.parametrize(
    ("eager", "compiled", "leaks"),
    [(0, 4096, True), (4096, 4096, False), (0, 512, False), (4096, 0, False)],
)
@pytest.mark.parametrize("budget", [STRICT, Budget()])
def test_a_call_that_leaves_more_memory_than_eager_fails_whatever_the_budget(
    budget, eager, compiled, leaks
):
    memory = make_memory()
    seen = dataclasses.replace(memory, eager_kept_bytes=eager, compiled_kept_bytes=compiled)
    finding = test_memory.rule(make_observation(memory=seen), budget)
    assert (finding.outcome == "failed", bool(finding.proposal)) == (leaks, False)
    assert finding.summary.startswith("each call leaves 4 KiB more allocated") is leaks


def test_a_slack_is_proposed_where_eager_needs_less_than_the_slack():
    observation = make_observation(memory=make_memory(12, 16 * 2**20))
    budget = Budget(max_memory_ratio=1.3, memory_slack_bytes=2**20)
    finding = test_memory.rule(observation, budget)
    assert finding.summary.startswith("peak 16.0 MiB, eager 12 bytes (1,398,101.33×)")
    assert finding.proposal.keys() == {"memory_slack_bytes"}
    assert_proposal_helps(test_memory.rule, observation, budget)


def test_memory_where_eager_allocates_nothing():
    nothing = make_observation(memory=make_memory(0, 0))
    something = make_observation(memory=make_memory(0, 4096))
    assert test_memory.rule(nothing, STRICT).outcome == "passed"
    finding = test_memory.rule(something, STRICT)
    assert finding.summary == "peak 4.0 KiB, eager 0 bytes (inf×), at most 1.1× allowed"
    assert finding.proposal == {"memory_slack_bytes": 4506}
    slack = dataclasses.replace(STRICT, memory_slack_bytes=4096)
    assert test_memory.rule(something, slack).outcome == "passed"
