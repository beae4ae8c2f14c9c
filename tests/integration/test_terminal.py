"""What a person sees: a line as each case ends, pytest's own with ``-v``, colours if wanted."""

import os
import pty
import re
import subprocess

import pytest

from tests.integration.conftest import (
    BREAKS,
    CHECKOUT,
    EXACT,
    command,
    faulty_case,
    surroundings,
)

REPLAY = (*EXACT, "--replay", "stored")


def test_a_case_is_one_line_with_progress_letters_and_figures(faulty):
    lines = re.findall(r"^\[ *\d+/\d+.*$", faulty.output, re.MULTILINE)
    planned = faulty.run().header.planned
    assert len(lines) == len(planned)
    assert re.match(rf"\[ 1/{len(planned)}, .+ left\] +\.\.\.\.\. +sound-cpu-infer-", lines[0])
    assert lines[-1].startswith(f"[{len(planned)}/{len(planned)}] ")
    (breaks,) = [line for line in lines if faulty_case("breaks") in line]
    assert " ..F.. " in breaks
    assert re.search(r"forward \S+  breaks 1  recompiles 0  compile \d+\.\d s cold", breaks)
    (blind,) = [line for line in lines if faulty_case("only_zeros") in line]
    assert " ?.... " in blind


def test_the_summary_says_where_how_many_and_where_to_look(faulty):
    title = faulty.output.partition("= compilegate: ")[2].splitlines()[0]
    versions = faulty.run().header.environment.versions
    assert title.startswith(f"torch {versions['torch']} on ")
    assert f"{len(faulty.run().header.planned)} cases" in title
    assert "1 inconclusive verdict" in title
    assert f"run file: {faulty.run().path}" in faulty.output


def test_v_shows_pytests_own_lines_and_q_its_dots(compilegate, stored):
    stored("breaks")
    verbose = compilegate(*REPLAY, "-v").output
    line = f"{BREAKS}::test_no_unbudgeted_graph_break[{faulty_case('breaks')}] FAILED"
    assert line in verbose
    assert "[1/1]" not in verbose
    quiet = compilegate(*REPLAY, "-q").output.splitlines()
    assert quiet[0].startswith("..F..")
    assert not any("[1/1]" in line for line in quiet)


def test_a_failed_case_is_told_by_letter_where_there_are_no_colours(compilegate, stored):
    stored("breaks")
    plain = compilegate(*REPLAY)
    assert "\x1b" not in plain.output
    assert "[1/1] ..F.." in plain.output
    assert "\x1b[31m[1/1] ..F.." in compilegate(*REPLAY, "--color=yes").output


@pytest.mark.parametrize(("env", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_a_terminal_has_colours_unless_they_are_declined(stored, runs, env, coloured):
    stored("breaks")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command(*REPLAY, runs=runs),
        cwd=CHECKOUT,
        env=surroundings(runs, {"TERM": "xterm", **env}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    while chunk := _read(ours):
        shown += chunk
    os.close(ours)
    assert process.wait() == 1
    assert b"[1/1] ..F.." in shown
    assert (b"\x1b" in shown) == coloured


def _read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side is closed
        return b""
