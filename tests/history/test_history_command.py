"""``compilegate history``: sentences, the page, the command that confirms, and the exit status."""

import dataclasses
import importlib.util
import json
import re
import shlex
import sys

import pytest

from tests.history.written_nights import OTHER, environment, observed, write_nights
from tests.unit.making import (
    CASE_ID,
    make_break,
    make_capture,
    make_timing,
    make_verdict,
)
from tests.unit.reading_commands import run_command
from tests.unit.runs import write_run

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("otava") is None,
    reason="needs Apache Otava: pip install apache-otava",
)


@pytest.fixture
def history(tmp_path):
    def run(*words):
        return run_command("history", *words, "-o", tmp_path / "history.html")

    return run


def test_a_planted_step_is_a_sentence_with_its_night_and_its_cause(tmp_path, history):
    status, output, errors = history(write_nights(tmp_path / "nights", 20, at=16))
    assert status == 1, errors
    assert "20 runs: 1 case became worse" in output
    assert "speed of 1 case fell on 2026-11-17 by 10.0%, with triton 3.6 → 3.7" in output
    assert f"{CASE_ID}  2× → 1.8× (−10.0%)" in output
    assert OTHER not in output


def test_healthy_nights_have_no_sentence(tmp_path, history):
    status, output, _ = history(write_nights(tmp_path / "nights", 20))
    assert status == 0
    assert "nothing became worse" in output
    assert "on 2026" not in output


def test_few_nights_cannot_say(tmp_path, history):
    status, output, _ = history(write_nights(tmp_path / "nights", 3))
    assert status == 2
    assert "3 runs: too few nights to say" in output
    assert "series cannot be judged: a figure with noise needs 8 nights" in output


def test_times_of_a_busy_machine_are_left_out_and_counted(tmp_path, history):
    folder = write_nights(tmp_path / "nights", 20)
    for night in range(10, 20):
        busy = dataclasses.replace(make_timing(1.8, spread=0.005), busy=0.9)
        write_run(
            folder / f"night-{night}.jsonl",
            observed(night, timing=busy),
            observed(night, case=OTHER),
            environment=environment(),
            created=f"2026-11-{night + 1:02}T02:17:00+00:00",
        )
    status, output, _ = history(folder)
    assert status == 0
    text = " ".join(output.split())
    assert "left out: the times of 10 of 40 observed cases, since the machine was busy" in text


def test_an_earlier_change_does_not_count_after_since(tmp_path, history):
    folder = write_nights(tmp_path / "nights", 20, at=10)
    assert history(folder, "--since", "2026-11-11")[0] == 1
    status, output, _ = history(folder, "--since", "2026-11-12")
    assert status == 0
    assert "fell" not in output
    assert "speed of 1 case fell" in (tmp_path / "history.html").read_text()


def test_what_came_back_does_not_count(tmp_path, history):
    folder = write_nights(tmp_path / "nights", 30, at=10)
    for night in range(20, 30):
        write_run(
            folder / f"night-{night}.jsonl",
            observed(night),
            environment=environment(),
            created=f"2026-11-{night + 1:02}T02:17:00+00:00",
        )
    status, output, _ = history(folder)
    assert status == 0
    text = " ".join(output.split())  # a narrow terminal breaks the line
    assert "fell on 2026-11-11 by 10.0%, with triton 3.6 → 3.7, and came back" in text
    assert "rose on 2026-11-21" in text


def test_a_damaged_run_is_named_and_a_partial_one_is_used(tmp_path, history):
    folder = write_nights(tmp_path / "nights", 20, at=16)
    (folder / "broken.jsonl").write_text('{"record": "header"')
    write_run(
        folder / "night-19.jsonl",
        observed(19, slower=True),
        planned=(CASE_ID, OTHER),
        environment=environment("3.7"),
        created="2026-11-20T02:17:00+00:00",
        complete=False,
    )
    status, output, _ = history(folder)
    text = " ".join(output.split())
    assert status == 1
    assert f"left out: {folder}/broken.jsonl" in text
    assert "night-19.jsonl lacks 1 of 2 planned cases; the others are used" in text
    assert "speed of 1 case fell on 2026-11-17" in text


def test_damaged_runs_alone_are_refused_in_few_words(tmp_path, history):
    folder = tmp_path / "nights"
    folder.mkdir()
    for night in range(20):
        (folder / f"{night}.jsonl").write_text('{"record": "header"')
    status, _, message = history(folder)
    assert status == 2
    assert message.startswith("compilegate: no run could be read: ")
    assert message.count(".jsonl") <= 6
    assert message.endswith("; 17 more\n")


def test_another_machine_begins_another_series(tmp_path, history):
    """On a slower machine everything is slower, which is no change."""
    folder = write_nights(tmp_path / "nights", 20)
    for night in range(10, 20):
        write_run(
            folder / f"night-{night}.jsonl",
            observed(night, slower=True),
            environment=environment(cores=64),
            created=f"2026-11-{night + 1:02}T02:17:00+00:00",
        )
    status, output, _ = history(folder)
    assert status == 0
    assert "(2 cores), tier smoke" in output
    assert "(64 cores), tier smoke" in output


def test_the_pytorch_in_use_of_a_paired_session_is_no_night(tmp_path, history):
    folder = write_nights(tmp_path / "nights", 10, baseline="old.jsonl")
    write_run(folder / "old.jsonl", observed(0, slower=True), environment=environment("3.5"))
    status, output, _ = history(folder)
    assert status == 0
    assert "10 runs" in output
    assert "left out: 1 run" in output


