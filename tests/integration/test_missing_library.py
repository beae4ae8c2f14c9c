"""What cannot be judged here is skipped with its reason; a session of only that is no success."""

import sys

from tests.integration.conftest import EXACT, FORWARD, MATVEC, ZOOS, faulty_case, run_to_its_end

REASON = "no_such_package cannot be imported: No module named 'no_such_package'"


def test_a_model_without_its_library_is_skipped_with_the_reason(faulty):
    verdicts = faulty.verdicts("lacks_its_library").values()
    assert {(verdict.outcome, verdict.summary) for verdict in verdicts} == {("skipped", REASON)}
    assert f"unavailable in stage build: {REASON}" in faulty.output


def test_a_session_that_compiled_nothing_exits_with_5(compilegate):
    case = faulty_case("lacks_its_library")
    session = compilegate(
        *EXACT, "--zoo", str(ZOOS / "faulty.py"), "--cases", case, "-m", "cpu", "-rs"
    )
    assert session.status == 5
    assert session.counts == {"skipped": 5}
    assert REASON in session.output.partition("short test summary")[2]


def test_a_library_that_one_case_lacks_reads_as_good_nowhere(compilegate, runs):
    """pytest, a replay, the job summary and the page give one answer."""
    chosen = ("--cases", faulty_case("lacks_its_library"), "--cases", MATVEC)
    session = compilegate(FORWARD, "--zoo", str(ZOOS / "faulty.py"), *chosen, "--save", "some")
    title = "2 cases, none failed, 1 not judged: needs no_such_package"
    assert session.status == 2, session.output
    assert title in session.output
    again = compilegate(FORWARD, "--replay", "some")
    assert (again.status, title in again.output) == (2, True), again.output
    alone = compilegate(FORWARD, "--replay", "some", "--cases", MATVEC)
    assert (alone.status, "1 case, none failed" in alone.output) == (0, True), alone.output
    run = ("some", "--runs", str(runs))
    for name, file in (("markdown", runs / "a.md"), ("html", runs / "a.html")):
        words = [sys.executable, "-m", "compilegate", name, *run, "-o", str(file)]
        shown = run_to_its_end(words, None, runs)
        assert shown.status == 2, shown.output
        assert "not judged: needs no" in file.read_text()


def test_a_session_with_compiling_disabled_fails(compilegate):
    session = compilegate(FORWARD, "--cases", MATVEC, env={"TORCH_COMPILE_DISABLE": "1"})
    assert session.status == 1
    failed = session.failed(MATVEC)
    why = "nothing reached the compiler: is torch.compile disabled?"
    assert failed == {"forward": f"nothing was compiled, all of it ran eagerly: {why}"}
