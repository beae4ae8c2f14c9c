"""What a person watching sees: one line a case, and a summary that says what to do."""

import pytest

from compilegate.records.environment import Device
from compilegate.reports.summary import Outcome, Progress, case_line, duration, summarize
from tests.unit.making import (
    CASE_ID,
    make_break,
    make_call,
    make_capture,
    make_checked,
    make_compilation,
    make_environment,
    make_error,
    make_failed_observation,
    make_memory,
    make_observation,
    make_timing,
    make_verdict,
)

PROGRESS = Progress(done=3, planned=12, fresh=3, elapsed_s=30.0)
INFER_ID = "tiny-cpu-infer-f32-default-static"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "0 s"),
        (40.4, "40 s"),
        (98.9, "99 s"),
        (100, "2 min"),
        (170, "3 min"),
        (3600, "60 min"),
        (5930, "99 min"),
        (5999, "1 h 40 min"),
        (7500, "2 h 5 min"),
    ],
)
def test_durations_are_said_as_a_person_does(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (PROGRESS, "[ 3/12, 90 s left]"),
        (Progress(done=12, planned=12, fresh=12, elapsed_s=30.0), "[12/12]"),
        (Progress(done=3, planned=12, fresh=0, elapsed_s=30.0), "[ 3/12]"),
        (Progress(done=9, planned=120, fresh=9, elapsed_s=900.0), "[  9/120, 3 h 5 min left]"),
    ],
)
def test_progress_says_how_far_and_how_long(progress, text):
    assert str(progress) == text


# The line of a case.


def test_a_case_is_one_line():
    observation = make_observation(
        cold=True,
        timing=make_timing(2.0),
        memory=make_memory(100, 125),
        capture=make_capture(
            breaks=(make_break(),),
            compilations=(
                make_compilation(),
                make_compilation(1, "size"),
                make_compilation(2, "x"),
            ),
        ),
    )
    assert case_line(observation, "..F.", PROGRESS) == (
        f"[ 3/12, 90 s left]   ..F.     {CASE_ID}  forward 1e-07  gradients 1e-07  breaks 1  "
        "recompiles 2  compile 4.0 s cold  speedup 2.00 [2.00, 2.00]  memory 1.25"
    )


def test_figures_that_were_not_measured_are_left_out():
    infer = make_call(gradients=make_checked())
    observation = make_observation(case=INFER_ID, calls=(infer,), compile_time=None, capture=None)
    assert case_line(observation, ".", PROGRESS).endswith(f"{INFER_ID}  forward 1e-07")


def test_a_warm_compile_says_so():
    assert "compile 4.0 s warm" in case_line(make_observation(), ".", PROGRESS)


def test_the_worst_error_is_shown_of_tensors_that_see():
    calls = (
        make_call(outputs=make_checked(make_error(compiled_rms=1e-6))),
        make_call(
            outputs=make_checked(
                make_error(compiled_rms=3e-5),
                make_error(eager_rms=0.5, compiled_rms=0.5),
                make_error(scale=0.0, compiled_rms=0.9),
            )
        ),
    )
    assert "forward 3e-05" in case_line(make_observation(calls=calls), ".", PROGRESS)


def test_a_case_that_did_not_run_says_where_it_ended():
    observation = make_failed_observation("timed_out", stage="call", message="after 300 s")
    assert case_line(observation, "F", PROGRESS).endswith(
        f"{CASE_ID}  timed out in stage call: after 300 s"
    )


def test_a_long_failure_is_cut():
    observation = make_failed_observation("raised", message="x" * 1000)
    assert len(case_line(observation, "F", PROGRESS)) < 200


def test_memory_of_a_case_that_allocates_nothing_is_left_out():
    line = case_line(make_observation(memory=make_memory(0, 0)), ".", PROGRESS)
    assert "memory" not in line


def test_numbers_that_are_none_are_shown_as_they_are():
    wrong = make_checked(make_error(compiled_rms=float("nan")))
    assert "forward nan" in case_line(
        make_observation(calls=(make_call(outputs=wrong),)), ".", PROGRESS
    )


# The summary.


def session(**changed):
    observations = {
        CASE_ID: make_observation(spent_s={"compile": 20.0, "run": 10.0, "reference": 5.0}),
        INFER_ID: make_observation(case=INFER_ID, spent_s={"compile": 30.0, "reference": 5.0}),
    }
    fields = {
        "environment": make_environment(),
        "planned": 2,
        "observations": observations,
        "verdicts": {CASE_ID: [make_verdict()], INFER_ID: [make_verdict(case=INFER_ID)]},
        "wall_s": 80.0,
        "made": [*observations.values()],
    }
    return Outcome(**fields | changed)


def test_a_good_session_says_where_and_that_none_failed():
    assert summarize(session()).title == (
        "compilegate: torch 2.15.0 on AMD EPYC 9655: 2 cases, none failed"
    )


def test_the_time_is_accounted_for():
    (line,) = summarize(session()).lines
    assert line == (
        "time: 80 s, of which 25% is neither compiling nor running models "
        "(reference 12%, starting and judging 12%)"
    )


