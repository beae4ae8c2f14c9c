"""Judging: what is the same for every aspect, and how expected failures change a verdict."""

from dataclasses import replace

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.expected_failure import ExpectedFailure
from compilegate.judging.finding import Finding
from compilegate.judging.judge import judge
from compilegate.records.observation import GraphBreak
from tests.unit.making import (
    make_break,
    make_capture,
    make_compilation,
    make_failed_observation,
    make_observation,
)


def passes(observation, budget):
    return Finding("passed", "as it should be")


def fails(observation, budget):
    return Finding("failed", "too many", ("one", "two"), {"recompiles": 2})


def must_not_be_asked(observation, budget):
    pytest.fail("a rule saw a case that did not run")


def expecting(**known):
    return Budget(expected_failures=(ExpectedFailure(**{"reason": "known"} | known),))


def test_a_rule_s_finding_becomes_the_verdict():
    judged = judge(make_observation(), Budget(), "recompiles", fails)
    assert judged.verdict.case == make_observation().case
    assert judged.verdict.aspect == "recompiles"
    assert judged.verdict.outcome == "failed"
    assert judged.verdict.summary == "too many"
    assert judged.verdict.details == (
        "one",
        "two",
        'budget key: recompiles = 2 (more than the setting allows), or recompile_guards = ["…"]',
    )
    assert judged.proposal == {"recompiles": 2}
    assert not judged.of_case


def test_a_rule_may_propose_nothing():
    judged = judge(
        make_observation(), Budget(), "speedup", lambda o, b: Finding("failed", "", (), None)
    )
    assert judged.verdict.outcome == "failed"
    assert judged.proposal == {}


@pytest.mark.parametrize("outcome", ["passed", "inconclusive", "skipped"])
def test_only_failures_propose(outcome):
    judged = judge(
        make_observation(), Budget(), "speedup", lambda o, b: Finding(outcome, "", (), {"a": 1})
    )
    assert judged.verdict.outcome == outcome
    assert judged.proposal == {}


@pytest.mark.parametrize(
    ("aspect", "proposal", "line"),
    [
        (
            "graph_breaks",
            {"graph_breaks": [{"reason": "print", "place": ""}]},
            'budget key: max_graph_breaks, or graph_breaks = [{ reason = "print", place = "" }]',
        ),
        ("compile_time", {"max_compile_s": 9.5}, "budget key: max_compile_s = 9.5"),
        ("cuda_graphs", {"cudagraph_skips": ["why"]}, 'budget key: cudagraph_skips = ["why"]'),
        (
            "graph_breaks",
            {"max_graph_breaks": 1},
            'budget key: max_graph_breaks = 1, or graph_breaks = [{reason = "…", place = "…"}]',
        ),
    ],
)
def test_a_failure_ends_with_the_budget_key_that_would_allow_it(aspect, proposal, line):
    def rule(outcome):
        return lambda observation, budget: Finding(outcome, "so", ("line",), proposal)

    def details(outcome, budget):
        return judge(make_observation(), budget, aspect, rule(outcome)).verdict.details

    assert details("failed", Budget()) == ("line", line)
    assert details("failed", expecting(aspect=aspect)) == ("line",)
    assert details("passed", Budget()) == ("line",)


def test_a_failure_that_no_budget_key_allows_names_none():
    limit = judge(make_observation(), Budget(), "recompiles", lambda o, b: Finding("failed", "so"))
    assert limit.verdict.details == ()


# Cases that did not run.


@pytest.mark.parametrize(
    ("status", "failure", "summary"),
    [
        (
            "raised",
            {"stage": "compile", "kind": "TorchRuntimeError", "message": "no kernel"},
            "raised in stage 'compile': TorchRuntimeError: no kernel",
        ),
        (
            "crashed",
            {"stage": "call", "kind": "SIGSEGV", "message": "killed by SIGSEGV"},
            "crashed in stage 'call': killed by SIGSEGV",
        ),
        (
            "timed_out",
            {"stage": "vary", "kind": "timeout", "message": "after 300 s"},
            "timed out in stage 'vary': after 300 s",
        ),
        (
            "could_not_start",
            {"stage": "start", "kind": "OSError", "message": "no torch"},
            "could not start in stage 'start': no torch",
        ),
    ],
)
def test_a_case_that_did_not_run_fails_every_aspect_in_one_line(status, failure, summary):
    observation = make_failed_observation(status, **failure)
    for aspect in ("forward", "memory"):
        judged = judge(observation, Budget(), aspect, must_not_be_asked)
        assert judged.verdict.outcome == "failed"
        assert judged.verdict.summary == summary
        assert judged.of_case
        assert judged.proposal == {}


