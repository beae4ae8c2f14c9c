"""``--save NAME``: the run under a name, never over another."""

import pytest

from compilegate.records.run import encode
from tests.integration.conftest import EXACT, MATVEC
from tests.unit.making import make_header


def test_the_run_is_kept_under_its_name(compilegate):
    session = compilegate(*EXACT, "--cases", MATVEC, "--save", "mine")
    assert session.status == 0, session.output
    run = session.run("mine")
    assert run.header.planned == (MATVEC,)
    assert run.header.environment.versions["torch"]
    assert set(run.observations) == set(run.header.planned)
    assert {verdict.outcome for verdict in run.verdicts.values()} == {"passed"}
    assert run.closing is not None


@pytest.mark.parametrize("file", ["mine.jsonl", "mine.jsonl.gz", "mine.baseline.jsonl"])
def test_a_file_is_never_overwritten(compilegate, runs, file):
    runs.mkdir()
    (runs / file).write_text("precious\n")
    session = compilegate(*EXACT, "--cases", MATVEC, "--save", "mine")
    assert session.status == 4
    assert f"{file} exists; choose another name" in session.output
    assert "--resume" not in session.output
    assert [path.name for path in runs.iterdir()] == [file]
    assert (runs / file).read_text() == "precious\n"


def test_a_run_is_never_overwritten_but_can_be_continued(compilegate, runs):
    runs.mkdir()
    path = runs / "mine.jsonl"
    path.write_text(f"{encode(make_header())}\n")
    before = path.read_text()
    session = compilegate(*EXACT, "--cases", MATVEC, "--save", "mine")
    assert session.status == 4
    assert "exists; choose another name, or continue it with --resume mine" in session.output
    assert path.read_text() == before


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--collect-only", "-q"), "--collect-only observes nothing"),
        (("-k", "nothing"), "it selects no case: check --models, --cases, -m and -k"),
        (("-k", "nothing", "-q"), "it selects no case: check --models, --cases, -m and -k"),
    ],
)
def test_a_name_for_a_run_that_is_not_written_is_reported(
    compilegate, stored, runs, arguments, why
):
    stored("sound")
    output = compilegate(*EXACT, "--replay", "stored", "--save", "mine", *arguments).output
    assert output.count(f"--save mine: this session writes no run file, because {why}") == 1
    assert not (runs / "mine.jsonl").exists()


@pytest.mark.parametrize("arguments", [("--save", "mine"), ("--collect-only",)])
def test_nothing_is_reported_if_a_run_is_written_or_no_name_was_given(
    compilegate, stored, arguments
):
    stored("sound")
    output = compilegate(*EXACT, "--replay", "stored", *arguments, "-q").output
    assert "because" not in output
