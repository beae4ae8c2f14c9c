"""``--resume RUN``: observes the cases that a run lacks, in the environment that it began in."""

import gzip
from dataclasses import replace

import pytest

from compilegate.records.run import Header
from tests.integration.conftest import BREAKS, MATVEC, ZOOS, faulty_case

FIRST, SECOND = faulty_case("breaks"), faulty_case("unbroken")


def test_an_interrupted_run_is_completed_and_nothing_is_observed_twice(compilegate, runs):
    zoo = ("--zoo", str(ZOOS / "faulty.py"))
    interrupted = compilegate(
        *(BREAKS, *zoo, "--cases", FIRST, "--cases", SECOND, "-x", "--seed", "3"),
        *("--save", "half"),
    )
    assert interrupted.status == 1
    assert "1 not observed" in interrupted.output
    half = interrupted.run()
    assert half.header.planned == (FIRST, SECOND)
    assert half.missing == [SECOND]
    assert half.closing is None
    with (runs / "half.jsonl").open("a") as file:
        file.write('{"record":"observation","case":"breaks_n')

    resumed = compilegate(BREAKS, *zoo, "--resume", "half")
    assert resumed.status == 1  # what was observed before the interruption is still judged
    assert resumed.counts == {"failed": 1, "passed": 1}
    assert resumed.observed == [FIRST, SECOND]
    whole = resumed.run()
    assert (whole.header, whole.truncated) == (half.header, False)
    assert {observation.seed for observation in whole.observations.values()} == {3}
    assert whole.closing is not None
    assert whole.closing.cases == 2
    lines = (runs / "half.jsonl").read_text().splitlines()
    judged = [line for line in lines if line.startswith('{"record":"verdict"')]
    assert len(judged) == 2, "a verdict that the run has is not written again"
    assert resumed.outcomes(FIRST) == {"failed"}
    assert resumed.outcomes(SECOND) == {"passed"}


def test_another_environment_is_refused(compilegate, stored):
    def of_another_torch(record):
        if not isinstance(record, Header):
            return record
        versions = {**record.environment.versions, "torch": "2.7.1"}
        environment = replace(record.environment, versions=versions)
        return replace(record, environment=environment, planned=(MATVEC,))

    before = stored("sound", changed=of_another_torch).read_text()
    session = compilegate("--resume", "stored")
    assert session.status == 4
    assert "the run began in another environment" in session.output
    assert "(torch 2.7.1 → " in session.output
    assert "start a new run" in session.output
    assert session.runs.joinpath("stored.jsonl").read_text() == before


def test_a_users_model_without_its_zoo_is_refused_and_the_run_unharmed(compilegate, stored):
    path = stored("breaks")
    path.write_text(path.read_text().partition("\n")[0] + "\n")  # the header only
    before = path.read_text()
    session = compilegate(BREAKS, "--resume", "stored")
    assert path.read_text() == before
    assert session.status == 4
    assert "'breaks'" in session.output
    assert "--zoo" in session.output


def test_a_compressed_run_is_refused_and_unharmed(compilegate, tmp_path):
    path = tmp_path / "kept.jsonl.gz"
    path.write_bytes(gzip.compress(b"{}\n"))
    before = path.read_bytes()
    session = compilegate("--resume", str(path))
    assert path.read_bytes() == before
    assert session.status == 4
    assert f"cannot resume {path}: it is compressed" in session.output


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("--resume", "stred"), "no run 'stred' in"),
        (("--resume", "stred"), "did you mean 'stored'?"),
        (("--resume", "stored", "--replay", "stored"), "exclude each other"),
        (("--resume", "stored", "--save", "mine"), "a resumed run keeps its file"),
        (
            ("--resume", "stored", "--seed", "7"),
            "the run began with --seed 0; leave the option out",
        ),
    ],
)
def test_what_cannot_be_resumed_is_refused(compilegate, stored, given, expected):
    stored("sound")
    session = compilegate(*given)
    assert session.status == 4
    assert expected in session.output
