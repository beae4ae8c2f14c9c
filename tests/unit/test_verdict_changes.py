"""Changes of verdicts and of early ends decide the class of a case, in both directions."""

import msgspec
import pytest

from compilegate.runs.archive import CaseRecord
from tests.unit.making import (
    make_failed_observation,
    make_failure,
    make_observation,
    make_verdict,
)
from tests.unit.runs import compared, effects, seen


def raised(stage, **failure):
    return seen(make_failed_observation("raised", stage=stage, **failure), forward="failed")


def test_the_same_verdict_as_before_is_unchanged():
    for outcome in ("passed", "failed", "expected_failure"):
        result = compared(seen(forward=outcome), seen(forward=outcome))
        assert (result.kind, result.changes, result.reason) == ("unchanged", (), "")


@pytest.mark.parametrize(
    ("before", "now", "kind"),
    [
        ("passed", "failed", "broken"),
        ("passed", "expected_failure", "broken"),
        ("failed", "passed", "fixed"),
        ("expected_failure", "passed", "fixed"),
        ("failed", "expected_failure", "unchanged"),
        ("inconclusive", "failed", "regressed"),
        ("skipped", "failed", "inconclusive"),
        ("passed", "inconclusive", "inconclusive"),
        ("inconclusive", "inconclusive", "inconclusive"),
        ("passed", "skipped", "inconclusive"),
        ("failed", "skipped", "inconclusive"),
        ("inconclusive", "passed", "unchanged"),
        ("skipped", "passed", "unchanged"),
    ],
)
def test_a_verdict_that_changed_decides_the_class(before, now, kind):
    assert compared(seen(forward=before), seen(forward=now)).kind == kind


@pytest.mark.parametrize(
    ("summary", "outcome", "kind"),
    [
        ("nothing was compiled, all of it ran eagerly: why", "failed", "broken"),
        ("known: nothing was compiled, all of it ran eagerly: why", "expected_failure", "broken"),
        ("call 3: ran eagerly: nothing was compiled for these sizes", "failed", "regressed"),
        ("90.0 s, at most 60 s allowed", "failed", "regressed"),
    ],
)
@pytest.mark.parametrize("before", ["passed", "inconclusive"])
def test_a_case_that_runs_eagerly_is_broken_whichever_aspect_says_so(
    summary, outcome, kind, before
):
    verdict = make_verdict(outcome, aspect="memory", summary=summary)
    now = CaseRecord.of(make_observation(), [verdict])
    assert compared(seen(memory=before), now).kind == kind


@pytest.mark.parametrize("aspect", ["memory", "compile_time", "energy"])
def test_a_threshold_that_is_newly_exceeded_is_worse_not_broken(aspect):
    passed, failed = seen(**{aspect: "passed"}), seen(**{aspect: "failed"})
    assert compared(passed, failed).kind == "regressed"
    assert compared(failed, passed).kind == "improved"
    assert compared(failed, failed).kind == "unchanged"


def test_a_speedup_below_its_budget_leaves_it_open_and_fails_nothing():
    passed, failed = seen(speedup="passed"), seen(speedup="failed")
    worse, better = compared(passed, failed), compared(failed, passed)
    assert (worse.kind, effects(worse)) == ("inconclusive", [("speedup", "unclear")])
    assert worse.doubt.startswith("speedup passed → failed")
    assert (better.kind, effects(better)) == ("unchanged", [("speedup", "note")])
    assert "indicative" in better.changes[0].text
    assert compared(passed, failed, paired=True).doubt == ""
    assert compared(passed, passed).changes == ()
    straddles = seen(forward="passed", speedup="inconclusive")
    assert compared(seen(forward="passed", speedup="passed"), straddles).changes == ()


@pytest.mark.parametrize("aspect", ["speedup", "compile_time", "energy"])
def test_times_of_two_machines_are_not_compared(aspect):
    passed, failed = seen(**{aspect: "passed"}), seen(**{aspect: "failed"})
    assert compared(passed, failed, times_compare=False).changes == ()
    assert compared(passed, failed, times_compare=True).changes != ()


