"""What a triage writes is there as soon as a culprit is complete, and only where it can be."""

import shutil
from pathlib import Path

import pytest

from compilegate import __main__
from compilegate.culprits import known
from compilegate.judging import budgets_toml
from compilegate.layout import SHIPPED_BUDGETS
from compilegate.runs import files, hidden_folders
from compilegate.triage import folders
from compilegate.triage.findings import Findings
from compilegate.triage.report import found_reports
from compilegate.triage.search.ladder import Stage
from compilegate.triage.search.seen import Seen

RUN = Path(__file__).parents[2] / "data" / "h200-autotuned.jsonl.gz"


class Investigated:
    """Stands for an investigation, which confirms a failure until somebody interrupts it."""

    left = 0

    def __init__(self, suspect, folder, *_, **__):
        self.findings = Findings()

    def run(self):
        if not Investigated.left:
            raise KeyboardInterrupt
        Investigated.left -= 1
        self.findings.stage = Stage(seen={"inductor": Seen("bad")})


@pytest.fixture
def interrupted(monkeypatch):
    monkeypatch.setattr(folders, "Investigation", Investigated)
    monkeypatch.setattr(folders, "cause_of", lambda *_: Apart())

    def after(culprits):
        Investigated.left = culprits

    return after


class Apart:
    """The cause of a culprit that no other has."""

    def is_that_of(self, _):
        return False


@pytest.mark.parametrize("complete", [0, 1, 2])
def test_the_file_of_known_culprits_has_those_that_are_complete(complete, interrupted, tmp_path):
    run = files.read(RUN)
    budgets = budgets_toml.read([], sorted(SHIPPED_BUDGETS.glob("*.toml")))
    found = folders.suspects(run, budgets) * 3
    interrupted(complete)
    made = folders.triage(run, found, tmp_path, minutes=1, say=lambda _: None)
    file = tmp_path / found_reports.FILE
    for number in range(1, complete + 1):
        next(made)
        issues = {entry.issue for entry in known.read([file])}
        assert len(issues) == number
    with pytest.raises(KeyboardInterrupt):
        next(made)
    assert file.exists() is (complete > 0)
    assert len([*tmp_path.glob("[0-9]*/report.md")]) == complete + 1
    assert not [*tmp_path.glob("*.making")]


def test_one_that_is_interrupted_after_its_stage_was_found_has_an_entry(monkeypatch, tmp_path):
    class Interrupted(Investigated):
        def run(self):
            self.findings.stage = Stage(seen={"inductor": Seen("bad")})
            raise KeyboardInterrupt

    monkeypatch.setattr(folders, "Investigation", Interrupted)
    run = files.read(RUN)
    found = folders.suspects(run, budgets_toml.read([], sorted(SHIPPED_BUDGETS.glob("*.toml"))))
    with pytest.raises(KeyboardInterrupt):
        next(folders.triage(run, found, tmp_path, minutes=1, say=lambda _: None))
    (entry,) = known.read([tmp_path / found_reports.FILE])
    assert [*entry.cases] == [*found[0].culprit.cases]


@pytest.mark.parametrize("kind", ["file", "below a file"])
def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_begun(
    kind, tmp_path, capsys
):
    (tmp_path / "file").touch()
    out = tmp_path / "file" / ("below" if kind == "below a file" else "")
    shutil.copy(RUN, tmp_path / "red.jsonl.gz")
    assert __main__.main(["triage", str(tmp_path / "red.jsonl.gz"), "--out", str(out)]) == 2
    ended = capsys.readouterr()
    assert f"compilegate: cannot write reports to {out}: " in ended.err
    assert "min each at most" not in ended.out


def test_a_folder_that_can_be_written_is_made(interrupted, tmp_path, capsys):
    interrupted(9)
    out = tmp_path / "new" / "out"
    assert __main__.main(["triage", str(RUN), "--out", str(out)]) == 1
    assert (out / found_reports.FILE).exists()
    assert "min each at most" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("pattern", "names"),
    [("one", True), ("one-*", True), ("one-cpu-infer-f32-default-static", True), ("on", False)],
)
def test_a_word_names_a_case_by_its_model_or_its_id(pattern, names):
    assert folders.names_case(pattern, "one-cpu-infer-f32-default-static") is names


def test_git_leaves_out_hidden_folders_that_were_made(tmp_path):
    (tmp_path / ".old").mkdir()
    for name in (".new/run", "shown/run", ".old/run"):
        hidden_folders.make(tmp_path / name)
    assert [path.parent.name for path in tmp_path.rglob(".gitignore")] == [".new"]
    hidden_folders.make(tmp_path / ".new" / "run")
