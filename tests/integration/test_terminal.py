"""What a person sees: a line as each case ends, pytest's own with ``-v``, colours if wanted."""

import os
import pty
import re
import subprocess
import time

import pytest

from tests.integration.conftest import (
    BREAKS,
    CHECKOUT,
    EXACT,
    FORWARD,
    ZOOS,
    command,
    faulty_case,
    surroundings,
)

REPLAY = (*EXACT, "--replay", "stored")

#: A model that takes seven seconds to build for the first time.
SLOW = """
import time
from compilegate import Example, model

@model("slow", family="slow")
def slow():
    import torch
    if not slept:
        slept.append(time.sleep(7))
    return Example(torch.nn.Linear(8, 8), inputs=(torch.randn(4, 8),))

slept = []
"""


def test_a_case_is_one_line_with_progress_letters_and_figures(faulty):
    lines = re.findall(r"^\[ *\d+/\d+.*$", faulty.output, re.MULTILINE)
    planned = faulty.run().header.planned
    assert len(lines) == len(planned)
    assert re.match(rf"\[ 1/{len(planned)}, .+ left\] +\.\.\.\.\. +sound-cpu-infer-", lines[0])
    assert lines[-1].startswith(f"[{len(planned)}/{len(planned)}] ")
    (breaks,) = [line for line in lines if faulty_case("breaks") in line]
    assert " ..B.. " in breaks
    assert re.search(r"forward \S+  breaks 1  recompiles 0  compile \d+\.\d s cold", breaks)
    (blind,) = [line for line in lines if faulty_case("only_zeros") in line]
    assert " ?.... " in blind


def test_the_summary_names_torch_the_number_of_cases_and_the_run_file(faulty):
    title = faulty.output.partition("= compilegate: ")[2].splitlines()[0]
    versions = faulty.run().header.environment.versions
    assert title.startswith(f"torch {versions['torch']} on ")
    assert f"{len(faulty.run().header.planned)} cases" in title
    assert ", 1 inconclusive" in title
    assert f"run file: {faulty.run().path}" in faulty.output
    assert "to find the causes: python -m compilegate triage " in faulty.output


def test_v_shows_pytests_own_lines_and_q_its_dots(compilegate, stored):
    stored("breaks")
    verbose = compilegate(*REPLAY, "-v").output
    line = f"{BREAKS}::test_no_unbudgeted_graph_break[{faulty_case('breaks')}] FAILED"
    assert line in verbose
    assert "[1/1]" not in verbose
    quiet = compilegate(*REPLAY, "-q").output.splitlines()
    assert quiet[0].startswith("..F..")
    assert not any("[1/1]" in line for line in quiet)


def test_a_failed_case_has_the_letter_of_its_aspect_also_without_colours(compilegate, stored):
    stored("breaks")
    plain = compilegate(*REPLAY)
    assert "\x1b" not in plain.output
    assert "[1/1] ..B.." in plain.output
    assert "\x1b[31m[1/1] ..B.." in compilegate(*REPLAY, "--color=yes").output


def test_each_failure_is_shown_once(compilegate, stored):
    stored("breaks")
    output = compilegate(*REPLAY).output
    assert "short test summary" not in output
    assert output.count("reproduce: ") == 1
    block = output.partition("-- compilegate --")[2]
    assert f"graph_breaks:\n  {faulty_case('breaks')}: " in block
    assert "letters: B graph_breaks" in block
    assert "short test summary" in compilegate(*REPLAY, "-rf").output  # as it was asked for


def test_a_case_that_fails_in_several_aspects_has_one_command(compilegate, stored, write):
    stored("breaks", "sound")
    mine = write("mine.toml", "[[budget]]\nmax_memory_ratio = 0.001\nmemory_slack_bytes = 0\n")
    session = compilegate(*REPLAY, "--budgets", mine)
    assert session.counts["failed"] == 3, session.output
    for model in ("breaks", "sound"):
        command = f"-m compilegate observe {faulty_case(model)} "
        assert session.output.count(command) == 1


def test_without_tracebacks_the_summary_has_the_command(compilegate, stored):
    stored("breaks")
    output = compilegate(*REPLAY, "--tb=no").output
    assert output.count("reproduce: ") == 1


def test_lines_fit_a_terminal_of_80_columns(compilegate, stored):
    stored("breaks", "sound")
    output = compilegate(*REPLAY, env={"COLUMNS": "80"}).output
    head, figures, *_ = re.findall(r"^\[1/2\].*\n.*$", output, re.MULTILINE)[0].splitlines()
    assert figures.startswith("  forward ")
    block = output.partition("-- compilegate --")[2].splitlines()
    assert len(block) > 4
    lines = [line for line in (head, figures, *block) if " -m compilegate " not in line]
    assert max(map(len, lines)) <= 80


def test_the_title_is_the_last_block_and_the_first_line_names_what_starts(compilegate, stored):
    stored("breaks")
    lines = compilegate(*REPLAY).output.strip().splitlines()
    assert lines[0] == "compilegate: reading the run stored"
    titles = [line for line in lines if line.startswith("==")]
    assert "compilegate: " in titles[-2]
    assert re.search(r" in [\d.]+s", titles[-1])


def test_the_title_of_a_session_without_a_verdict_is_not_good_news(compilegate):
    case = faulty_case("lacks_its_library")
    session = compilegate(*EXACT, "--zoo", str(ZOOS / "faulty.py"), "--cases", case, "-m", "cpu")
    assert session.status == 5
    title = session.output.partition("= compilegate: ")[2].splitlines()[0]
    assert "nothing was judged: needs no_such_package (1 case)" in title


@pytest.mark.parametrize(("env", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_a_terminal_has_colours_unless_they_are_declined(stored, runs, env, coloured):
    stored("breaks")
    status, shown = shown_on_a_terminal(*REPLAY, runs=runs, env={"TERM": "xterm", **env})
    assert status == 1
    assert "[1/1] ..B.." in shown
    assert ("\x1b" in shown) == coloured


@pytest.mark.parametrize(
    ("workers", "line"),
    [
        pytest.param((), r"\[1/1\] slow-cpu-\S+: build, [5-9] s", id="alone"),
        pytest.param(
            ("-n", "2"), r"\[1 at work\] slow-cpu-\S+ 5 s", id="n", marks=pytest.mark.long
        ),
    ],
)
def test_a_terminal_shows_what_is_observed_and_for_how_long(tmp_path, runs, workers, line):
    zoo = tmp_path / "slow.py"
    zoo.write_text(SLOW)
    arguments = (FORWARD, "-m", "cpu", "--zoo", str(zoo), "--models", "slow", *workers)
    cases = ("--cases", "slow-cpu-infer-f32-default-static", "--backend", "aot_eager")
    pauses = []
    status, shown = shown_on_a_terminal(
        *arguments, *cases, runs=runs, env={"TERM": "xterm"}, pauses=pauses
    )
    assert status == 0, shown
    assert re.search(line, shown), shown
    assert max(pauses) < 10, shown
    assert shown.startswith("compilegate: starting torch")


def shown_on_a_terminal(*arguments, runs, env, pauses=None):
    """Run a session that is attached to a terminal; return its status and what it shows.

    Args:
        pauses: Gets the seconds of silence before each output.
    """
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command(*arguments, runs=runs),
        cwd=CHECKOUT,
        env=surroundings(runs, env),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown, last = b"", time.monotonic()
    while chunk := _read(ours):
        shown += chunk
        if pauses is not None:
            pauses.append(time.monotonic() - last)
        last = time.monotonic()
    os.close(ours)
    return process.wait(), shown.decode()


def _read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side is closed
        return b""
