"""What cannot be judged here is skipped with its reason; a session of only that is no success."""

from tests.integration.conftest import EXACT, FORWARD, MATVEC, ZOOS, faulty_case

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


def test_a_session_with_compiling_disabled_fails(compilegate):
    session = compilegate(FORWARD, "--cases", MATVEC, env={"TORCH_COMPILE_DISABLE": "1"})
    assert session.status == 1
    failed = session.failed(MATVEC)
    assert failed == {"forward": "nothing was compiled: all of it ran eagerly"}
    assert "is torch.compile disabled?" in session.output