@pytest.mark.parametrize(
    ("share", "outcome", "shown"),
    [
        (0.03, "failed", ""),
        (0.85, "inconclusive", "; other processes held 85% of the GPU's memory"),
        (None, "inconclusive", "; other processes held an unknown share of the GPU's memory"),
    ],
)
def test_running_out_of_memory_that_others_hold_is_inconclusive(share, outcome, shown):
    observation = make_failed_observation("out_of_memory", held_by_others=share)
    verdict = judge(observation, Budget(), "forward", must_not_be_asked).verdict
    assert verdict.outcome == outcome
    assert verdict.summary.endswith(shown)
    assert ("other processes" in verdict.summary) is bool(shown)


@pytest.mark.parametrize(
    ("kind", "others_took", "outcome"),
    [
        ("busy machine", 0.78, "inconclusive"),
        ("timeout", 0.78, "failed"),  # it hung, however busy the machine was
        ("timeout", None, "failed"),  # as runs of earlier versions record it
    ],
)
def test_only_a_busy_machine_makes_a_time_out_inconclusive(kind, others_took, outcome):
    failed = make_failed_observation("timed_out", kind=kind, others_took=others_took)
    verdict = judge(failed, Budget(), "forward", must_not_be_asked).verdict
    assert (verdict.outcome, verdict.summary) == (
        outcome,
        "timed out in stage 'compile': it broke",
    )


@pytest.mark.parametrize(
    ("stage", "changed", "is_hinted"),
    [
        ("eager", {}, True),
        ("compile", {}, False),
        ("eager", {"reference": ""}, False),  # the recipe raised, before there was a reference
        ("eager", {"raises": "KeyError"}, False),  # the recipe names an error
    ],
)
def test_a_model_that_raises_in_eager_names_the_field_for_it(stage, changed, is_hinted):
    failed = make_failed_observation("raised", stage=stage, kind="ValueError")
    failed = replace(failed, **changed)
    details = judge(failed, Budget(), "forward", must_not_be_asked).verdict.details
    hint = "if eager should raise: Example(…, raises=ValueError)"
    assert (hint in details) == is_hinted


def test_details_are_the_traceback_and_the_last_output():
    observation = make_failed_observation("raised", traceback="Traceback:\n  x\n", output="a\nb")
    details = judge(observation, Budget(), "forward", must_not_be_asked).verdict.details
    assert details == ("Traceback:", "  x", "last output:", "  a", "  b")


def test_a_missing_package_skips_with_its_reason():
    observation = make_failed_observation("unavailable", stage="build", message="no timm")
    judged = judge(observation, Budget(), "forward", must_not_be_asked)
    assert (judged.verdict.outcome, judged.verdict.summary) == ("skipped", "no timm")


def test_a_missing_package_skips_also_where_a_failure_is_expected():
    observation = make_failed_observation("unavailable", stage="build", message="no timm")
    judged = judge(observation, expecting(stage="build"), "forward", must_not_be_asked)
    assert judged.verdict.outcome == "skipped"


# Nothing compiled.


@pytest.mark.parametrize("capture", [None, make_capture(graphs=0, compilations=())])
def test_a_case_that_compiled_nothing_fails(capture):
    judged = judge(make_observation(capture=capture), Budget(), "forward", must_not_be_asked)
    assert judged.verdict.outcome == "failed"
    why = "nothing reached the compiler: is torch.compile disabled?"
    assert judged.verdict.summary == f"nothing was compiled, all of it ran eagerly: {why}"
    assert judged.verdict.details == (why,)
    assert judged.of_case


def test_the_reason_is_not_that_python_runs_a_statement_if_there_is_another():
    step, why = (GraphBreak(reason=r, id="", place=None) for r in ("step_unsupported", "why"))
    capture = make_capture(graphs=0, compilations=(), breaks=(step, why))
    judged = judge(make_observation(capture=capture), Budget(), "forward", must_not_be_asked)
    assert judged.verdict.summary.endswith("ran eagerly: why")


def test_a_function_without_operations_on_tensors_is_not_called_disabled():
    """Dynamo traced it, made guards, and had no graph to compile."""
    traced = make_capture(graphs=0, compilations=(make_compilation(),))
    judged = judge(make_observation(capture=traced), Budget(), "forward", must_not_be_asked)
    assert judged.verdict.outcome == "failed"
    assert "found no tensor operation" in judged.verdict.summary
    assert "disabled" not in judged.verdict.summary


def test_graphs_of_which_inductor_made_nothing_fail():
    capture = make_capture(lowered=False)
    silently_eager = judge(
        make_observation(capture=capture), Budget(), "forward", must_not_be_asked
    )
    assert silently_eager.verdict.outcome == "failed"
    assert "Inductor generated no code" in silently_eager.verdict.details[-1]
    on_another = make_observation(capture=capture, backend="aot_eager")
    assert judge(on_another, Budget(), "forward", passes).verdict.outcome == "passed"


