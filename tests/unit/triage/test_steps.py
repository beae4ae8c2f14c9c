"""A step of triage that fails costs no other step, and no other culprit its report."""

from types import SimpleNamespace

import pytest

from compilegate.processes.child_process import ObserverError
from compilegate.triage import investigation
from compilegate.triage.findings import Files, Findings
from compilegate.triage.investigation import Investigation

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
    for step in (investigation.workarounds, investigation.own_code, investigation.lines):
        monkeypatch.setattr(step, "find", lambda *_: None)
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
