"""Issues: one for each culprit, with a key that stays from night to night."""

import json

from tests.unit.making import make_observation, make_verdict
from tests.unit.reading_commands import run_command
from tests.unit.runs import write_run

CASES = [
    "resnet18-cpu-infer-f32-default-static",
    "resnet18-cpu-train-f32-default-static",
    "my_net-cpu-infer-f32-default-static",
]


def issues_of(folder, failing, *, healthy=(), created="2026-11-18T00:00:00+00:00"):
    """The issues of a run in which an aspect of some cases fails."""
    cases = [*failing, *healthy]
    verdicts = [
        make_verdict(
            "failed" if case in failing else "passed",
            case=case,
            aspect=failing.get(case, "forward"),
            summary="off by <b>@all</b> | 1",
        )
        for case in cases
    ]
    run = write_run(
        folder / "run.jsonl",
        *(make_observation(case=case) for case in cases),
        *verdicts,
        created=created,
    )
    file = folder / "issues.json"
    run_command("markdown", run, "--issues", file, "--workflow", "nightly")
    return json.loads(file.read_text())


def test_cases_of_one_culprit_are_one_issue(tmp_path):
    failing = dict.fromkeys(CASES[:2], "forward") | {CASES[2]: "memory"}
    found = issues_of(tmp_path, failing)
    assert len(found) == 2
    (first,) = [issue for issue in found if issue["title"].startswith("nightly: forward: ")]
    assert all(case in first["body"] for case in CASES[:2])
    assert CASES[2] not in first["body"]
    assert f"compilegate observe {CASES[0]}" in first["body"]


def test_a_healthy_run_has_no_issue(tmp_path):
    assert issues_of(tmp_path, {}, healthy=CASES) == []


def test_the_key_stays_while_cases_come_and_go(tmp_path):
    (one,) = issues_of(tmp_path, {CASES[0]: "forward"})
    (two,) = issues_of(tmp_path, dict.fromkeys(CASES[:2], "forward"), created="2026-11-19")
    (other,) = issues_of(tmp_path, {CASES[0]: "memory"})
    assert one["key"] == two["key"] != other["key"]


def test_text_of_a_model_does_nothing_in_an_issue(tmp_path):
    (issue,) = issues_of(tmp_path, {CASES[0]: "forward"})
    assert "<b>" not in issue["body"]
    assert "@all" not in issue["body"]
