"""The command ``compilegate``: its output, its exit status, and a sentence for each mistake."""

import re
import subprocess
import sys

import pytest

from compilegate.__main__ import main
from tests.unit.making import (
    CASE_ID,
    make_break,
    make_capture,
    make_memory,
    make_observation,
    make_timing,
    make_verdict,
)
from tests.unit.runs import NEW, OLD, write_run

IDS = [f"net-cpu-infer-f32-default-{dynamic}" for dynamic in ("static", "auto", "dynamic")]
LINE = "torch 2.14.1 → 2.15.0 on AMD EPYC 9655: "


def run(folder, name, *observations, outcome="passed", environment=NEW, **how):
    verdicts = [make_verdict(outcome, case=o.case, summary="it is off") for o in observations]
    return write_run(
        folder / f"{name}.jsonl", *observations, *verdicts, environment=environment, **how
    )


@pytest.fixture
def reports(tmp_path, capsys, monkeypatch):
    """Runs a subcommand in the folder of the runs; returns exit status, output and errors."""
    monkeypatch.setenv("COLUMNS", "160")  # tables fold at the width of the terminal

    def command(*arguments):
        status = main([arguments[0], "--runs", str(tmp_path), *map(str, arguments[1:])])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return command


@pytest.fixture
def three(tmp_path):
    """A baseline of three healthy cases."""
    cases = [make_observation(case=case) for case in IDS]
    run(tmp_path, "old", *cases, environment=OLD)
    return cases


def test_compare_exits_with_0_if_nothing_is_worse(reports, tmp_path, three):
    run(tmp_path, "new", *three)
    assert reports("compare", "old", "new") == (
        0,
        f"{LINE}safe (3 cases)\n\n3 unchanged, 3 in all\n",
        "",
    )


def test_compare_exits_with_1_and_names_the_first_thing_to_look_at(reports, tmp_path, three):
    run(tmp_path, "new", *three, outcome="failed")
    status, output, _ = reports("compare", "old", "new")
    assert status == 1
    assert output == (
        f"{LINE}do not upgrade: 3 broken (3 cases)\n"
        "\n"
        "look at first:\n"
        "  net-cpu-infer-f32-default-static and 2 more\n"
        "    forward: it is off\n"
        "\n"
        "class   case                                         what\n"
        "broken  net-cpu-infer-f32-default-static and 2 more  forward: it is off\n"
        "\n"
        "3 broken, 3 in all\n"
    )


def test_compare_exits_with_2_if_a_run_is_incomplete(reports, tmp_path, three):
    run(tmp_path, "new", *three[:2], planned=IDS, complete=False)
    status, output, _ = reports("compare", "old", "new")
    assert status == 2
    assert output.startswith(f"{LINE}cannot say: 1 gone, {IDS[2]}: planned, but not observed")
    assert "the candidate" in output
    folded = " ".join(output.split())
    assert "1 of 3 cases were not observed; to continue it, run: " in folded
    assert " suites/ --resume " in folded


def test_runs_of_another_seed_cannot_be_compared(reports, tmp_path, three):
    run(tmp_path, "new", *(make_observation(case=case, seed=4) for case in IDS))
    status, output, _ = reports("compare", "old", "new")
    assert status == 2
    assert "cannot say: nothing can be compared: seed 0 → 4" in output


def test_all_shows_what_compare_leaves_out(reports, tmp_path):
    def observed(speedup, compiled, *breaks):
        return make_observation(
            timing=make_timing(speedup),
            memory=make_memory(100 * 2**20, compiled * 2**20),
            capture=make_capture(breaks=breaks),
        )

    run(tmp_path, "old", observed(2.0, 100, make_break()), environment=OLD)
    run(tmp_path, "new", observed(1.5, 60))
    status, output, _ = reports("compare", "old", "new")
    assert status == 0
    assert "2 tighter budgets would keep the improvement: --all shows them" in output
    assert "notes: 1 difference, mostly in times; --all shows them" in output
    _, everything, _ = reports("compare", "old", "new", "--all")
    assert f"  {CASE_ID}: max_memory_ratio = 0.66" in everything
    assert f"  {CASE_ID}: graph_breaks = []" in everything
    assert f"  {CASE_ID}: speedup: speedup 2.00 → 1.50 (indicative" in everything