def test_the_time_of_several_workers_is_that_of_all():
    (line,) = summarize(session(wall_s=50.0, workers=2)).lines
    assert line == (
        "time: 50 s times 2 workers, of which 40% is neither compiling nor running models "
        "(reference 10%, starting, waiting and judging 30%)"
    )


def test_what_a_stop_cut_short_is_no_share_of_the_time():
    (line,) = summarize(session(wall_s=98.0, planned=3, unfinished_s=28.0)).lines
    assert line == (
        "time: 98 s, 28 s of it for what did not end; of the rest 14% is neither compiling nor "
        "running models (reference 14%)"
    )


def test_warming_the_toolchain_is_compiling():
    observation = make_observation(spent_s={"warm_toolchain": 60.0, "compile": 20.0})
    (line,) = summarize(session(made=[observation])).lines
    assert "of which 0% is neither" in line


def test_a_session_that_observed_nothing_accounts_for_no_time():
    assert summarize(session(made=())).lines == ()


def test_everything_notable_is_counted():
    verdicts = {
        CASE_ID: [
            make_verdict("failed", aspect="forward"),
            make_verdict("failed", aspect="memory"),
            make_verdict("inconclusive", aspect="speedup"),
        ],
        INFER_ID: [
            make_verdict("expected_failure", case=INFER_ID),
            make_verdict("inconclusive", case=INFER_ID, aspect="speedup"),
        ],
    }
    title = summarize(session(verdicts=verdicts, planned=5)).title
    assert title.endswith(
        ": 5 cases, 1 failed, 2 inconclusive verdicts, 1 expected failure, 3 not observed"
    )


def test_failures_stand_under_their_aspect():
    verdicts = {
        CASE_ID: [
            make_verdict("failed", aspect="forward", summary="wrong stride"),
            make_verdict("failed", aspect="memory", summary="too much"),
            make_verdict("passed", aspect="speedup", summary="fast"),
        ]
    }
    assert summarize(session(verdicts=verdicts, made=())).lines == (
        "forward:",
        f"  {CASE_ID}: wrong stride",
        "memory:",
        f"  {CASE_ID}: too much",
    )


def test_a_case_that_ended_early_is_told_once():
    aspects = ("forward", "memory", "speedup")
    verdicts = {CASE_ID: [make_verdict("failed", aspect=a, summary="crashed") for a in aspects]}
    assert summarize(session(verdicts=verdicts, made=())).lines == (
        "forward and 2 more aspects:",
        f"  {CASE_ID}: crashed",
    )


def test_what_cannot_be_told_says_why_and_what_would_help():
    verdicts = {
        CASE_ID: [make_verdict("inconclusive", aspect="speedup", summary="straddles")],
        INFER_ID: [make_verdict("inconclusive", case=INFER_ID, summary="blind: output is zero")],
    }
    assert summarize(session(verdicts=verdicts, made=())).lines == (
        "speedup, inconclusive:",
        f"  {CASE_ID}: straddles",
        "forward, inconclusive:",
        f"  {INFER_ID}: blind: output is zero",
        f"observe again with nothing beside: pytest suites/ --cases {CASE_ID}",
    )


@pytest.mark.parametrize(("kind", "shown"), [("inconclusive", 10), ("failed", 14)])
def test_many_that_cannot_be_told_are_counted_and_failures_all_shown(kind, shown):
    cases = [f"m{index}-cpu-infer-f32-default-static" for index in range(14)]
    verdicts = {c: [make_verdict(kind, case=c, summary="busy")] for c in cases}
    lines = summarize(session(verdicts=verdicts, made=())).lines
    assert sum(line.endswith(": busy") for line in lines) == shown
    left = "  … and 4 more (python -m compilegate html RUN shows each)"
    assert (left in lines) is (kind == "inconclusive")


def test_cases_of_a_model_that_fail_alike_share_a_line():
    cases = [
        CASE_ID,
        INFER_ID,
        "tiny-cpu-infer-bf16-default-auto",
        "other-cpu-infer-f32-default-auto",
    ]
    verdicts = {c: [make_verdict("failed", case=c, summary="crashed")] for c in cases}
    assert summarize(session(verdicts=verdicts, made=())).lines == (
        "forward:",
        f"  {CASE_ID} and 2 more: crashed",
        "  other-cpu-infer-f32-default-auto: crashed",
    )


def test_without_environment_the_title_names_none():
    assert summarize(session(environment=None)).title == "compilegate: 2 cases, none failed"


def test_two_devices_are_both_named():
    gpu = Device(kind="cuda", name="NVIDIA H200", memory_bytes=1)
    environment = make_environment()
    environment = make_environment(devices=(*environment.devices, gpu))
    gpu_id = "tiny-cuda-infer-f32-default-static"
    observations = {CASE_ID: make_observation(), gpu_id: make_observation(case=gpu_id)}
    title = summarize(session(environment=environment, observations=observations)).title
    assert "torch 2.15.0 on AMD EPYC 9655 and NVIDIA H200: " in title
