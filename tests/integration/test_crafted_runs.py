"""Runs that are made for one question, and judged again: nothing is compiled."""

import re
import shlex

import pytest

from compilegate.records.checksum import seal
from tests.integration.conftest import run_to_its_end
from tests.unit.making import (
    make_break,
    make_call,
    make_capture,
    make_checked,
    make_difference,
    make_failed_observation,
    make_observation,
    make_verdict,
)
from tests.unit.runs import write_run

CASE = "mlp-cpu-infer-f32-default-static"
OTHER = "matvec-cpu-infer-f32-default-static"
SOUND = make_observation(case=CASE)
SUITES = ("suites/test_forward.py", "suites/test_graph_breaks.py")


def test_a_replay_of_a_case_without_its_library_is_no_success(compilegate, runs):
    runs.mkdir()
    text = "nosuchlib cannot be imported: No module named 'nosuchlib'"
    lacks = make_failed_observation("unavailable", case=OTHER, stage="build", message=text)
    write_run(runs / "some.jsonl", make_observation(case=CASE), lacks)
    session = compilegate(*SUITES, "--replay", "some")
    assert session.status == 2, session.output
    assert "2 cases, none failed, 1 not judged: needs nosuchlib" in session.output
    alone = compilegate(*SUITES, "--replay", "some", "--cases", CASE)
    assert alone.status == 0, alone.output
    nothing = compilegate(*SUITES, "--replay", "some", "--cases", OTHER)
    assert nothing.status == 5, nothing.output
    assert "nothing was judged: needs nosuchlib" in nothing.output


def test_a_replay_of_a_part_of_a_plan_is_no_success(compilegate, runs):
    runs.mkdir()
    write_run(runs / "part.jsonl", make_observation(case=CASE), planned=(CASE, OTHER))
    session = compilegate(*SUITES, "--replay", "part")
    assert session.status == 2, session.output
    assert "2 cases, none failed, 1 not observed" in session.output
    assert compilegate(*SUITES, "--replay", "part", "-k", "mlp").status == 0


def test_a_replay_that_is_stopped_saves_an_open_run(compilegate, runs):
    """The stored run has both cases, the new one only what was judged again."""
    runs.mkdir()
    broken = make_observation(case=OTHER, capture=make_capture(breaks=(make_break(),)))
    write_run(runs / "both.jsonl", broken, make_observation(case=CASE))
    session = compilegate("suites/test_graph_breaks.py", "--replay", "both", "--save", "mine", "-x")
    assert session.status == 1, session.output
    run = session.run("mine")
    assert (list(run.observations), run.closing) == ([OTHER], None)
    again = compilegate("suites/test_graph_breaks.py", "--replay", "both", "--save", "again")
    assert again.run("again").closing is not None


def test_what_a_case_wrote_is_shown_once_however_many_of_its_tests_fail(compilegate, runs):
    runs.mkdir()
    wrong = make_call(outputs=make_checked(differences=[make_difference()]))
    broken = make_capture(breaks=(make_break(),))
    made = make_observation(case=CASE, calls=(wrong,), capture=broken, output="a line of Dynamo's")
    write_run(runs / "wrong.jsonl", made)
    session = compilegate(*SUITES, "--replay", "wrong")
    assert session.counts == {"failed": 2}, session.output
    assert session.output.count("a line of Dynamo's") == 1


def test_a_replay_with_another_seed_or_backend_is_refused(compilegate, runs):
    runs.mkdir()
    write_run(runs / "some.jsonl", make_observation(case=CASE), seed=3)
    assert compilegate(*SUITES, "--replay", "some", "--seed", "3").status == 0
    refused = compilegate(*SUITES, "--replay", "some", "--seed", "4")
    assert refused.status == 4
    assert "with --seed 4: the run began with --seed 3" in refused.output


@pytest.mark.parametrize(
    "options",
    [("--replay", "bad"), ("--resume", "bad"), ("--replay", "good", "--baseline-run", "bad")],
)
def test_a_damaged_run_ends_with_2_and_names_the_line(compilegate, runs, options):
    """Not with 1, which means that something is worse, nor with 4, for a wrong command line."""
    runs.mkdir()
    lines = [seal(line) for line in write_run(runs / "good.jsonl", SOUND).read_text().splitlines()]
    damaged = lines[1].replace('"seed":0', '"seed":8')
    (runs / "bad.jsonl").write_text(f"{lines[0]}\n{damaged}\n{lines[2]}\n")
    session = compilegate(*SUITES, *options)
    assert session.status == 2, session.output
    byte = len(lines[0]) + 1
    said = f"bad.jsonl:2: not a record of a run: it was changed after .*, at byte {byte}; delete"
    assert len(re.findall(f"^ERROR: .*{said}", session.output, re.MULTILINE)) == 1, session.output
    assert "Traceback" not in session.output


def pasted(output, before, runs):
    """Run the command that follows a text in the output, from where the session ran."""
    assert output.count(before) == 1, output
    command = output.partition(before)[2].lstrip().partition("\n")[0]
    return run_to_its_end(shlex.split(command), None, runs)


def test_the_command_that_shows_all_of_a_comparison_works_when_pasted(compilegate, runs):
    runs.mkdir()
    broken = make_capture(breaks=(make_break(),))
    write_run(
        runs / "a.jsonl", make_observation(case=CASE, capture=broken), make_verdict(case=CASE)
    )
    write_run(runs / "b.jsonl", make_observation(case=CASE), make_verdict(case=CASE))
    session = compilegate("suites/", "--replay", "b", "--baseline-run", "a")
    assert session.status == 0, session.output
    shown = pasted(session.output, "would keep the improvement: to see them:", runs)
    assert shown.status == 0, shown.output
    assert "graph_breaks" in shown.output


@pytest.mark.parametrize(
    ("lacks", "answer", "status"), [(True, "cannot say", 2), (False, "safe (1 case)", 0)]
)
def test_an_upgrade_is_safe_only_if_every_case_has_its_library(
    compilegate, runs, lacks, answer, status
):
    """The other case fails under both versions, so it does not stop the upgrade."""
    runs.mkdir()
    broken = make_observation(case=CASE, capture=make_capture(breaks=(make_break(),)))
    needs = make_failed_observation(
        "unavailable", stage="build", message="nosuchlib cannot be imported", case=OTHER
    )
    judged = [
        make_verdict(case=CASE),
        make_verdict("failed", case=CASE, aspect="graph_breaks"),
    ]
    for name in ("a", "b"):
        write_run(runs / f"{name}.jsonl", broken, *([needs] if lacks else []), *judged)
    session = compilegate("suites/", "--replay", "b", "--baseline-run", "a")
    assert session.counts["failed"] == 1, session.output
    assert f": {answer}" in session.output
    assert session.status == status
