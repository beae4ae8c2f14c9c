"""Text that leaves the process: what acts is shown as an escape, and all else is left alone."""

import ast
import io
import json
import re
import sys
import tomllib
import unicodedata
from pathlib import Path

import pytest

from compilegate.output.streams import CleanStream, clean_streams
from compilegate.output.visible import visible, visible_lines
from compilegate.output.workflow_command import error

ROOT = Path(__file__).parents[2]
FOLDERS = ("compilegate", "reports", "suites", "fixtures")

#: The modules that may write to stdout or stderr, and what cleans what they write.
WRITERS = {
    "compilegate/__main__.py": "clean_streams",
    "compilegate/calibration/tolerance_use.py": "clean_streams",
    "compilegate/commands/first_bad.py": "clean_streams of compilegate/__main__.py",
    "compilegate/commands/doctor.py": "clean_streams of compilegate/__main__.py",
    "compilegate/commands/fuzz.py": "clean_streams of compilegate/__main__.py",
    "compilegate/commands/history.py": "clean_streams of compilegate/__main__.py",
    "compilegate/commands/observe.py": "clean_streams of compilegate/__main__.py",
    "compilegate/commands/thresholds.py": "clean_streams of compilegate/__main__.py",
    "compilegate/commands/triage.py": "clean_streams of compilegate/__main__.py",
    "compilegate/observe/__main__.py": "clean_streams",
    "compilegate/observe/conditioning/signal.py": "clean_streams",
    "compilegate/observe/dissect/bisection.py": "clean_streams",
    "compilegate/observe/practices/distributed_rank.py": "the child, which reads it from a file",
    "compilegate/observe/practices/fresh_process.py": "the child, which reads it from a file",
    "compilegate/observe/server.py": "the parent, which reads it from a file",
    "compilegate/output/streams.py": "it is what cleans",
    "compilegate/processes/foreground.py": "CleanStream",
    "compilegate/session/unreadable_run.py": "CleanStream",
    "compilegate/upgrade/attribution/list_distributions.py": "the parent, which reads it",
    "fixtures/hazards_side_effects.py": "the parent, as it does the output of every model",
    "fixtures/hazards_tensors.py": "the parent, as it does the output of every model",
    "reports/candidate_sessions.py": "clean_writer",
    "reports/terminal.py": "clean of compilegate/session/clean_terminal.py",
}
#: The modules that write through pytest's terminal, which is cleaned.
TERMINAL = {
    "compilegate/session/triaging.py",
    "compilegate/session/clean_terminal.py",
    "reports/status_line.py",
    "reports/terminal.py",
    "reports/terminal_summary.py",
}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x1b]52;c;cm0gLXJm\x07", r"\u001b[2J\u001b]52;c;cm0gLXJm\u0007"),
        ("\x1b]8;;http://a.example\x1b\\b", r"\u001b]8;;http://a.example\u001b\b"),
        ("\x9b2J\x90q\x85", r"\u009b2J\u0090q\u0085"),
        ("good\rbad\x08\x08\x00\x7f", r"good\u000dbad\u0008\u0008\u0000\u007f"),
        ("a\u202ebc\u2066d\u200fe\u061c", r"a\u202ebc\u2066d\u200fe\u061c"),
        ("a\u200bb\u2028c\ufeff\xad", r"a\u200bb\u2028c\ufeff\u00ad"),
        ("\U000e0041\ud83d", r"\U000e0041\ud83d"),
        ("two\nlines", r"two\u000alines"),
        ("::error::x", r"\u003a:error::x"),
        (" \t\u3000\xa0::stop-commands::x", " \t\u3000\xa0" + r"\u003a:stop-commands::x"),
        ("x ##[group]a ##vso[b] ##[c]", r"x \u0023#[group]a \u0023#vso[b] \u0023#[c]"),
        ("###[a]", r"#\u0023#[a]"),
    ],
)
def test_what_acts_is_shown(text, shown):
    assert visible(text) == shown
    assert visible(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "plain text, with\ta tab",
        "é ü ß – “quoted” 1.5× → 2",
        "日本語　テスト",
        "👍🏽 👩‍💻 🏳️‍🌈 ☂️",
        "می‌خواهم العربية",
        "at::Tensor, std::vector<int>::size, a [::1] b",
        "## heading, #1, ##, [a]",
        "\U0001fae8 \U0001fadf",  # newer than Python 3.11
    ],
)
def test_plain_text_of_any_language_is_left_alone(text):
    assert visible(text) == text


def test_every_control_character_and_every_override_of_the_direction_is_shown():
    kept = {"\t", "\u200c", "\u200d"}
    #: Signs of scripts, which have a shape and belong to the number or word after them.
    signs = {c for c in map(chr, range(sys.maxunicode + 1)) if _is_sign(c)}
    for character in set(map(chr, range(sys.maxunicode + 1))) - kept - signs:
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            assert visible(f"a{character}").isascii(), hex(ord(character))


def _is_sign(character):
    name = unicodedata.name(character, "")
    is_mark = re.search(r"NUMBER|ARABIC|SYRIAC ABB|KAITHI|EGYPTIAN|INTERLINEAR END", name)
    return unicodedata.category(character) == "Cf" and bool(is_mark) and "LETTER MARK" not in name


def test_json_and_toml_are_read_back_as_what_was_cleaned():
    text = "a\x7f\u202e ##[group] é"
    assert json.loads(visible(json.dumps({"a": text}, ensure_ascii=False))) == {"a": text}
    assert tomllib.loads(visible(f'a = "{text[2:]}"')) == {"a": text[2:]}


