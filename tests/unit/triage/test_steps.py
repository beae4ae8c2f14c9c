"""A step of triage that fails costs no other step, and no other culprit its report."""

import time
from types import SimpleNamespace

import pytest

from compilegate.processes.child_process import ObserverError
from compilegate.triage import investigation
from compilegate.triage.findings import Files, Findings
from compilegate.triage.investigation import Investigation
from compilegate.triage.search.ladder import Stage
from compilegate.triage.search.trials import OutOfTimeError

#: A stage that is known, so that the other steps follow.
CONFIRMED = SimpleNamespace(is_confirmed=True)


class Closing:
    def close(self):
        pass


def investigated(monkeypatch, tmp_path, error):
    """Return the findings of an investigation in which one step raises an error."""
    made = object.__new__(Investigation)
    made.findings = Findings()
    made._scratch, made._until, made._trials = tmp_path / "scratch", float("inf"), Closing()
    made._say, made._files = lambda text: None, Files()

    def find_stage():
        made.findings.stage = CONFIRMED

    def recognise():
        raise error

    steps = ("_explain_costs", "_find_place", "_shrink", "_write_script", "_bisect")
    for name in steps:
        monkeypatch.setattr(made, name, lambda: None, raising=False)
    monkeypatch.setattr(made, "_find_stage", find_stage, raising=False)
    monkeypatch.setattr(made, "_recognise", recognise, raising=False)
    for name in ("workarounds", "own_code", "lines", "dying_operator"):
        monkeypatch.setattr(getattr(investigation, name), "find", lambda *_: None)
    made.run()
    return made.findings


@pytest.mark.parametrize(
    ("error", "note"),
    [
        (KeyError("statements"), "recognition: a bug of compilegate, KeyError: 'statements'"),
        (ObserverError("the child died"), "recognition: the child died"),
    ],
)
def test_the_other_steps_follow(monkeypatch, tmp_path, error, note):
    found = investigated(monkeypatch, tmp_path, error)
    assert found.notes == [note]
    assert "workaround" in found.seconds


def test_a_full_disk_ends_the_triage(monkeypatch, tmp_path):
    with pytest.raises(OSError, match="No space left"):
        investigated(monkeypatch, tmp_path, OSError("No space left on device"))


@pytest.mark.parametrize(("seconds", "left"), [(600, 60), (100, 25)])
def test_a_bisection_leaves_time_for_what_follows_it(monkeypatch, tmp_path, seconds, left):
    made = object.__new__(Investigation)
    made.findings = Findings(stage=Stage("inductor"), verified=SimpleNamespace(holds=True))
    made._folder = made._scratch = tmp_path
    observation, case = SimpleNamespace(failure=None), SimpleNamespace(device="cpu")
    made._suspect = SimpleNamespace(hangs=False, case=case, observation=observation)
    made._say, made._until = lambda text: None, time.monotonic() + seconds
    ends = []

    def bisect(script, folder, backend, until, *_, **__):
        ends.append(until)
        return {"why": "it was killed"}, ""

    monkeypatch.setattr(investigation.running, "bisect", bisect)
    made._bisect()
    assert made._until - ends[0] == pytest.approx(left, abs=1)


def test_with_hardly_any_time_no_bisection_is_begun(tmp_path):
    made = object.__new__(Investigation)
    made.findings = Findings(stage=Stage("inductor"), verified=SimpleNamespace(holds=True))
    made._until = time.monotonic() + 10
    with pytest.raises(OutOfTimeError):
        made._bisect()
