"""Printed commands work when pasted: they name the interpreter, the suites, files and settings."""

import os
import shlex
import sys
from pathlib import Path

import pytest

from compilegate.layout import SUITES
from compilegate.runs import reproduction
from tests.unit.making import make_header
from tests.unit.planned import make_options, make_plan_of


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A folder on the path in front of all others, and a function that puts programs into it."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def make(*names):
        for name in names:
            (folder / name).write_text("#!/bin/sh\n")
            (folder / name).chmod(0o755)
        return folder

    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{Path(sys.executable).parent}")
    return make


def test_this_interpreter_goes_by_its_short_name_where_it_is_first_on_the_path(programs):
    programs()
    assert reproduction.python() == "python"
    assert reproduction.pytest_words() == ["pytest"]


def test_this_interpreter_goes_by_its_path_where_another_is_first(programs):
    programs("python", "pytest")
    assert reproduction.python() == sys.executable
    assert reproduction.pytest_words() == [sys.executable, "-m", "pytest"]


def test_the_suites_go_by_path_in_the_checkout_and_by_package_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(SUITES.parent)
    assert reproduction.suites_words() == ["suites/"]
    monkeypatch.chdir(tmp_path)
    assert reproduction.suites_words() == ["--pyargs", "compilegate.suites"]
    monkeypatch.setattr(reproduction, "SUITES", tmp_path / "compilegate" / "suites")
    monkeypatch.setattr(reproduction, "PACKAGE", tmp_path / "compilegate")
    assert reproduction.suites_words() == ["--pyargs", "compilegate.suites"]


def test_the_command_of_a_session_carries_its_files_and_settings(programs, tmp_path, monkeypatch):
    programs()
    monkeypatch.chdir(tmp_path)
    files = {"zoo": ("mine.py",), "budgets": (str(tmp_path / "b.toml"), "/else/c.toml")}
    options = make_options(tmp_path, **files, seed=3, backend="aot_eager", tf32=True)
    assert make_plan_of(options).session_command == (
        "pytest --pyargs compilegate.suites --zoo mine.py --budgets b.toml --budgets /else/c.toml "
        "--seed 3 --backend aot_eager --tf32"
    )
    plain = make_plan_of(make_options(tmp_path))
    assert plain.session_command == "pytest --pyargs compilegate.suites"


def test_the_command_of_a_session_reads_the_same_configuration(programs, tmp_path, monkeypatch):
    programs()
    monkeypatch.chdir(tmp_path)
    ours = ("-c", "gate.ini", "--rootdir=.", "-o", "runs_dir=kept", "-pmine", "-o=cache_dir=c")
    given = ("suites/", "-m", "cpu", *ours, "-q", "--color=no", "-k", "mlp")
    command = make_plan_of(make_options(tmp_path, arguments=given)).session_command
    assert command == shlex.join(["pytest", "--pyargs", "compilegate.suites", *ours])


def test_the_command_of_a_session_that_compares_names_the_interpreters(
    programs, tmp_path, monkeypatch
):
    """Without them, a verdict on growth cannot be settled."""
    programs()
    monkeypatch.chdir(tmp_path)
    options = make_options(tmp_path, baseline_python="/old/python", candidates=("/new/python",))
    assert make_plan_of(options).session_command == (
        "pytest --pyargs compilegate.suites --candidate /new/python --baseline-python /old/python"
    )


def test_the_command_of_a_stored_run_carries_its_files_and_settings(programs, monkeypatch):
    programs()
    monkeypatch.chdir(SUITES.parent)
    header = make_header(files=("--zoo", "/else/m.py"), seed=3, backend="aot_eager", tf32=True)
    command = shlex.join(reproduction.session_words(header))
    assert command == "pytest suites/ --zoo /else/m.py --seed 3 --backend aot_eager --tf32"


def test_a_run_keeps_the_files_of_the_command_line_and_of_the_ini_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = make_options(tmp_path, zoo=("mine.py",), budgets=("/else/c.toml",))
    assert options.files == ("--zoo", str(tmp_path / "mine.py"), "--budgets", "/else/c.toml")
    header = make_header(files=options.files, arguments=("suites",))
    assert reproduction.files_of(header) == ["--zoo", "mine.py", "--budgets", "/else/c.toml"]
    assert reproduction.files_of(header, "--zoo") == ["--zoo", "mine.py"]


def test_a_run_of_an_earlier_version_names_files_in_its_arguments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    header = make_header(arguments=("suites", "--zoo=mine.py", "--budgets", "/else/c.toml"))
    assert reproduction.files_of(header) == ["--zoo", "mine.py", "--budgets", "/else/c.toml"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("suites", "--save", "a", "-m", "cpu"), "suites -m cpu --resume a"),
        (("--save=a", "--zoo", "my zoo.py"), "--zoo 'my zoo.py' --resume a"),
        (("suites", "--resume", "a"), "suites --resume a"),
        ((), "--resume a"),
    ],
)
def test_a_session_is_continued_with_its_own_arguments(programs, arguments, words):
    programs()
    assert shlex.join(reproduction.resuming_words(arguments, "a")) == f"pytest {words}"
