"""The title of a session, and the summary at its end."""

import pytest

from compilegate.culprits.grouping import FAILED, Failure, culprits, in_order
from compilegate.records.environment import Device
from compilegate.reports.case_result import CaseResult
from compilegate.reports.session_summary import (
    Effort,
    lost_lines,
    summary_lines,
    time_lines,
    unfinished_lines,
)
from compilegate.reports.titles import is_judged, is_open, of_cases, of_decision, where
from compilegate.runs.archive import CaseRecord
from compilegate.upgrade.decision import Decision
from tests.unit.making import (
    CASE_ID,
    make_capture,
    make_environment,
    make_failed_observation,
    make_observation,
    make_verdict,
)

INFER_ID = "tiny-cpu-infer-f32-default-static"


def results(**verdicts):
    """Results of the two cases: train and infer, each a list of verdicts."""
    chosen = {"train": [make_verdict()], "infer": [make_verdict(case=INFER_ID)]} | verdicts
    cases = {"train": CASE_ID, "infer": INFER_ID}
    return {
        cases[phase]: CaseResult.of(CaseRecord.of(make_observation(case=cases[phase]), some))
        for phase, some in chosen.items()
    }


def test_the_title_of_a_good_run():
    assert of_cases(results()) == "2 cases, none failed"


def test_the_title_counts_workers_that_died():
    assert of_cases(results(), died=1) == "2 cases, none failed, 1 worker died"


def test_the_title_counts_each_case_once():
    failed = [make_verdict("failed"), make_verdict("inconclusive", aspect="speedup")]
    doubtful = [make_verdict("inconclusive", case=INFER_ID)]
    both = results(train=failed, infer=doubtful)
    other = CaseResult.of(
        CaseRecord.of(make_observation(), [make_verdict("expected_failure", aspect="memory")])
    )
    missing = CaseResult.of(CaseRecord(planned=True))
    assert of_cases(both | {"other": other, "missing": missing}) == (
        "4 cases, 1 failed, 1 inconclusive, 1 expected failure, 1 not observed"
    )


def test_the_title_of_a_run_without_a_verdict_is_not_good_news():
    skipped = [make_verdict("skipped", summary="no module named 'timm'")]
    some = results(train=skipped, infer=skipped)
    assert not is_judged(some)
    assert of_cases(some) == "nothing was judged: no module named 'timm' (2 cases)"
    missing = {CASE_ID: CaseResult.of(CaseRecord(planned=True))}
    assert of_cases(missing) == "nothing was judged: the run has no verdicts (1 case)"
    assert of_cases({}, "no GPU") == "nothing was judged: no GPU (0 cases)"


def lacking(library, case=INFER_ID):
    """The result of a case that lacks a library."""
    text = f"{library} cannot be imported: No module named {library!r}"
    made = make_failed_observation("unavailable", stage="build", message=text, case=case)
    return CaseResult.of(CaseRecord.of(made, [make_verdict("skipped", summary=text)]))


def test_a_case_that_lacks_its_library_keeps_the_title_from_being_good_news():
    some = results() | {"a": lacking("timm"), "b": lacking("timm"), "c": lacking("flash")}
    assert of_cases(some) == "5 cases, none failed, 3 not judged: needs flash, timm"
    assert of_cases({"a": lacking("timm")}) == "nothing was judged: needs timm (1 case)"
    assert is_open(some)
    assert not is_open(results())


def test_a_case_that_its_machine_cannot_run_is_named_but_leaves_nothing_open():
    text = "eager cannot run this model on this processor: no bf16"
    made = make_failed_observation("unavailable", stage="eager", message=text)
    unable = CaseResult.of(CaseRecord.of(made, [make_verdict("skipped", summary=text)]))
    some = results() | {"a": unable}
    assert of_cases(some) == f"3 cases, none failed, 1 not judged: {text}"
    assert not is_open(some)
    assert is_open({"a": unable})


def test_a_case_without_a_verdict_is_open():
    some = results(infer=[])
    assert of_cases(some) == "2 cases, none failed, 1 not judged: the run has no verdicts"
    assert is_open(some)


def test_the_title_of_a_decision_counts_inconclusive_verdicts():
    safe = Decision("safe", "", "torch 1 → 2 on X", "2 cases")
    assert of_decision(safe, results()) == "safe (2 cases)"
    doubtful = results(train=[make_verdict("inconclusive")])
    assert of_decision(safe, doubtful) == "safe (2 cases, 1 with an inconclusive verdict)"
    counted = Decision("cannot say", "1 inconclusive", "torch 1 → 2 on X", "2 cases")
    assert of_decision(counted, doubtful) == "cannot say: 1 inconclusive (2 cases)"


