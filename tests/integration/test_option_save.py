"""``--save NAME``: the run under a name, never over another."""

import pytest

from tests.integration.conftest import EXACT, MATVEC


def test_the_run_is_kept_under_its_name(compilegate):
    session = compilegate(*EXACT, "--cases", MATVEC, "--save", "mine")
    assert session.status == 0, session.output
    run = session.run("mine")
    assert run.header.planned == (MATVEC,)
    assert run.header.environment.versions["torch"]
    assert set(run.observations) == set(run.header.planned)
    assert {verdict.outcome for verdict in run.verdicts.values()} == {"passed"}
    assert run.closing is not None


@pytest.mark.parametrize(
    ("file", "resumable"),
    [("mine.jsonl", True), ("mine.jsonl.gz", False), ("mine.baseline.jsonl", False)],
)
def test_a_run_is_never_overwritten(compilegate, runs, file, resumable):
    runs.mkdir()
    (runs / file).write_text("precious\n")
    session = compilegate(*EXACT, "--cases", MATVEC, "--save", "mine")
    assert session.status == 4
    assert f"{file} exists; choose another name" in session.output
    assert ("--resume mine" in session.output) is resumable
    assert [path.name for path in runs.iterdir()] == [file]
    assert (runs / file).read_text() == "precious\n"