@pytest.mark.parametrize("want", ["time", "memory"])
def test_an_unmeasured_cost_is_skipped(want):
    seen = make_observation(wants=("capture", want))
    verdict = judge(seen, Budget(), "speedup", must_not_be_asked, ("capture", want)).verdict
    assert (verdict.outcome, "nothing to measure" in verdict.summary) == ("skipped", True)


def test_a_case_that_compiled_nothing_shows_dynamos_reasons():
    capture = make_capture(
        graphs=0,
        limits=("limit 8",),
        fallbacks=(make_break("unsupported LSTM", ""),),
        breaks=(make_break(),),
    )
    details = judge(
        make_observation(capture=capture), Budget(), "forward", must_not_be_asked
    ).verdict.details
    assert details[0] == "limit 8"
    assert {line for line in details[1:] if not line.startswith(" ")} == {
        "Call to `print` [GB0001] at net.py:10 in forward (model)",
        "unsupported LSTM at net.py:10 in forward (model)",
    }


# Expected failures.


def test_an_expected_failure_of_the_aspect_that_fails_is_expected():
    budget = expecting(aspect="recompiles", issue="https://bug/1")
    judged = judge(make_observation(), budget, "recompiles", fails)
    assert judged.verdict.outcome == "expected_failure"
    assert judged.verdict.summary == "known (https://bug/1): too many"
    assert judged.proposal == {}


def test_an_expected_failure_of_another_aspect_changes_nothing():
    budget = expecting(aspect="forward")
    assert judge(make_observation(), budget, "recompiles", fails).verdict.outcome == "failed"
    assert judge(make_observation(), budget, "recompiles", passes).verdict.outcome == "passed"


@pytest.mark.parametrize("known", [{"aspect": "forward"}, {"stage": "compile"}, {"stage": "crash"}])
def test_an_expected_failure_that_passes_fails_and_says_what_to_remove(known):
    budget = expecting(where="mine.toml:7", issue="https://bug/1", **known)
    judged = judge(make_observation(), budget, "forward", passes)
    assert judged.verdict.outcome == "failed"
    assert "expected to fail, but passed: known (https://bug/1)" in judged.verdict.summary
    assert "Remove the entry at mine.toml:7" in judged.verdict.summary


@pytest.mark.parametrize("outcome", ["inconclusive", "skipped"])
def test_a_skipped_or_inconclusive_verdict_contradicts_no_expected_failure(outcome):
    budget = expecting(aspect="speedup")
    judged = judge(make_observation(), budget, "speedup", lambda o, b: Finding(outcome, "so"))
    assert (judged.verdict.outcome, judged.verdict.summary) == (outcome, "so")


def test_a_stage_that_is_not_passed_covers_every_aspect():
    observation = make_failed_observation("raised", stage="compile")
    for aspect in ("forward", "memory", "compile_time"):
        judged = judge(observation, expecting(stage="compile"), aspect, must_not_be_asked)
        assert judged.verdict.outcome == "expected_failure"


@pytest.mark.parametrize("status", ["crashed", "timed_out"])
def test_the_stage_crash_covers_a_process_that_died_wherever_it_was(status):
    observation = make_failed_observation(status, stage="call", message="killed")
    judged = judge(observation, expecting(stage="crash"), "forward", must_not_be_asked)
    assert judged.verdict.outcome == "expected_failure"


@pytest.mark.parametrize(
    ("status", "stage", "known"),
    [
        pytest.param("raised", "call", {"stage": "compile"}, id="another stage"),
        pytest.param("raised", "compile", {"stage": "crash"}, id="raised, not crashed"),
        pytest.param("raised", "compile", {"aspect": "forward"}, id="did not run to its end"),
        pytest.param("crashed", "compile", {"aspect": "forward"}, id="crashed"),
    ],
)
def test_another_failure_than_the_expected_fails(status, stage, known):
    observation = make_failed_observation(status, stage=stage)
    judged = judge(observation, expecting(**known), "forward", must_not_be_asked)
    assert judged.verdict.outcome == "failed"
    assert "known" not in judged.verdict.summary


def test_wrong_numbers_are_not_covered_by_an_expected_compile_error():
    judged = judge(make_observation(), expecting(stage="compile"), "forward", fails)
    assert judged.verdict.outcome == "failed"


def test_one_of_many_expected_failures_is_enough():
    budget = Budget(
        expected_failures=(
            ExpectedFailure(reason="does not compile", stage="compile"),
            ExpectedFailure(reason="wrong numbers", aspect="forward"),
        )
    )
    judged = judge(make_observation(), budget, "forward", fails)
    assert judged.verdict.outcome == "expected_failure"
    assert judged.verdict.summary.startswith("wrong numbers")
