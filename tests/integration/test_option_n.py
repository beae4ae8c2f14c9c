"""``-n 2``: xdist's workers share one run file, and the cases of a model share a worker."""

import os
import re

import pytest

from compilegate.records.observation import WAITING
from tests.integration.conftest import BREAKS, FORWARD, SPEEDUP, ZOOS

MODELS = {"breaks", "sound", "generalizes"}


@pytest.mark.long
def test_one_run_holds_everything_and_a_case_stays_on_one_worker(compilegate, write):
    chosen = [word for model in MODELS for word in ("--models", model)]
    mine = write("mine.toml", "")
    session = compilegate(
        *(FORWARD, BREAKS, "--zoo", str(ZOOS / "faulty.py"), *chosen, "-m", "cpu"),
        *("-n", "2", "-v", "--budgets", mine, "--budgets-update"),
    )
    assert session.status == 1, session.output
    assert session.counts == {"failed": 2, "passed": 10}
    placed = set(re.findall(r"^\[(gw\d)\] .*\[(\w+-cpu-[\w-]+)\]", session.output, re.MULTILINE))
    cases = {case for _, case in placed}
    assert {case.partition("-")[0] for case in cases} == MODELS
    assert len(placed) == len(cases), placed
    assert {worker for worker, _ in placed} == {"gw0", "gw1"}

    run = session.run()
    assert {case.split("-")[0] for case in run.header.planned} == MODELS
    assert sorted(session.observed) == sorted(run.header.planned)
    assert len(run.verdicts) == 12
    assert run.closing is not None
    with open(mine) as file:
        assert 'reason = "Call to `torch._dynamo.graph_break()`"' in file.read()


@pytest.mark.long
def test_two_workers_give_the_verdicts_of_one_and_take_turns_to_time(compilegate):
    cases = [f"{model}-cpu-infer-f32-default-static" for model in ("breaks", "sound")]
    chosen = [word for case in cases for word in ("--cases", case)]
    words = (FORWARD, BREAKS, SPEEDUP, "--zoo", str(ZOOS / "faulty.py"), *chosen, "-m", "cpu")
    sessions = {n: compilegate(*words, "-n", n, "--save", f"n{n}") for n in ("1", "2")}
    assert "Benchmarks are automatically disabled" not in sessions["2"].output
    runs = [session.run(f"n{n}") for n, session in sessions.items()]
    alone, together = (
        {key: verdict.outcome for key, verdict in run.verdicts.items() if key[1] != "speedup"}
        for run in runs
    )
    assert alone == together
    assert {"passed", "failed"} <= {*alone.values()}
    for run, takes_turns in zip(runs, (False, True), strict=True):
        for seen in run.observations.values():
            assert seen.timing is not None
            assert (WAITING in seen.spent_s) == takes_turns


_KILLER = """\
import os, pathlib, signal

def pytest_runtest_call(item):
    once = pathlib.Path({once!r})
    if not once.exists():
        once.touch()
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.long
def test_a_worker_that_dies_is_named_in_the_title(compilegate, write, tmp_path, monkeypatch):
    """Its case is observed by another worker, and passes."""
    write("killer.py", _KILLER.format(once=str(tmp_path / "once")))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    chosen = ("--zoo", str(ZOOS / "tiny.py"), "--models", "other", "-m", "cpu")
    session = compilegate(FORWARD, *chosen, "-n", "1", "-p", "killer")
    assert session.status == 1, session.output
    assert "crashed while running" in session.output
    assert re.search(r"cases?, none failed, 1 worker died", session.output), session.output