def test_the_place_names_torch_and_the_devices():
    gpu = Device(kind="cuda", name="NVIDIA H200", memory_bytes=1)
    environment = make_environment()
    assert where(environment, [CASE_ID]) == "torch 2.15.0 on AMD EPYC 9655"
    environment = make_environment(devices=(*environment.devices, gpu))
    both = where(environment, [CASE_ID, "tiny-cuda-infer-f32-default-static"])
    assert both == "torch 2.15.0 on AMD EPYC 9655 and NVIDIA H200"
    assert where(None, [CASE_ID]) == ""


SPENT = [
    {"compile": 20.0, "run": 10.0, "reference": 5.0},
    {"compile": 30.0, "reference": 5.0},
]


@pytest.mark.parametrize(
    ("effort", "line"),
    [
        (
            Effort(80.0, SPENT),
            "time: 80 s, of which 25% is neither compiling nor running models "
            "(reference 12%, starting and judging 12%)",
        ),
        (
            Effort(50.0, SPENT, workers=2),
            "time: 50 s times 2 workers, of which 40% is neither compiling nor running models "
            "(reference 10%, starting, waiting and judging 30%)",
        ),
        (
            Effort(98.0, SPENT, unfinished={CASE_ID: 28.0}),
            "time: 98 s, 28 s of it for cases that did not end; of the rest 14% is neither "
            "compiling nor running models (reference 14%)",
        ),
        (  # all tests wait for fresh pairs, and the session was stopped before the first ended
            Effort(98.0, SPENT, unfinished={CASE_ID: 97.99}),
            "time: 98 s, 98 s of it for cases that did not end",
        ),
    ],
)
def test_the_time_is_accounted_for(effort, line):
    assert list(time_lines(effort)) == [line]


@pytest.mark.parametrize(
    ("unfinished", "lines"),
    [
        ({}, []),
        ({"b": 75.0}, ["did not end: b (75 s)"]),
        (
            {"a": 3.0, "b": 75.0} | dict.fromkeys("cdefghijk", 20.0),
            [
                "did not end: b (75 s), "
                + ", ".join(f"{n} (20 s)" for n in "cdefghijk")
                + " and 1 more"
            ],
        ),
    ],
)
def test_the_longest_cases_that_a_stop_interrupted_are_named(unfinished, lines):
    assert list(unfinished_lines(Effort(98.0, unfinished=unfinished))) == lines


def test_warming_the_toolchain_is_compiling():
    (line,) = time_lines(Effort(80.0, [{"warm_toolchain": 60.0, "compile": 20.0}]))
    assert "of which 0% is neither" in line


def test_two_versions_that_run_at_the_same_time_take_more_than_the_wall_shows():
    (line,) = time_lines(Effort(80.0, [{"compile": 50.0, "reference": 10.0}, {"compile": 40.0}]))
    assert "of which 10% is neither compiling nor running models (reference 10%)" in line


def test_a_session_that_observed_nothing_accounts_for_no_time():
    assert list(time_lines(Effort(80.0))) == []


# What a run file lacks that could not be written to its end.


@pytest.mark.parametrize(
    ("saved", "unsaved", "lines"),
    [
        ("abc", "", ["the file holds 3 of 3 cases"]),
        ("a", "b", ["the file holds 1 of 3 cases", "observed, but not in the file: b"]),
        ("", "ab", ["no case is in the file", "observed, but not in the file: a, b"]),
        ("x", "", ["no case is in the file"]),
        (
            "",
            "abcdefgh",
            [
                "no case is in the file",
                "observed, but not in the file: a, b, c, d, e, f and 2 more",
            ],
        ),
    ],
)
def test_it_is_reported_which_cases_a_run_file_holds(saved, unsaved, lines):
    assert list(lost_lines("abc", set(saved), unsaved)) == lines


def summary(some, width=200, observed=None):
    """The lines of cases that ran to their end, or of the one that was observed."""
    session, page = "pytest suites/ --zoo mine.py", "compilegate html .runs/a.jsonl"
    failures = [
        Failure(
            observed or make_observation(case=case),
            make_verdict(v.outcome, case=case, aspect=v.aspect, summary=v.summary),
        )
        for case, result in some.items()
        for v in in_order(result.verdicts.values())
        if v.outcome in FAILED
    ]
    return list(summary_lines(some, culprits(failures), width, session, page))


def test_failures_are_listed_under_their_aspect_the_gravest_first():
    verdicts = [
        make_verdict("failed", aspect="memory", summary="too much"),
        make_verdict("failed", aspect="forward", summary="wrong stride"),
        make_verdict("passed", aspect="speedup", summary="fast"),
    ]
    assert summary(results(train=verdicts)) == [
        "2 culprits in 1 case:",
        "forward:",
        f"  {CASE_ID}: wrong stride",
        "memory:",
        f"  {CASE_ID}: too much",
    ]


def test_a_case_that_ended_early_is_listed_once():
    aspects = ("forward", "memory", "speedup")
    verdicts = [make_verdict("failed", aspect=aspect, summary="crashed") for aspect in aspects]
    observed = make_failed_observation("crashed")
    crash = CaseResult.of(CaseRecord.of(observed, verdicts))
    assert summary({CASE_ID: crash}, observed=observed) == [
        "1 culprit in 1 case:",
        "all aspects:",
        f"  {CASE_ID}: crashed",
    ]


