"""Workflow commands and the job summary: escaped as GitHub reads them, few, and within limits."""

import pytest

from compilegate.reports import markdown
from compilegate.reports.case_groups import CaseGroup
from compilegate.reports.github import (
    ANNOTATIONS,
    LENGTH,
    JobSummary,
    Shown,
    append_summary,
    error_annotations,
)
from tests.unit.making import CASE_ID


def group(text="it broke", index=0, cases=1):
    return CaseGroup("failed", (CASE_ID,) * cases, "forward", f"{text}{index or ''}")


def test_a_failure_is_one_line_that_github_understands():
    assert list(error_annotations([group()])) == [
        f"::error title=compilegate%3A {CASE_ID}::forward: it broke"
    ]
    (line,) = error_annotations([group(cases=3)])
    assert f"{CASE_ID} and 2 more::" in line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("50% worse", "50%25 worse"),
        ("a\nb\r\nc\rd", "a%0Ab%0Ac\\u000dd"),
        ("x\n::set-output name=a::b", "x%0A\\u003a:set-output name=a::b"),
        ("a, b: c", "a, b: c"),
    ],
)
def test_messages_are_escaped(text, shown):
    (line,) = error_annotations([group(text)])
    assert line.endswith(f"::forward: {shown}")
    assert "\n" not in line


def test_titles_cannot_add_properties():
    odd = CaseGroup("failed", ("a,file=/etc/passwd::b",), "forward", "x")
    (line,) = error_annotations([odd])
    assert line == "::error title=compilegate%3A a%2Cfile=/etc/passwd%3A%3Ab::forward: x"


def test_the_decision_comes_first_and_takes_a_place():
    lines = list(error_annotations([group(index=i) for i in range(25)], "do not upgrade"))
    assert lines[0] == "::error title=compilegate::do not upgrade"
    assert len(lines) == ANNOTATIONS
    assert lines[-1] == "::error title=compilegate::17 more: see the job summary"


def test_no_more_annotations_are_made_than_github_shows():
    lines = list(error_annotations([group(index=i) for i in range(25)]))
    assert len(lines) == ANNOTATIONS
    assert lines[-1] == "::error title=compilegate::16 more: see the job summary"
    assert len(list(error_annotations([group(index=i) for i in range(10)]))) == 10
    assert list(error_annotations([])) == []


def test_long_messages_are_cut():
    (line,) = error_annotations([group("x" * 10_000)])
    assert len(line) < LENGTH + 100


def test_an_existing_summary_is_appended_to(tmp_path):
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    rooms = []

    def write(room):
        rooms.append(room)
        return "after\n"

    assert append_summary(path, write, limit=5000) == ""
    assert path.read_text() == "before\nafter\n"
    assert rooms == [5000 - len("before\n")]


def test_a_missing_summary_is_created(tmp_path):
    path = tmp_path / "summary.md"
    assert append_summary(path, str, limit=5000) == ""
    assert path.read_text() == "5000"


def test_a_full_summary_stays_unchanged_and_the_session_reports_it(tmp_path):
    path = tmp_path / "summary.md"
    path.write_text("x" * 4500)
    assert "is full" in append_summary(path, lambda room: "more", limit=5000)
    assert path.read_text() == "x" * 4500


def test_a_summary_that_cannot_be_written_is_reported(tmp_path):
    trouble = append_summary(tmp_path / "no" / "summary.md", lambda room: "x", limit=5000)
    assert "No such file or directory" in trouble


@pytest.fixture
def page(tmp_path, monkeypatch):
    """Writes the job summary of a step, which has the words of the results."""
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    monkeypatch.setattr(markdown, "of_cases", lambda results, *_, **__: f"{' '.join(results)}\n")
    summary = JobSummary()

    def write(*words):
        assert summary.write(Shown(dict.fromkeys(words), [], None, None)) == ""
        return path.read_text()

    return write


def test_a_summary_that_is_written_again_replaces_itself(page):
    assert page("ours", "is", "long") == "before\n\nours is long\n"
    assert page("again") == "before\n\nagain\n"


def test_what_another_command_has_added_stays(page, tmp_path):
    page("ours")
    with (tmp_path / "summary.md").open("a") as file:
        file.write("theirs\n")
    assert page("again") == "before\n\nours\ntheirs\n\nagain\n"


@pytest.mark.parametrize(("of_github", "times"), [("true", 1), ("", 0)])
def test_errors_are_shown_once(of_github, times, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", of_github)
    monkeypatch.setattr("compilegate.reports.culprit_groups.groups", lambda _: [group()])
    summary, shown = JobSummary(), Shown({}, [], None, None)
    assert len([*summary.error_commands(shown), *summary.error_commands(shown)]) == times
