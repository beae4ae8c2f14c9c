"""A model that reaches out of its own case costs that case alone: the next one is judged."""

import re
from pathlib import Path

import pytest

from tests.integration.conftest import FORWARD, ZOOS, Session, command, run_to_its_end
from tests.integration.processes import living, soon

pytestmark = pytest.mark.long

ZOO = ZOOS / "saboteurs.py"
NAMES = re.findall(r"^@saboteur\ndef (\w+)", ZOO.read_text(), re.MULTILINE)
CASE = "{}-cpu-infer-f32-default-static"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("saboteurs")


@pytest.fixture(scope="module")
def session(folder) -> Session:
    """All of the zoo, with a folder for temporary files and a compile cache of its own."""
    (folder / "tmp").mkdir()
    runs = folder / "runs"
    chosen = [word for name in NAMES for word in ("--cases", CASE.format(f"*{name}"))]
    words = command(FORWARD, "--zoo", str(ZOO), *chosen, "--case-timeout", "30", runs=runs)
    env = {"TMPDIR": str(folder / "tmp"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
    return run_to_its_end(words, env, runs)


@pytest.mark.parametrize("name", NAMES)
def test_the_model_after_it_passes(session, name):
    assert session.outcomes(f"after_{name}") == {"passed"}
    at = session.observed.index(CASE.format(name))
    assert session.observed[at + 1] == CASE.format(f"after_{name}")


@pytest.mark.parametrize(
    ("name", "summary"),
    [
        ("deletes_its_temporary_folder", "raised in stage 'build': FileNotFoundError: "),
        ("deletes_every_temporary_folder", "raised in stage 'build': FileNotFoundError: "),
        ("allows_no_file", "raised in stage 'compile': OSError: [Errno 24] Too many open files"),
        ("closes_every_descriptor", "crashed in stage 'eager': the process exited with status 1"),
        ("writes_junk_to_every_descriptor", "crashed in stage 'eager': garbled answer: "),
        ("answers_for_another_case", "crashed in stage 'eager': garbled answer: it is about "),
        (
            "kills_the_fork_server",
            "crashed in stage 'eager': the fork server was killed, and the process with it",
        ),
    ],
)
def test_a_model_that_breaks_off_its_own_case_fails(session, name, summary):
    failed = session.failed(name)
    assert failed.keys() == {"forward"}
    assert failed["forward"].startswith(summary)


@pytest.mark.parametrize(
    "name",
    [
        "fills_and_locks_its_temporary_folder",
        "deletes_the_compile_cache",
        "leaves_for_a_folder_that_is_gone",
        "has_no_home_and_no_permissions",
        "allows_no_process",
        "detaches_a_process",
    ],
)
def test_a_model_whose_own_case_goes_on_passes(session, name):
    assert session.outcomes(name) == {"passed"}


def test_the_run_is_complete_and_the_session_shows_no_traceback_of_ours(session):
    run = session.run()
    assert run.closing is not None
    assert run.missing == []
    assert "INTERNALERROR" not in session.output
    assert "compilegate/processes" not in session.output
    assert "\x1b" not in session.output


def test_no_process_and_no_temporary_file_is_left(session, folder):
    assert soon(lambda: not living(session.runs)), living(session.runs)
    left = [*folder.glob("tmp/*")]
    assert left == []
