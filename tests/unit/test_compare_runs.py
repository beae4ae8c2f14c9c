"""Every planned case of either run ends in exactly one class, and none vanishes silently."""

from dataclasses import replace

import pytest

from compilegate.records.environment import Device
from compilegate.runs.slim import slim_observation
from compilegate.upgrade.case_comparison import CaseComparison, compare_unfinished
from compilegate.upgrade.comparison import CompareError, Comparison
from compilegate.upgrade.decision import decide
from tests.unit.making import (
    CASE_ID,
    make_call,
    make_environment,
    make_failed_observation,
    make_header,
    make_observation,
    make_timing,
    make_verdict,
)
from tests.unit.runs import (
    ABSENT,
    NEW,
    OLD,
    UNOBSERVED,
    compare_files,
    compared,
    effects,
    seen,
    write_run,
)

OTHER_ID = "tiny-cpu-infer-f32-default-static"
NO_TIMM = "timm cannot be imported: No module named 'timm'"
LACKS = make_failed_observation("unavailable", stage="build", message=NO_TIMM)
UNABLE = make_failed_observation(
    "unavailable", stage="eager", message="eager cannot run this model on this processor"
)


def unfinished(before, now, *, times_compare=True):
    given = {"paired": False, "work_growth": 0.02}
    return compare_unfinished(CASE_ID, before, now, times_compare=times_compare, **given)


def test_a_case_of_a_session_that_ended_early_is_compared_as_far_as_possible():
    found = unfinished(seen(), seen())
    assert found.kind == "inconclusive"
    shown = "observed, but the session ended before it was judged"
    assert (found.reason, found.doubt) == (shown, shown)
    assert unfinished(seen(), seen(forward="failed")).kind == "broken"
    assert unfinished(ABSENT, seen()).kind == "new"


@pytest.mark.parametrize(("same_machine", "kind"), [(True, "regressed"), (False, "inconclusive")])
def test_costs_of_another_machine_break_no_case_of_a_session_that_ended_early(same_machine, kind):
    before, now = seen(compile_time="passed"), seen(compile_time="failed")
    assert unfinished(before, now, times_compare=same_machine).kind == kind


def test_an_aspect_that_is_no_longer_judged_leaves_a_doubt():
    now = seen(forward="passed")
    before = seen(forward="passed", gradients="passed")
    assert compared(before, now).doubt == "not judged now: gradients"
    assert compared(now, before).doubt == ""


# Cases that only one run has.


@pytest.mark.parametrize(
    ("before", "now", "kind", "text"),
    [
        (seen(), ABSENT, "gone", "not in the candidate's plan"),
        (seen(), UNOBSERVED, "gone", "planned, but not observed"),
        (seen(), seen(LACKS), "gone", f"not observed: {NO_TIMM}"),
        (UNOBSERVED, UNOBSERVED, "not comparable", "observed in neither run"),
        (UNOBSERVED, ABSENT, "not comparable", "observed in neither run"),
        (ABSENT, UNOBSERVED, "not comparable", "observed in neither run"),
        (UNOBSERVED, seen(), "new", "planned in the baseline, but not observed there"),
    ],
)
def test_a_case_that_is_missing_on_a_side_keeps_the_answer_from_being_safe(before, now, kind, text):
    result = compared(before, now)
    assert (result.kind, result.reason, result.doubt) == (kind, text, text)


@pytest.mark.parametrize(
    ("before", "now", "kind", "text"),
    [
        (ABSENT, seen(), "new", "not in the baseline"),
        (ABSENT, seen(forward="failed"), "new", "not in the baseline; fails: forward"),
        (seen(LACKS), seen(), "new", f"not observed in the baseline: {NO_TIMM}"),
        (
            *(seen(UNABLE), seen(UNABLE), "not comparable"),
            "unavailable in both: eager cannot run this model on this processor",
        ),
    ],
)
def test_a_case_that_is_new_or_that_no_machine_like_this_runs_does_not_change_the_answer(
    before, now, kind, text
):
    result = compared(before, now)
    assert (result.kind, result.reason, result.doubt) == (kind, text, "")


@pytest.mark.parametrize(
    ("before", "kind", "text"),
    [
        (seen(LACKS), "not comparable", f"unavailable in both: {NO_TIMM}"),
        (ABSENT, "new", f"not observed: {NO_TIMM}"),
    ],
)
def test_a_library_that_both_environments_lack_keeps_the_answer_from_being_safe(before, kind, text):
    result = compared(before, seen(LACKS))
    assert (result.kind, result.reason, result.doubt) == (kind, text, text)


def test_a_new_case_that_ends_early_shows_its_failure():
    result = compared(ABSENT, seen(make_failed_observation("crashed")))
    assert result.reason == "not in the baseline; fails: crashed in stage compile: it broke"