def test_a_case_that_compiled_nothing_is_listed_once():
    text = "nothing was compiled, all of it ran eagerly: why"
    aspects = ("forward", "memory", "speedup")
    verdicts = [make_verdict("failed", aspect=aspect, summary=text) for aspect in aspects]
    eager = make_observation(capture=make_capture(graphs=0))
    found = {CASE_ID: CaseResult.of(CaseRecord.of(eager, verdicts))}
    assert summary(found, observed=eager) == [
        "1 culprit in 1 case:",
        "all aspects:",
        f"  {CASE_ID}: {text}",
    ]


def test_inconclusive_verdicts_show_why_and_what_may_settle_them():
    some = results(
        train=[make_verdict("inconclusive", aspect="speedup", summary="straddles")],
        infer=[make_verdict("inconclusive", case=INFER_ID, summary="blind: output is zero")],
    )
    assert summary(some) == [
        "forward, inconclusive:",
        f"  {INFER_ID}: blind: output is zero",
        "speedup, inconclusive:",
        f"  {CASE_ID}: straddles",
        f"observe again on an idle machine: pytest suites/ --zoo mine.py --cases {CASE_ID}",
    ]


def test_a_tie_is_shown_whole_and_stays_one_on_an_idle_machine():
    text = "tie: call 1: output: eager and the reference decide on 9 at [0], compiled code on 10"
    lines = summary(results(train=[make_verdict("inconclusive", summary=text)]))
    assert " ".join(" ".join(lines[1:]).split()) == f"{CASE_ID}: {text}"


def test_the_reason_of_an_inconclusive_verdict_is_shown_whole():
    text = "1.07× [0.71, 14.64] over 30 rounds, at least 1× wanted: the interval straddles it"
    _, *lines, _ = summary(results(train=[make_verdict("inconclusive", summary=text)]))
    assert " ".join(" ".join(lines).split()) == f"{CASE_ID}: {text}"


@pytest.mark.parametrize(("outcome", "shown"), [("inconclusive", 10), ("failed", 14)])
def test_many_inconclusive_verdicts_are_counted_and_failures_are_all_listed(outcome, shown):
    some = {}
    for index in range(14):
        case = f"m{index}-cpu-infer-f32-default-static"
        verdict = make_verdict(outcome, case=case, summary=f"busy {'abcdefghijklmn'[index]}")
        some[case] = CaseResult.of(CaseRecord.of(make_observation(case=case), [verdict]))
    lines = summary(some)
    assert sum(": busy " in line for line in lines) == shown
    left = "  … and 4 more; to see each: compilegate html .runs/a.jsonl"
    assert (left in lines) is (outcome == "inconclusive")


def test_cases_of_one_culprit_share_a_line():
    auto = INFER_ID.replace("static", "auto")
    cases = {CASE_ID: "error 3e-05 in 2 of 7", auto: "error 0.4 in 11 of 12", INFER_ID: "another"}
    some = {
        case: CaseResult.of(
            CaseRecord.of(
                make_observation(case=case), [make_verdict("failed", case=case, summary=text)]
            )
        )
        for case, text in cases.items()
    }
    assert summary(some) == [
        "2 culprits in 3 cases:",
        "forward:",
        f"  {CASE_ID} and 1 more: error 3e-05 in 2 of 7",
        f"  {INFER_ID}: another",
    ]


def test_known_culprits_that_are_expected_are_counted_and_the_first_are_named():
    some = {}
    for index in range(5):
        case = f"gh{index}_bug-cpu-infer-f32-default-static"
        text = f"bug {index} (https://example.org/{index}): it fails"
        verdict = make_verdict("expected_failure", case=case, summary=text)
        some[case] = CaseResult.of(CaseRecord.of(make_observation(case=case), [verdict]))
    first, *named, last = summary(some)
    assert first == "as expected, 5 known culprits in 5 cases:"
    assert [line.split("-")[0] for line in named] == ["  gh0_bug", "  gh1_bug", "  gh2_bug"]
    assert last == "  … and 2 more; to see each: compilegate html .runs/a.jsonl"


@pytest.mark.parametrize("width", [80, 120])
def test_lines_of_the_summary_fit_the_terminal(width):
    """A culprit has as many lines as it needs, up to five."""
    address = "https://github.com/pytorch/pytorch/issues/152520"
    of = {"short": f"{'error 0.4 ' * 20}({address})", "long": "error 0.4 " * 100}
    for text in of.values():
        verdicts = [make_verdict("failed", summary=text)]
        lines = summary(results(train=verdicts), width=width)
        assert max(map(len, lines)) <= width
        assert len(lines) <= 2 + 5
        assert any(address in line for line in lines) == (address in text)
        assert any(line.endswith("…") for line in lines) == (text is of["long"])