def test_a_run_file_cannot_move_the_cursor_or_begin_a_line(reports, tmp_path, three):
    evil = "off\x1b[2J\n::error::owned\r\x9b1m"
    cases = [make_verdict("failed", case=case.case, summary=evil) for case in three]
    write_run(tmp_path / "new.jsonl", *three, *cases)
    for everything in ((), ("--all",)):
        _, output, _ = reports("compare", "old", "new", *everything)
        assert r"off\u001b[2J\u000a::error::owned\u000d\u009b1m" in output
        assert not any(line.startswith("::") for line in output.splitlines())
        assert output.replace("\n", "").isprintable()


def test_compare_leaves_out_rows_beyond_the_limit(reports, tmp_path):
    cases = [make_observation(case=f"m{i}-cpu-infer-f32-default-static") for i in range(60)]
    run(tmp_path, "old", *cases, environment=OLD)
    run(tmp_path, "new", *cases, outcome="failed")
    _, output, _ = reports("compare", "old", "new")
    assert "… and 20 more rows: --all shows them" in output
    assert "m59-" not in output
    _, everything, _ = reports("compare", "old", "new", "--all")
    assert "m59-" in everything


def test_markdown_of_a_comparison_and_of_a_run(reports, tmp_path, three):
    run(tmp_path, "new", *three, outcome="failed")
    status, output, _ = reports("compare", "old", "new", "--format", "markdown")
    assert (status, output.splitlines()[0]) == (1, f"## {LINE}do not upgrade: 3 broken (3 cases)")
    status, output, _ = reports("markdown", "new")
    assert (status, output.splitlines()[0]) == (
        1,
        "## torch 2.15.0 on AMD EPYC 9655: 3 cases, 3 failed",
    )
    assert reports("markdown", "old")[0] == 0
    run(tmp_path, "half", *three[:2], planned=IDS, complete=False)
    status, output, _ = reports("markdown", "half")
    assert status == 2
    assert "1 not observed" in output


def test_output_names_the_file(reports, tmp_path, three):
    target = tmp_path / "summary.md"
    status, output, _ = reports("markdown", "old", "--output", target)
    assert (status, output) == (0, "")
    assert target.read_text().startswith("## torch 2.14.1")
    status, _, errors = reports("markdown", "old", "--output", tmp_path / "no" / "where.md")
    assert status == 2
    assert "where.md: No such file or directory" in errors


def test_pages_are_written_to_files(reports, tmp_path, three, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(tmp_path, "new", *three, outcome="failed")
    for arguments, name, status in (
        (("html", "new"), "new.html", 1),
        (("html", "old"), "old.html", 0),
        (("html", "new", "old"), "new.html", 1),
        (("html", "old", "-o", "page.html"), "page.html", 0),
        (("compare", "old", "new", "--format", "html", "-o", "two.html"), "two.html", 1),
    ):
        *written, errors = reports(*arguments)
        assert written == [status, f"{name}\n"]
        assert errors.count("compilegate: exit status 1: ") == status
        assert bool(errors) == bool(status)
        page = (tmp_path / name).read_text()
        assert page.startswith("<!doctype html>")
        two_runs = "old" in arguments[2:3] or "new" in arguments[2:3]
        assert ("do not upgrade: 3 broken" in page) == two_runs
        (tmp_path / name).unlink()


def test_merge_reports_the_number_of_cases(reports, tmp_path, three):
    run(tmp_path, "more", make_observation())
    target = tmp_path / "all.jsonl"
    assert reports("merge", "old", "more", "-o", target)[0] == 2  # not of one torch
    run(tmp_path, "other", *three)
    assert reports("merge", "other", "more", "-o", target) == (
        0,
        f"{target}: 4 cases of 2 runs\n",
        "",
    )


def test_merge_of_incomplete_shards_names_the_missing_cases(reports, tmp_path, three):
    run(tmp_path, "half", *three[:1], planned=IDS, complete=False)
    status, _, errors = reports("merge", "half", "-o", tmp_path / "all.jsonl")
    assert status == 2
    assert errors == f"compilegate: incomplete: {IDS[1]} and 1 more missing\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compare", "old", "nwe"), "no run 'nwe' in"),
        (("compare", "olf", "old"), "did you mean 'old'?"),
        (("markdown", "nothing"), "no run 'nothing'"),
        (("merge", "old"), "merge needs --output FILE"),
        (("compare", "old", "broken"), "broken.jsonl:2: not a record of a run"),
        (("compare", "old", "empty"), "empty.jsonl: has no header"),
    ],
)
def test_a_mistake_gives_one_sentence_and_exit_status_2(
    reports, tmp_path, three, arguments, message
):
    text = (tmp_path / "old.jsonl").read_text()
    (tmp_path / "broken.jsonl").write_text(text.replace('"record":"observation"', "x", 1))
    (tmp_path / "empty.jsonl").touch()
    status, output, errors = reports(*arguments)
    assert (status, output) == (2, "")
    assert errors.startswith("compilegate: ")
    assert message in errors
    assert errors.count("\n") == 1