# Cases that are not the same thing.


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"backend": "aot_eager"}, "backend inductor → aot_eager"),
        ({"seed": 7}, "seed 0 → 7"),
        ({"tf32": True}, "TF32 off → on"),
        ({"fingerprint": "b", "parameters": 12}, "the model changed: 10 → 12 parameters"),
        ({"calls": (make_call(sizes={"batch": 9}),) * 2}, "its calls have different sizes"),
    ],
)
def test_a_changed_case_is_not_comparable(changed, why):
    before = make_observation(fingerprint="a", parameters=10)
    result = compared(before, replace(before, **changed))
    assert result.kind == "not comparable"
    assert result.reason.startswith(why)
    assert result.doubt == ""
    assert compared(before, before).kind == "unchanged"


def test_another_model_that_fails_now_keeps_the_answer_from_being_safe():
    before, now = (make_observation(fingerprint=fingerprint) for fingerprint in "ab")
    result = compared(seen(before), seen(now, forward="failed"))
    assert result.doubt == "fails now, and cannot be compared: forward"
    assert compared(seen(before, forward="failed"), seen(now, forward="failed")).doubt == ""


def test_a_case_that_died_before_its_model_was_known_is_comparable():
    before = make_observation(fingerprint="a")
    died = make_failed_observation("crashed", stage="build")
    assert compared(before, seen(died, forward="failed")).kind == "broken"


@pytest.mark.parametrize(
    ("before", "now", "outcome", "doubt"),
    [
        ("build", None, "failed", "fails in forward; before, it had no results: raised in stage"),
        ("compile", None, "failed", "fails in forward; before, it had no results: raised in stage"),
        ("build", "build", "failed", "in neither version anything was compiled: raised in stage"),
        ("compile", None, "expected_failure", ""),
        ("build", None, "passed", ""),
        ("compile", "compile", "failed", ""),
        ("call", None, "failed", ""),
    ],
)
def test_a_baseline_without_results_leaves_a_doubt_on_failures(before, now, outcome, doubt):
    then, later = (
        make_failed_observation("raised", stage=stage) if stage else make_observation()
        for stage in (before, now)
    )
    found = compared(seen(then, forward="failed"), seen(later, forward=outcome))
    assert found.doubt.startswith(doubt)
    assert bool(found.doubt) is bool(doubt)


def test_fewer_calls_are_compared_as_far_as_they_go():
    three, two = (make_observation(calls=(make_call(),) * count) for count in (3, 2))
    assert compared(three, two).kind == "unchanged"


# The class of several changes.


def test_the_most_severe_change_decides():
    before = seen(forward="passed", gradients="failed", memory="failed", side_effects="passed")
    after = [
        ({"forward": "failed"}, "broken"),
        ({"forward": "passed", "side_effects": "inconclusive"}, "fixed"),
        ({"gradients": "failed", "side_effects": "inconclusive"}, "inconclusive"),
        ({"gradients": "failed", "side_effects": "passed"}, "improved"),
    ]
    outcomes = {"forward": "passed", "gradients": "passed", "memory": "passed"}
    outcomes["side_effects"] = "passed"
    for change, kind in after:
        outcomes |= change
        assert compared(before, seen(**outcomes)).kind == kind


# Costs that a budgets file accepts.


@pytest.mark.parametrize("aspect", ["memory", "compile_time", "energy"])
@pytest.mark.parametrize("before", ["passed", "skipped", "inconclusive"])
def test_a_threshold_that_is_exceeded_and_accepted_does_not_count(aspect, before):
    then = seen(forward="passed", **{aspect: before})
    result = compared(then, seen(forward="passed", **{aspect: "expected_failure"}))
    assert (result.kind, result.has_accepted_cost) == ("unchanged", True)
    assert result.reason == f"{aspect}: accepted: {aspect} expected_failure"
    failing = compared(then, seen(forward="passed", **{aspect: "failed"}))
    assert failing.kind != "unchanged"
    assert not failing.has_accepted_cost


@pytest.mark.parametrize("aspect", ["forward", "gradients", "graph_breaks"])
def test_a_wrong_result_counts_even_if_it_is_expected(aspect):
    result = compared(seen(**{aspect: "passed"}), seen(**{aspect: "expected_failure"}))
    assert (result.kind, result.has_accepted_cost) == ("broken", False)


# Cases that nothing judged.


@pytest.mark.parametrize("outcome", ["skipped", "inconclusive"])
def test_a_case_without_a_judged_aspect_is_inconclusive(outcome):
    undecided = seen(energy=outcome)
    assert compared(undecided, undecided).kind == "inconclusive"
    judged = seen(energy=outcome, memory="passed")
    assert compared(judged, seen(energy="skipped", memory="passed")).kind == "unchanged"


# Whole runs.


def run(path, *observations, **how):
    records = [r for o in observations for r in (o, make_verdict(case=o.case))]
    return write_run(path, *records, **how)


