"""``--candidate`` several times: a session for each, then one table."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from compilegate.reports import candidate_sessions
from compilegate.reports.candidate_sessions import labels, without
from compilegate.runs.archive import Archive
from compilegate.upgrade.comparison import compare, dump
from tests.unit.making import CASE_ID, make_environment, make_observation, make_verdict
from tests.unit.runs import write_run

pytest_plugins = ["pytester"]

A, B = "/envs/torch-2.14/bin/python", "/envs/torch-2.15/bin/python"


def test_a_candidate_is_called_after_its_environment():
    assert labels([A, B]) == ["torch-2.14", "torch-2.15"]
    assert labels(["/envs/my torch/bin/python", B]) == ["my-torch", "torch-2.15"]


def test_candidates_of_one_name_are_numbered():
    assert labels(["/a/venv/bin/python", "/b/venv/bin/python"]) == ["1", "2"]


def test_words_of_other_options_stay():
    words = ["suites/", "--save", "x", "--candidate=a", "--candidate", "b", "-k", "--candidates"]
    assert [*without(words, ("--candidate", "--save"))] == ["suites/", "-k", "--candidates"]


@pytest.fixture
def comparison(tmp_path):
    """A comparison with a candidate, as its session hands it over."""

    def make(torch, outcome):
        paths = []
        for name, version, seen in (("old", "2.13.1", "passed"), ("new", torch, outcome)):
            environment = make_environment(versions={"torch": version})
            verdict = make_verdict(seen, aspect="forward")
            path = tmp_path / f"{name}.jsonl"
            paths.append(write_run(path, make_observation(), verdict, environment=environment))
        with Archive(paths[0]) as old, Archive(paths[1]) as new:
            return dump(compare(old, new))

    return make


@pytest.fixture
def main(pytester, monkeypatch, capsys):
    """Runs the hook, with sessions that hand over these comparisons, or end with a status."""

    def run(*words, handed=()):
        asked, waiting = [], list(handed)

        def session(command, _):
            asked.append(command)
            result = waiting.pop(0)
            if isinstance(result, bytes):
                Path(command[command.index("--comparison-file") + 1]).write_bytes(result)
            return result if isinstance(result, int) else 0

        plugins = ("-p", "compilegate.entry", "-p", "compilegate.plugin")
        config = pytester.parseconfig(*plugins, *words)
        monkeypatch.setattr(candidate_sessions, "judges_suites", lambda config: True)
        monkeypatch.setattr(candidate_sessions, "wait_for", session)
        monkeypatch.setattr(candidate_sessions, "check_interpreter", lambda *_: None)
        status = candidate_sessions.pytest_cmdline_main(config)
        return status, asked, capsys.readouterr().out

    return run


BOTH = ("--candidate", A, "--candidate", B)
BASELINE = ("--baseline-python", "/old/bin/python")


def test_one_candidate_is_left_to_pytest(main):
    assert main("--candidate", A)[:2] == (None, [])


def test_each_candidate_gets_a_session_and_the_newest_safe_one_is_named(main, comparison):
    handed = [comparison("2.14.1", "passed"), comparison("2.15.0", "failed")]
    status, asked, output = main(*BOTH, *BASELINE, "--save", "up", "-m", "cpu", handed=handed)
    assert status == 0
    assert [command[:3] for command in asked] == [[sys.executable, "-m", "pytest"]] * 2
    for command, name, path in zip(asked, ("torch-2.14", "torch-2.15"), (A, B), strict=True):
        assert command.count("--candidate") == command.count("--save") == 1
        assert command[command.index("--candidate") + 1] == path
        assert command[command.index("--save") + 1] == f"up-{name}"
        assert {*BASELINE, "-m", "cpu"} <= {*command}
    assert "candidate 2 of 2: " in output
    assert "newest safe: torch 2.14.1, run up-torch-2.14" in output
    assert f"{CASE_ID}  unchanged      broken" in output


def test_without_a_safe_candidate_the_status_is_1(main, comparison):
    handed = [comparison(version, "failed") for version in ("2.14.1", "2.15.0")]
    status, _, output = main(*BOTH, *BASELINE, handed=handed)
    assert status == 1
    assert "none of them is safe" in output


def test_a_session_that_reaches_no_decision_ends_all_with_its_status(main):
    status, asked, _ = main(*BOTH, *BASELINE, handed=[4])
    assert status == 4
    assert len(asked) == 1


def test_ctrl_c_ends_all_sessions(main, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(candidate_sessions, "_session", interrupt)
    assert main(*BOTH, *BASELINE)[0] == pytest.ExitCode.INTERRUPTED


#: A session whose summary takes longer than ``subprocess.run`` waits.
WAITS = """
import signal, time
from pathlib import Path
from compilegate.processes import interrupts

with interrupts.taken_together():
    try:
        Path("begun").touch()
        signal.pause()
    except KeyboardInterrupt:
        time.sleep(0.6)
        Path("summary").touch()
"""
STARTS = """
import sys, threading, signal, time
from pathlib import Path
from compilegate.processes import interrupts
from compilegate.reports.candidate_sessions import wait_for

def send():
    while not Path("begun").exists():
        time.sleep(0.02)
    signal.pthread_kill(threading.main_thread().ident, signal.{})

with interrupts.taken_together() as came:
    threading.Thread(target=send).start()
    try:
        wait_for([sys.executable, "-c", {!r}], Path())
    except KeyboardInterrupt:
        print(came.is_terminated, Path("summary").exists())
"""


@pytest.mark.parametrize(("name", "is_terminated"), [("SIGINT", False), ("SIGTERM", True)])
def test_a_session_that_is_interrupted_ends_with_its_summary(name, is_terminated, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", STARTS.format(name, WAITS)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert done.stdout == f"{is_terminated} True\n", done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (BOTH, "name it with --baseline-python or --baseline-run"),
        ((*BOTH, *BASELINE, "--resume", "up"), "--resume continues the run of one candidate"),
    ],
)
def test_options_of_one_session_are_refused(main, words, message):
    with pytest.raises(pytest.UsageError, match=message):
        main(*words)


def test_candidates_of_the_ini_file_are_refused(main, pytester):
    pytester.makeini(f"[pytest]\naddopts = --candidate {A} --candidate {B}\n")
    with pytest.raises(pytest.UsageError, match="in the ini setting addopts"):
        main(*BASELINE)