def test_each_line_of_a_text_is_cleaned():
    assert visible_lines("a\r\n ::b\n##[c]") == "a\n \\u003a:b\n\\u0023#[c]"


def written(*parts, colours=False, isatty=False):
    stream = io.StringIO()
    stream.isatty = lambda: isatty
    clean = CleanStream(stream, colours=colours)
    assert [clean.write(part) for part in parts] == [len(part) for part in parts]
    return stream.getvalue()


@pytest.mark.parametrize(
    ("parts", "shown"),
    [
        (("a\n::b\n", "::c"), "a\n\\u003a:b\n\\u003a:c"),
        (("a", "::b\n"), "a::b\n"),
        ((":", ":error::x\n", ":\n", ":ok\n"), ":\\u003aerror::x\n:\n:ok\n"),
        (("  ", ":", ":x"), "  :\\u003ax"),
        (("a ##", "[group]"), "a ##\\u005bgroup]"),
        (("#", "#vs", "o[x]"), "##vs\\u006f[x]"),
        (("x" * 200, "::a\n"), "x" * 200 + "::a\n"),
        ((" " * 200, "::a\n"), " " * 200 + "\\u003a:a\n"),
    ],
)
def test_a_line_that_is_written_in_parts_is_one_line(parts, shown):
    assert written(*parts) == shown


def test_colours_stay_where_the_terminal_shows_them_and_nothing_else_does():
    assert written("\x1b[31m\x1b[1mred\x1b[0m\n", colours=True) == "\x1b[31m\x1b[1mred\x1b[0m\n"
    assert written("\x1b[31mred") == r"\u001b[31mred"
    for hides in (
        "\x1b[8m",
        "\x1b[40m",
        "\x1b[30m",
        "\x1b[1;8m",
        "\x1b[2J",
        "\x1b[1A",
        "\x1b[m\x1b7",
    ):
        assert r"\u001b" in written(hides, colours=True)
    assert written("\x1b[31m ::error::x", colours=True) == "\x1b[31m \\u003a:error::x"


def test_only_a_terminal_may_write_a_line_again():
    assert written("a", "\r::b", isatty=True) == "a\r\\u003a:b"
    assert written("a", "\rb\rc", isatty=True) == "a\rb\\u000dc"
    assert written("a", "\rb") == "a\\u000db"


def test_a_command_to_a_workflow_is_written_on_a_line_of_its_own():
    stream = io.StringIO()
    clean = CleanStream(stream, colours=False)
    clean.write("a")
    clean.write_command(error("a: b, c", "50% of\n::x\x1b"))
    clean.write("::b")
    lines = ["a", r"::error title=a%3A b%2C c::50%25 of%0A\u003a:x\u001b", r"\u003a:b"]
    assert stream.getvalue().splitlines() == lines


def test_a_program_writes_clean_lines_also_its_traceback(capsys, monkeypatch):
    with clean_streams():
        print("\x1b[2J", file=sys.stderr)
        print("::x")
    print("\x1b")
    assert capsys.readouterr() == ("\\u003a:x\n\x1b\n", "\\u001b[2J\n")
    monkeypatch.setattr(sys, "stderr", sys.stderr)
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    with pytest.raises(ValueError, match="evil") as raised, clean_streams():
        raise ValueError("evil\x1b[2J\n::error::x")
    sys.excepthook(raised.type, raised.value, raised.tb)
    assert capsys.readouterr().err.endswith("ValueError: evil\\u001b[2J\n\\u003a:error::x\n")


# The structure that keeps it so.


def modules():
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def _writes(node):
    match node:
        case ast.Call(func=ast.Name(id="print")):
            return True
        case ast.Attribute(value=ast.Name(id="sys"), attr=name):
            return name.strip("_") in ("stdout", "stderr")
        case ast.Attribute(value=ast.Name(id="traceback"), attr=name):
            return name.startswith("print_")
        case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr="write")):
            return isinstance(node.args[0], ast.Constant)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="warnings"), attr="warn")):
            return True
    return False


def test_only_cleaned_modules_write_to_stdout_and_stderr():
    found = {name for name, tree in modules() if any(map(_writes, ast.walk(tree)))}
    assert found == WRITERS.keys()
    for name, cleaner in WRITERS.items():
        if " " not in cleaner:
            assert cleaner in (ROOT / name).read_text(), name


def test_every_program_cleans_its_streams():
    programs = [name for name, tree in modules() if "__main__" in _compared_names(tree)]
    assert len(programs) > 3
    for name in programs:
        text = (ROOT / name).read_text()
        assert "clean_streams()" in text or "observe.__main__ import main" in text, name


def _compared_names(tree):
    tests = (node.test for node in tree.body if isinstance(node, ast.If))
    return {c.value for t in tests for c in ast.walk(t) if isinstance(c, ast.Constant)}


def test_only_the_terminals_modules_write_through_pytest():
    """Each writes to the reporter that the plugin cleans, or cleans the one that it makes."""
    methods = {"write_line", "write_sep", "write_raw", "section", "rewrite", "write_command", "_tw"}
    found = set()
    for name, tree in modules():
        attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        if attributes & methods and not name.startswith(("compilegate/observe", "compilegate/out")):
            found.add(name)
        text = ast.unparse(tree)
        assert text.count("TerminalReporter(") == text.count("clean(pytest.TerminalReporter("), name
    assert found == TERMINAL


def test_only_one_module_makes_commands_to_workflows():
    made = {
        name
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr) and ast.unparse(node)[2:4] == "::"
    }
    assert made == {"compilegate/output/workflow_command.py"}