def test_counts_and_failures_are_reported_on_their_night(tmp_path, history):
    folder = write_nights(tmp_path / "nights", 10)
    write_run(
        folder / "night-09.jsonl",
        observed(9, capture=make_capture(breaks=(make_break(),))),
        make_verdict("failed"),
        environment=environment(),
        created="2026-11-10T02:17:00+00:00",
    )
    status, output, _ = history(folder)
    assert status == 1
    assert "graph breaks of 1 case rose on 2026-11-10" in output
    assert "failed verdicts of 1 case rose on 2026-11-10" in output


def test_the_command_that_confirms_is_one_line(tmp_path, history):
    _, output, _ = history(write_nights(tmp_path / "nights", 20, at=16))
    (line,) = [line for line in output.splitlines() if "--baseline-python" in line]
    words = shlex.split(line)
    assert words[words.index("-m", 2) :] == [
        *("-m", "cpu", "--tier", "smoke", "--cases", CASE_ID),
        *("--baseline-python", "/path/to/environment-of-2026-11-16/bin/python"),
    ]


@pytest.mark.parametrize("status", [0, 1, 4])
def test_confirm_runs_that_command(tmp_path, history, status):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\nexit {status}\n')
    python.chmod(0o755)
    folder = write_nights(tmp_path / "nights", 20, at=16)
    words = ("--confirm", "--last-good", sys.executable, "--python", python)
    assert history(folder, *words)[0] == min(status, 2)
    given = (tmp_path / "words").read_text()
    assert given.startswith("-m pytest ")
    assert f"--cases {CASE_ID} --baseline-python {sys.executable}" in given


@pytest.mark.parametrize("session", [0, 1])
@pytest.mark.parametrize("last_good", ["3.6", "3.7"])
def test_one_environment_next_to_itself_confirms_nothing(tmp_path, history, last_good, session):
    made = tmp_path / "made"
    made.mkdir()
    write_run(made / "now", environment=environment("3.7"))
    write_run(made / "before", environment=environment(last_good))
    python = tmp_path / "python"
    python.write_text(
        f"#!/bin/sh\nwhile [ $# -gt 1 ]; do shift; done\nmkdir {tmp_path}/runs\n"
        f'cp {made}/now "{tmp_path}/runs/$1.jsonl"\n'
        f'cp {made}/before "{tmp_path}/runs/$1.baseline.jsonl"\nexit {session}\n'
    )
    python.chmod(0o755)
    folder = write_nights(tmp_path / "nights", 20, at=16)
    words = ("--confirm", "--last-good", sys.executable, "--python", python)
    status, output, _ = history(folder, *words, "--runs", tmp_path / "runs")
    is_one = last_good == "3.7"
    assert status == (2 if is_one else session)
    assert ("have the same environment" in output) == is_one
    assert ("confirm the change" in output) == (not is_one)


def test_confirm_needs_the_last_good_environment(tmp_path, history):
    status, _, errors = history(tmp_path, "--confirm")
    assert status == 2
    assert "--confirm needs --last-good PYTHON" in errors


def test_the_page_has_each_trend_and_cleans_what_it_shows(tmp_path, history):
    folder = write_nights(tmp_path / "nights", 20, at=16, revision="</script>\x1b[2J")
    history(folder)
    page = (tmp_path / "history.html").read_text()
    assert "speed of 1 case fell on 2026-11-17" in page
    assert "\x1b" not in page
    (text,) = re.findall(r'(?s)<script type="application/json" id="data">(.*?)</script>', page)
    shown = json.loads(text)
    assert len(shown["nights"]) == 20
    (one,) = [s for s in shown["series"] if s["figure"] == "speed" and s["case"] == CASE_ID]
    assert one["changes"] == [[16, pytest.approx(-0.1, abs=1e-3), True, "triton 3.6 → 3.7"]]
    assert shown["places"][0]["changes"] == [[16, "triton 3.6 → 3.7"]]
    assert "https:" not in page


def test_wrong_input_is_one_sentence(tmp_path, history):
    assert history(tmp_path / "nowhere")[0] == 2
    empty = tmp_path / "empty"
    empty.mkdir()
    status, _, errors = history(empty)
    assert status == 2
    assert f"{empty} has no run file" in errors


def test_what_became_worse_on_one_night_is_one_issue(tmp_path, history):
    folder = write_nights(tmp_path / "nights", 20, at=16)
    file = tmp_path / "issues.json"
    history(folder, "--issues", file, "--workflow", "nightly")
    (issue,) = json.loads(file.read_text())
    assert "with triton 3.6 → 3.7" in issue["title"]
    assert CASE_ID in issue["body"]
    assert "--baseline-python /path/to/environment-of-2026-11-16" in issue["body"]
    history(write_nights(tmp_path / "healthy", 20), "--issues", file)
    assert json.loads(file.read_text()) == []


def test_nights_on_which_a_figure_became_worse_without_a_cause_are_one_issue(tmp_path, history):
    folder, file = tmp_path / "nights", tmp_path / "issues.json"
    folder.mkdir()
    for night in range(36):
        steps = sum(night >= at for at in (10, 18, 26))
        write_run(
            folder / f"night-{night:02}.jsonl",
            observed(night, timing=make_timing(2.0 * 0.9**steps, spread=0.005)),
            make_verdict(),
            environment=environment("3.7" if night >= 26 else "3.6"),
            created=f"2026-{10 + night // 31}-{night % 31 + 1:02}T02:17:00+00:00",
        )
    history(folder, "--issues", file, "--workflow", "nightly")
    with_triton, without_a_cause = json.loads(file.read_text())
    assert "2026-10-27" in with_triton["title"]
    assert "2026-10-19" in without_a_cause["title"]
    assert "2026-10-11" in without_a_cause["body"]
    assert "--baseline-python" in with_triton["body"]
    assert "--baseline-python" not in without_a_cause["body"]
