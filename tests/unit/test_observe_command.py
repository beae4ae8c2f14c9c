"""``compilegate observe``: what it prints for a record, and its exit status."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from compilegate.__main__ import main
from compilegate.commands import observe as observe_command
from compilegate.processes import foreground
from compilegate.processes.foreground import Foreground
from tests.unit.making import (
    CASE_ID,
    make_break,
    make_capture,
    make_environment,
    make_failed_observation,
    make_observation,
)

WANTED = ("capture", "vary")


@pytest.fixture
def observe(monkeypatch, capsys, tmp_path):
    """Runs the subcommand as if a process had made this record."""
    monkeypatch.setattr("compilegate.zoo.registry.load", lambda: {"tiny": None})
    asked = []

    def run(made, *arguments):
        def fake(words, python):
            asked.append(words)
            run.python = python
            return made if isinstance(made, Foreground) else Foreground(made, ENV, False, "ended")

        monkeypatch.setattr(foreground, "observe", fake)
        status = main(["observe", CASE_ID, *arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    run.asked, run.python = asked, ""
    return run


ENV = make_environment()


def test_a_good_case_prints_one_line_for_each_verdict(observe):
    status, output, errors = observe(make_observation(wants=WANTED))
    assert (status, errors) == (0, "")
    case, place, *verdicts, counts = output.splitlines()
    assert case == CASE_ID
    assert place.startswith("torch 2.15.0+cpu, Python 3.12.1, AMD EPYC 9655, backend inductor")
    assert any(line.startswith("passed            forward ") for line in verdicts)
    assert counts.startswith(f"{sum(line.startswith('passed') for line in verdicts)} passed")


def test_a_failed_verdict_shows_its_bound_and_details(observe):
    made = make_observation(wants=WANTED, capture=make_capture(breaks=(make_break(),)))
    status, output, _ = observe(made)
    assert status == 1
    lines = output.splitlines()
    (index,) = (i for i, line in enumerate(lines) if line.startswith("failed"))
    assert "graph_breaks" in lines[index]
    assert lines[index + 1].startswith("  ")
    assert "1 failed" in lines[-1]


def test_the_traceback_of_a_case_that_did_not_run_is_shown_once(observe):
    made = make_failed_observation("raised", stage="build", message="no such weights")
    status, output, _ = observe(made)
    assert status == 1
    assert output.count("failed  ") > 2
    details = [line for line in output.splitlines() if line.startswith("  ")]
    assert len(details) == len(set(details))


def test_a_case_that_lacks_its_library_is_no_success(observe):
    made = make_failed_observation("unavailable", stage="build", message="x cannot be imported: no")
    status, output, _ = observe(made)
    assert status == 2
    assert output.count("x cannot be imported: no") > 2


def test_budgets_decide_about_the_case(observe, tmp_path):
    made = make_observation(wants=WANTED, capture=make_capture(breaks=(make_break(),)))
    budgets = tmp_path / "mine.toml"
    budgets.write_text("[[budget]]\nmax_graph_breaks = 1\n")
    assert observe(made, "--budgets", str(budgets))[0] == 0


def test_json_prints_records(observe):
    status, output, _ = observe(make_observation(wants=WANTED), "--json")
    assert status == 0
    kinds = [json.loads(line)["record"] for line in output.splitlines()]
    assert kinds[0] == "observation"
    assert set(kinds[1:]) == {"verdict"}


def test_the_observing_process_gets_the_options(observe):
    words = ("--seed", "3", "--backend", "eager", "--tf32", "--cold", "--pdb", "--want", "vary")
    observe(make_observation(wants=WANTED), *words)
    (asked,) = observe.asked
    assert asked == [
        *(CASE_ID, "--seed", "3", "--backend", "eager", "--root", str(Path.cwd())),
        *("--pdb", "--tf32", "--cold", "--want", "vary"),
    ]


def test_a_practice_is_observed_with_all_that_its_suite_needs(observe):
    observe(make_observation(wants=WANTED), "--want", "caches")
    (asked,) = observe.asked
    assert asked[-6:] == ["--want", "caches", "--want", "capture", "--want", "time"]


def test_another_interpreter_can_be_observed(observe, monkeypatch):
    observe(make_observation())
    assert observe.python == sys.executable
    monkeypatch.setattr(observe_command, "check_interpreter", lambda *_: None)
    observe(make_observation(), "--python", "/envs/new/bin/python")
    assert observe.python == "/envs/new/bin/python"


def test_an_interpreter_that_does_not_exist_is_named(observe):
    status, _, errors = observe(make_observation(), "--python", "/nowhere/python")
    assert status == 2
    assert "--python /nowhere/python cannot be run: No such file" in errors
    assert not observe.asked


def test_a_process_that_dies_is_a_failure(observe):
    status, output, errors = observe(Foreground(None, None, False, "died of SIGSEGV"))
    assert (status, output) == (1, "")
    assert errors == "compilegate: the observing process died of SIGSEGV\n"


def test_nothing_is_added_where_the_process_explained_its_refusal(observe):
    assert observe(Foreground(None, None, True, "exited")) == (2, "", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("matvec",), "malformed case id 'matvec'"),
        ((CASE_ID.replace("tiny", "tinny"),), "unknown model 'tinny'; did you mean 'tiny'?"),
        ((CASE_ID.replace("tiny", "acme"),), "a model of your own needs --zoo FILE"),
        ((CASE_ID, "--zoo", "nowhere.py"), "no zoo file nowhere.py: check the path"),
        ((CASE_ID, "--budgets", "no.toml"), "cannot read the budgets file no.toml"),
    ],
)
def test_a_wrong_argument_is_refused_in_one_sentence(monkeypatch, capsys, arguments, message):
    monkeypatch.setattr("compilegate.zoo.registry.load", lambda: {"tiny": None})
    assert main(["observe", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_what_the_observing_process_writes_is_shown_at_once_and_cleaned(
    monkeypatch, capsys, tmp_path
):
    """A process that it left behind keeps the pipe open, and is not waited for."""
    monkeypatch.setattr(foreground, "_LAST_WORDS_S", 0.2)
    python = tmp_path / "python"
    python.write_text(
        "#!/usr/bin/env bash\n"
        'sleep 20 > /dev/null & echo $! > "${0%/*}/left"\n'
        "printf '\\n::error::a\\e[2J (Pdb) ' >&2\n"
        "exit 3\n"
    )
    python.chmod(0o755)
    made = foreground.observe([CASE_ID], str(python))
    os.kill(int((tmp_path / "left").read_text()), signal.SIGKILL)
    assert made.end == "exited with status 3 without an answer"
    assert capsys.readouterr().err == "\n\\u003a:error::a\\u001b[2J (Pdb) "
