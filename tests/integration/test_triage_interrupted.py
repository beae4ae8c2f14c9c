"""Ctrl-C, SIGTERM and SIGKILL during a triage: what was found and judged by then is kept."""

import os
import shutil
import signal
import sys

import pytest

from compilegate.runs import files
from tests.integration.conftest import BREAKS, ZOOS, command, run_to_its_end
from tests.integration.processes import begun, living, soon

pytestmark = pytest.mark.long

WORDS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


@pytest.fixture(scope="module")
def observed(tmp_path_factory):
    """The file of a run with one culprit."""
    runs = tmp_path_factory.mktemp("red") / "runs"
    cases = [w for name in ("breaks", "sound") for w in ("--cases", f"{name}-cpu-infer-*")]
    zoo = ("--zoo", str(ZOOS / "faulty.py"), "--save", "stored")
    session = run_to_its_end(command(BREAKS, *zoo, *cases, runs=runs, backend="eager"), None, runs)
    assert session.counts == {"failed": 1, "passed": 1}, session.output
    return runs / "stored.jsonl"


@pytest.fixture
def red(observed, runs):
    """A folder with that run, and the folder of the report."""
    runs.mkdir()
    shutil.copy(observed, runs)
    return runs, runs.parent / ".triage" / "stored" / "1-breaks-graph_breaks"


def ended(words, runs, written, send, changes=None):
    """Send a signal to what triages, once it does; return its output and exit status."""
    with begun(words, runs, changes) as process:
        assert soon(lambda: written.exists() or process.poll() is not None)
        os.killpg(process.pid, send)
        output, _ = process.communicate(timeout=240)
        assert soon(lambda: not living(runs)), living(runs)
    return output, process.returncode


@pytest.mark.parametrize(("send", "status"), [(signal.SIGINT, 1), (signal.SIGTERM, 143)])
def test_a_session_keeps_what_was_found(red, tmp_path, send, status):
    runs, written = red
    page = tmp_path / "page.md"
    changes = {"GITHUB_STEP_SUMMARY": str(page), "GITHUB_ACTIONS": "true"}
    words = command(BREAKS, "--replay", "stored", "--triage", runs=runs)
    output, ended_with = ended(words, runs, written, send, changes)
    assert ended_with == status, output
    assert "the triage ended early: interrupted" in output
    assert f"{WORDS[send]} ended it in this step: " in (written / "report.md").read_text()
    assert files.read(runs / "stored.jsonl").closing is not None
    summary, _, after = output.partition("- compilegate triage -")
    for text in (summary, after):
        assert "2 cases, 1 failed" in text
    assert output.count("::error") == 1
    assert page.read_text().count("2 cases, 1 failed") == 1


def test_a_session_that_is_killed_has_shown_its_summary(red, tmp_path):
    runs, written = red
    page = tmp_path / "page.md"
    words = command(BREAKS, "--replay", "stored", "--triage", runs=runs)
    changes = {"GITHUB_STEP_SUMMARY": str(page)}
    output, status = ended(words, runs, written, signal.SIGKILL, changes)
    assert status == -signal.SIGKILL
    assert "2 cases, 1 failed" in output
    assert page.read_text().count("2 cases, 1 failed") == 1


@pytest.mark.parametrize(("send", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_command_says_what_is_left(red, tmp_path, send, status):
    runs, written = red
    out = written.parent
    words = [sys.executable, "-m", "compilegate", "triage", "stored", "--runs", str(runs)]
    output, ended_with = ended([*words, "--out", str(out)], runs, written, send)
    assert ended_with == status, output
    assert output.endswith(f"interrupted, 1 of 1 left: what was found is in {out}\n")
    assert f"{WORDS[send]} ended it in this step: " in (written / "report.md").read_text()