def test_a_run_against_itself_has_no_difference(tmp_path):
    both = (make_observation(), make_observation(case=OTHER_ID))
    a = run(tmp_path / "a.jsonl", *both, environment=OLD)
    b = run(tmp_path / "b.jsonl", *both)
    comparison = compare_files(a, b)
    assert {kind: count for kind, count in comparison.counts.items() if count} == {"unchanged": 2}
    assert comparison.machines == ""
    assert comparison.cautions == ()
    assert all(item.changes == () for item in comparison.cases)


def test_every_planned_case_of_either_run_is_there_once(tmp_path):
    ids = [f"m{i}-cpu-infer-f32-default-static" for i in range(5)]
    cases = [make_observation(case=case) for case in ids]
    a = run(tmp_path / "a.jsonl", *cases[:3], planned=ids[:4], complete=False)
    b = run(tmp_path / "b.jsonl", cases[0], cases[4], planned=[ids[0], ids[1], ids[4]])
    comparison = compare_files(a, b)
    assert {item.case: item.kind for item in comparison.cases} == dict(
        zip(ids, ["unchanged", "gone", "gone", "not comparable", "new"], strict=True)
    )
    assert sum(comparison.counts.values()) == 5
    assert [caution.partition(":")[0] for caution in comparison.cautions] == [
        f"the baseline {a} is incomplete",
        f"the candidate {b} is incomplete",
    ]


@pytest.mark.parametrize("name", ["b.baseline.jsonl", "a.jsonl"])
def test_one_command_continues_a_run_and_the_baseline_that_its_session_wrote(tmp_path, name):
    path, now = tmp_path / name, tmp_path / "b.jsonl"
    for each in (path, now):
        run(each, planned=[CASE_ID], complete=False)
    before, after = compare_files(path, now).cautions
    assert after.endswith(f"--resume {now}")
    is_of_one_session = name.startswith("b.")
    assert ("--resume" in before) is not is_of_one_session
    if not is_of_one_session:
        assert before.endswith(f"--resume {path}")


def test_a_baseline_alone_is_continued_by_the_command_of_its_session(tmp_path):
    before, now = tmp_path / "b.baseline.jsonl", tmp_path / "b.jsonl"
    run(before, planned=[CASE_ID], complete=False)
    run(now, make_observation())
    (caution,) = compare_files(before, now).cautions
    assert caution.endswith(f"--resume {now}")


@pytest.mark.parametrize(
    "cases",
    [
        [],
        [CaseComparison(CASE_ID, "unchanged")],
        [CaseComparison(c, "unchanged") for c in (CASE_ID, OTHER_ID, OTHER_ID)],
    ],
)
def test_classes_that_do_not_add_up_are_never_shown(cases):
    planned = make_header(planned=(CASE_ID,)), make_header(planned=(CASE_ID, OTHER_ID))
    with pytest.raises(CompareError, match="the classes do not add up"):
        Comparison(*planned, tuple(cases))


@pytest.mark.parametrize(
    ("device", "difference"),
    [
        (Device(kind="cpu", name="Intel Xeon", memory_bytes=1, cores=2), "cpu AMD EPYC 9655 → Int"),
        (Device(kind="cpu", name="AMD EPYC 9655", memory_bytes=1, cores=8), "cores 2 → 8"),
    ],
)
def test_times_of_other_machines_are_not_compared(tmp_path, device, difference):
    fast, slow = (
        replace(make_observation(timing=make_timing(speedup)), case=CASE_ID)
        for speedup in (3.0, 1.0)
    )
    a = run(tmp_path / "a.jsonl", fast)
    b = run(tmp_path / "b.jsonl", slow, environment=make_environment(devices=(device,)))
    comparison = compare_files(a, b)
    assert comparison.machines.startswith(difference)
    assert comparison.cases[0].changes == ()
    same = run(tmp_path / "c.jsonl", slow)
    assert effects(compare_files(a, same).cases[0]) == [("speedup", "unclear")]


def test_another_driver_is_software_and_is_named_in_the_decision(tmp_path):
    case = "tiny-cuda-infer-f32-default-static"
    paths = []
    for driver in ("550.1", "560.2"):
        gpu = Device(kind="cuda", name="NVIDIA H200", memory_bytes=1, driver=driver)
        environment = make_environment(devices=(*NEW.devices, gpu))
        path = tmp_path / f"{driver}.jsonl"
        paths.append(run(path, make_observation(case=case), environment=environment))
    comparison = compare_files(*paths)
    assert comparison.machines == ""
    assert "torch 2.15.0 → 2.15.0, driver 550.1 → 560.2" in str(decide(comparison))


def test_two_revisions_of_compilegate_cause_a_caution(tmp_path):
    a = run(tmp_path / "a.jsonl", make_observation())
    b = run(tmp_path / "b.jsonl", make_observation(), revision="def")
    (caution,) = compare_files(a, b).cautions
    assert caution.startswith("the runs were judged by two revisions of compilegate (abc, def)")


def test_a_whole_observation_can_be_slimmed():
    assert slim_observation(make_observation()).case == CASE_ID