def test_a_bug_exits_with_2_and_shows_its_traceback(reports, three, monkeypatch):
    monkeypatch.setattr("compilegate.reports.markdown.of_run", lambda run, known: 1 / 0)
    status, output, errors = reports("markdown", "old")
    assert (status, output) == (2, "")
    assert "ZeroDivisionError" in errors
    assert errors.endswith("compilegate: this is a bug: report it with the lines above\n")


def test_a_run_without_a_case_cannot_be_triaged(reports, tmp_path, three):
    header, _, _ = (tmp_path / "old.jsonl").read_text().partition("\n")
    (tmp_path / "begun.jsonl").write_text(f"{header}\n")
    status, output, errors = reports("triage", "begun")
    assert (status, output) == (2, "")
    assert "begun.jsonl holds none of its 3 planned cases" in errors


def test_a_run_whose_zoo_file_is_gone_cannot_be_triaged(reports, tmp_path, three):
    run(tmp_path, "red", *three, outcome="failed", files=("--zoo", "/gone/models.py"))
    status, _, errors = reports("triage", "red")
    assert status == 2
    assert "the run needs the zoo file /gone/models.py, which is not there" in errors


@pytest.mark.parametrize("arguments", [[], ["compare", "a"], ["frobnicate"]])
def test_a_wrong_command_line_exits_with_2(arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2


def test_help_lists_every_subcommand_with_a_line(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    for name in ("compare", "html", "markdown", "merge", "observe", "thresholds"):
        assert re.search(rf"^    {name}\s+\w+ \w+", shown, re.MULTILINE), name


@pytest.mark.parametrize("name", ["html", "markdown", "compare"])
def test_help_says_what_the_exit_status_of_a_run_with_failures_is(name, capsys):
    with pytest.raises(SystemExit):
        main([name, "--help"])
    assert re.search(r"Exit status: 0 .*\b1 .*\b2 ", capsys.readouterr().out, re.DOTALL)


def test_comparing_needs_neither_torch_nor_pytest(tmp_path, three):
    run(tmp_path, "new", *three)
    words = ["compare", "--runs", str(tmp_path), "old", "new"]
    program = (
        "import sys; sys.modules['torch'] = sys.modules['pytest'] = None\n"
        f"from compilegate.__main__ import main; sys.exit(main({words!r}))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_closed_pipe_is_no_error(tmp_path, three):
    run(tmp_path, "new", *three)
    words = [sys.executable, "-m", "compilegate", "markdown", str(tmp_path / "new.jsonl")]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate()
    assert errors == b""


@pytest.mark.parametrize("words", [["compare", "old", "new"], ["markdown", "new"]])
def test_an_output_without_room_cannot_say(tmp_path, three, words):
    """A traceback would exit with 1, which means that something is worse."""
    run(tmp_path, "new", *three)
    command = [sys.executable, "-m", "compilegate", *words, "--runs", str(tmp_path)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "compilegate: cannot write the output: No space left on device\n"
