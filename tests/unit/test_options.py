"""The options of a session: the command line, and the settings of the ini file."""

import os
import sys

import pytest

from compilegate.session.options import Options, check

pytest_plugins = ["pytester"]


@pytest.fixture
def options_of(pytester):
    def parse(*words):
        plugins = ("-p", "compilegate.entry", "-p", "compilegate.plugin")
        return Options.of(pytester.parseconfig(*plugins, *words))

    return parse


def test_defaults_are_not_explicit(options_of):
    options = options_of()
    assert (options.seed, options.backend, options.tf32) == (0, "inductor", False)
    assert options.explicit == ()


def test_options_of_the_command_line_are_explicit(options_of):
    options = options_of("--seed", "0", "--tf32", "--backend", "eager")
    assert (options.seed, options.backend, options.tf32) == (0, "eager", True)
    assert options.explicit == ("seed", "backend", "tf32")


def test_the_candidate_is_this_interpreter_unless_another_is_named(options_of):
    assert options_of().python == sys.executable
    assert options_of("--candidate", "/new/bin/python").python == "/new/bin/python"


def test_attribution_needs_the_interpreter_of_the_version_in_use(options_of):
    with pytest.raises(ValueError, match=r"with --baseline-python; to attribute .* add --resume"):
        check(options_of("--attribute"))
    check(options_of("--attribute", "--baseline-python", "/old/bin/python"))


def test_a_replay_has_no_candidate(options_of):
    with pytest.raises(ValueError, match="--replay and --candidate exclude each other"):
        check(options_of("--replay", "run", "--candidate", "/new/bin/python"))


@pytest.mark.parametrize("name", ["--case-timeout", "--stop-after", "--triage-minutes"])
def test_a_duration_must_be_positive(options_of, name):
    for value in ("0", "-1", "inf"):
        with pytest.raises(ValueError, match=f"^{name} {value}: expected .* above 0"):
            check(options_of(name, value))
    check(options_of(name, "0.5"))


@pytest.mark.parametrize("folder", [".", "sub"])
def test_paths_of_the_ini_file_start_from_its_folder(pytester, options_of, folder):
    pytester.makeini("[pytest]\nruns_dir = kept\nzoo = mine.py\nbudgets = mine.toml\n")
    (pytester.path / "sub").mkdir()
    os.chdir(pytester.path / folder)
    options = options_of("--zoo", "more.py")
    mine, budgets = str(pytester.path / "mine.py"), str(pytester.path / "mine.toml")
    assert options.runs == pytester.path / "kept"
    assert options.zoo == (mine, "more.py")
    assert options.budgets == (budgets,)
    assert options.ini_files == ("--zoo", mine, "--budgets", budgets)


def test_without_an_ini_file_runs_are_kept_in_the_current_folder(pytester, options_of):
    assert options_of().runs == pytester.path / ".runs"


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ((), "."),
        (("-c", "sub/pytest.ini"), "sub"),
        (("-c", "/dev/null"), "."),
        (("-c", "/dev/null", "--rootdir", "sub"), "sub"),
        (("--rootdir", "sub"), "sub"),
    ],
)
def test_runs_are_in_the_root_that_is_named_or_next_to_the_ini_file(
    words, place, options_of, pytester
):
    folder = pytester.mkdir("sub")
    (folder / "pytest.ini").write_text("[pytest]\n")
    assert options_of(*words).runs.resolve() == (pytester.path / place / ".runs").resolve()
