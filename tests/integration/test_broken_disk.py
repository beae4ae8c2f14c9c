"""A run file that cannot be written to its end is refused early, or it fails the session.

Sessions replay a stored run of 30 cases, so nothing is compiled. A limit on the size of files
stands for a full disk: it stops every user at the same byte.
"""

import gzip
import itertools
import os
import resource
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from compilegate.records.case import AXES
from compilegate.runs import files
from compilegate.runs.writer import ROOM, Writer
from tests.integration.conftest import CHECKOUT, FORWARD, Session, command, surroundings
from tests.unit.making import make_observation
from tests.unit.runs import write_run

STORED = CHECKOUT / "tests" / "data" / "h200-live-1.jsonl.gz"

#: Removes the folder of runs after some tests.
_REMOVER = """
import os, shutil

reports = []

def pytest_runtest_logreport(report):
    reports.append(report)
    if len(reports) == 60:
        shutil.rmtree(os.environ["COMPILEGATE_TEST"])
"""


Replay = Callable[..., Session]


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Replay:
    """Judges the stored run again, in a session that may not write more bytes than a limit."""
    unpacked = tmp_path_factory.mktemp("stored") / "stored.jsonl"
    unpacked.write_bytes(gzip.decompress(STORED.read_bytes()))

    def run(
        runs: Path, *arguments: str, stored: Path = unpacked, limit: int | None = None, env=None
    ) -> Session:
        def limit_files() -> None:
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        done = subprocess.run(
            command("--replay", str(stored), "--save", "mine", *arguments, runs=runs),
            cwd=CHECKOUT,
            env=surroundings(runs, env),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
            preexec_fn=limit_files,
        )
        return Session(done.returncode, done.stdout, runs)

    return run


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, replay: Replay) -> Session:
    """The same session where the disk has room."""
    return replay(tmp_path_factory.mktemp("whole") / "runs")


def test_a_disk_with_room_takes_the_whole_run(whole):
    assert whole.status == 0, whole.output
    assert whole.run().closing is not None
    assert "writing the run file failed" not in whole.output


def test_a_disk_without_room_is_refused_before_anything_is_judged(runs, replay):
    session = replay(runs, limit=ROOM - 1)
    assert session.status == 4, session.output
    assert f"cannot write run files to {runs}: File too large" in session.output
    assert "-o runs_dir=FOLDER" in session.output
    assert "passed" not in session.output
    assert not runs.exists()


def _inside_an_observation(path: Path) -> int:
    """Return a size beyond the room that a session wants, which cuts an observation in two."""
    end = 0
    for line in path.read_bytes().splitlines(keepends=True):
        middle, end = end + len(line) // 2, end + len(line)
        if middle > 1.5 * ROOM and line.startswith(b'{"record":"observation"'):
            return middle
    raise AssertionError("the run is too small")


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "with workers"])
def test_a_disk_that_fills_up_stops_the_session_and_fails_it(runs, replay, whole, workers):
    session = replay(runs, *workers, limit=_inside_an_observation(whole.run().path))
    assert session.status == 2, session.output
    assert f"writing the run file failed: {runs}/mine.jsonl: File too large" in session.output
    assert "compilegate: the run file cannot be written" in session.output
    assert "to continue:" not in session.output, "a replay is repeated, not continued"
    path = runs / "mine.jsonl"
    run = files.read(path)
    assert not run.truncated
    assert run.closing is None
    planned = run.header.planned
    assert 0 < len(run.observations) < len(planned)
    assert f"the file holds {len(run.observations)} of {len(planned)} cases" in session.output
    lost = session.output.partition("observed, but not in the file: ")[2].partition("\n")[0]
    assert set(lost.split(", ")) & set(planned)
    assert not set(lost.split(", ")) & run.observations.keys()


def test_workers_do_not_go_on_with_cases_that_cannot_be_saved(runs, replay):
    """A worker has all cases of its model waiting."""
    runs.mkdir()
    settings = itertools.product(
        *(AXES[axis] for axis in ("phase", "precision", "mode", "dynamic"))
    )
    cases = ["-".join(("mlp", "cuda", *values)) for values in settings]
    records = [make_observation(case=case, output="x\n" * 4096) for case in cases]
    write_run(runs / "one.jsonl", *records)
    session = replay(runs, FORWARD, "-n", "2", stored=runs / "one.jsonl", limit=ROOM)
    assert session.status == 2, session.output
    saved = len(session.run("mine").observations)
    assert 0 < saved < session.counts["passed"] < len(cases)


def test_a_disk_that_is_full_at_the_last_record_fails_a_session_that_passed(runs, replay, whole):
    size = whole.run().path.stat().st_size
    # The closing record has more bytes. Arguments in the header make this file the longer one.
    session = replay(runs, limit=size - 20)
    assert session.status == 2, session.output
    assert session.counts == whole.counts
    assert "the file holds 30 of 30 cases" in session.output
    run = files.read(runs / "mine.jsonl")
    assert (run.missing, run.closing) == ([], None)


def test_a_baselines_file_that_cannot_be_written_fails_the_session(runs, replay):
    runs.mkdir()
    cases = [f"{model}-cpu-infer-f32-default-static" for model in ("matvec", "mlp")]
    ours = [make_observation(case=case) for case in cases]
    theirs = [replace(made, calls=made.calls * 400) for made in ours]
    write_run(runs / "night.jsonl", *ours, baseline="night.baseline")
    write_run(runs / "night.baseline.jsonl", *theirs)
    session = replay(runs, FORWARD, stored=runs / "night.jsonl", limit=ROOM)
    assert session.status == 2, session.output
    assert f"failed: {runs}/mine.baseline.jsonl: File too large" in session.output
    assert session.run("mine").closing is None
    assert session.run("mine.baseline").missing == cases
    again = replay(runs, FORWARD, "--save", "again", stored=runs / "night.jsonl")
    assert again.status == 0, again.output
    assert again.run("again.baseline").closing is not None


def test_a_folder_that_is_removed_fails_the_session(runs, replay, write):
    folder = os.path.dirname(write("remover.py", _REMOVER))
    session = replay(runs, "-p", "remover", env={"PYTHONPATH": folder})
    assert session.status == 2, session.output
    assert "mine.jsonl: the file was removed or moved while it was written" in session.output
    assert "no case is in the file" in session.output
    assert "run file: " not in session.output
    assert not runs.exists()


def test_a_name_that_another_session_writes_is_refused_with_its_process(runs, replay):
    other = Writer.create(runs / "mine.jsonl")
    session = replay(runs)
    assert session.status == 4, session.output
    assert f"exists, and process {os.getpid()} is writing it" in session.output
    assert "--resume" not in session.output
    other.close()
    assert replay(runs).status == 0