def test_an_aspect_that_is_no_longer_judged_is_unclear():
    before = seen(forward="passed", gradients="passed", speedup="passed", compile_time="passed")
    result = compared(before, seen(forward="passed"))
    assert effects(result) == [("gradients", "unclear")]
    assert result.kind == "inconclusive"


def test_aspects_with_the_same_text_are_one_change():
    before, now = (
        seen(forward=outcome, gradients=outcome, memory=outcome) for outcome in ("passed", "failed")
    )
    alike = {
        aspect: msgspec.structs.replace(verdict, summary="nothing compiled")
        for aspect, verdict in now.verdicts.items()
    }
    result = compared(before, now.__class__(now.planned, now.observation, alike))
    assert effects(result) == [("forward, gradients", "broken"), ("memory", "worse")]
    assert result.reason == "forward, gradients: nothing compiled"


# Cases that ended early.


def test_a_case_that_ends_early_now_is_broken_at_its_stage():
    result = compared(make_observation(), raised("compile", message="no kernel", traceback="a\nb"))
    assert result.kind == "broken"
    assert result.reason == "stage compile: raised in stage compile: TorchRuntimeError: no kernel"
    assert result.changes[0].details == ("a", "b")


def test_the_same_case_the_other_way_is_fixed():
    result = compared(raised("compile"), make_observation())
    assert result.kind == "fixed"
    assert "before: raised in stage compile" in result.reason


@pytest.mark.parametrize(
    ("before", "now", "kind"),
    [
        ("call", "compile", "regressed"),
        ("vary", "call", "regressed"),
        ("compile", "build", "regressed"),
        ("compile", "call", "improved"),
        ("build", "eager", "improved"),
        ("compile", "compile", "unchanged"),
    ],
)
def test_a_failure_that_moved_to_an_earlier_stage_is_worse(before, now, kind):
    assert compared(raised(before), raised(now)).kind == kind


def died_in_serving(**verdicts):
    """Return a case that a practice ended, after everything else had been observed."""
    failure = make_failure(stage="serving", kind="SIGSEGV")
    return seen(make_observation(status="crashed", failure=failure), serving="failed", **verdicts)


@pytest.mark.parametrize(
    ("before", "now", "kind"), [("passed", "failed", "broken"), ("passed", "passed", "unchanged")]
)
def test_a_practice_that_ends_both_cases_hides_no_other_verdict(before, now, kind):
    result = compared(died_in_serving(forward=before), died_in_serving(forward=now))
    assert result.kind == kind


def test_a_practice_that_ends_a_case_now_breaks_it_once():
    result = compared(seen(serving="passed", forward="passed"), died_in_serving(forward="passed"))
    assert result.kind == "broken"
    assert "crashed in stage serving" in result.reason


def test_a_failure_of_another_kind_at_the_same_stage_is_noted():
    result = compared(raised("compile"), raised("compile", kind="KeyError"))
    assert result.kind == "unchanged"
    assert "KeyError" in result.changes[0].text


def test_a_case_that_failed_in_all_and_ends_early_now_is_worse():
    assert compared(seen(forward="failed"), raised("call")).kind == "regressed"
    assert compared(seen(forward="failed", memory="passed"), raised("call")).kind == "broken"


def test_a_case_that_now_completes_but_fails_is_only_better():
    result = compared(raised("compile"), seen(gradients="failed"))
    assert result.kind == "improved"
    assert "fails in gradients" in result.reason


@pytest.mark.parametrize("stage", ["compile", "call"])
@pytest.mark.parametrize("deadly", ["crashed", "timed_out"])
def test_a_failure_that_takes_its_process_along_is_worse_than_one_that_is_raised(stage, deadly):
    """A program catches what is raised, wherever that was. It ends with a crash."""
    dead = seen(make_failed_observation(deadly, stage=stage), forward="failed")
    worse, better = compared(raised("compile"), dead), compared(dead, raised("compile"))
    assert worse.kind == "regressed"
    assert worse.reason.startswith(f"stage {stage}: takes its process along now: raised in ")
    assert better.kind == ("unchanged" if stage == "compile" else "regressed")
    assert compared(dead, dead).kind == "unchanged"
