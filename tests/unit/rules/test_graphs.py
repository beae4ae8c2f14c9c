"""The rule of CUDA graphs: recorded, or skipped for a reason that is budgeted."""

from compilegate.judging.budget import Budget
from compilegate.suites import test_cuda_graphs
from tests.unit.making import (
    make_capture,
    make_observation,
)
from tests.unit.rules.common import STRICT, assert_proposal_helps


def graphs(recorded, *skips):
    return make_observation(capture=make_capture(cudagraphs=recorded, cudagraph_skips=skips))


def test_running_without_the_graphs_that_a_mode_promises_is_a_failure():
    finding = test_cuda_graphs.rule(graphs(0, "skipping cudagraphs due to cpu device"), STRICT)
    assert finding.outcome == "failed"
    assert finding.summary == "runs without CUDA graphs: skipping cudagraphs due to cpu device"
    assert test_cuda_graphs.rule(graphs(0), STRICT).outcome == "failed"


def test_one_graph_skipped_of_several_is_a_failure_too():
    some = graphs(3, "skipping cudagraphs due to mutated inputs (1 instances)")
    assert test_cuda_graphs.rule(some, STRICT).outcome == "failed"
    assert_proposal_helps(test_cuda_graphs.rule, some, STRICT)


def test_a_graph_that_is_cut_is_reported_with_the_operation():
    finding = test_cuda_graphs.rule(graphs(3, "in part: cut at cpu ops (aten.sin)"), STRICT)
    assert finding.summary == "runs without CUDA graphs in part: cut at cpu ops (aten.sin)"
    assert finding.details == (finding.summary,)


def test_what_is_proposed_holds_for_another_operator():
    proposed = test_cuda_graphs.rule(
        graphs(3, "in part: cut at cpu ops (aten.sin)"), STRICT
    ).proposal
    assert proposed == {"cudagraph_skips": ["in part: cut at cpu ops"]}


def test_a_reason_that_is_budgeted_may_skip_graphs():
    allowing = Budget(cudagraph_skips=("mutated inputs",))
    some = graphs(3, "skipping cudagraphs due to mutated inputs (1 instances)")
    assert test_cuda_graphs.rule(some, allowing).outcome == "passed"
    other = graphs(3, "skipping cudagraphs due to cpu device (x)")
    assert test_cuda_graphs.rule(other, allowing).outcome == "failed"
