"""Sessions that do not collect the suites behave as if compilegate were not installed."""

import subprocess
import sys

import pytest

from tests.integration.conftest import CHECKOUT, run_to_its_end, surroundings

THEIRS = """\
import pytest


@pytest.mark.parametrize("case", ["lower", "upper"])
def test_something_else(case):
    assert case
"""


def shown_by(output, folder):
    """The output without paths, and without pytest's list of installed plugins."""
    lines = output.replace(str(folder), "").splitlines()
    return "\n".join(line for line in lines if not line.startswith("plugins: "))


def test_other_tests_may_have_a_parameter_named_case(write, runs):
    words = [sys.executable, "-m", "pytest", "-p", "compilegate.plugin", "-p", "no:cacheprovider"]
    session = run_to_its_end([*words, write("test_theirs.py", THEIRS)], None, runs)
    assert session.status == 0, session.output
    assert session.counts == {"passed": 2}
    assert "compilegate" not in shown_by(session.output, runs)


CONFTEST = """\
import pytest


def pytest_addoption(parser):
    parser.addoption("--models", default="all")


@pytest.fixture
def models(request):
    return request.config.getoption("models")
"""
TESTS = """\
import sys

import fixtures
import reports


def test_the_option_is_ours(models):
    assert models == "small"


def test_the_packages_are_ours():
    assert reports.OURS and fixtures.OURS


def test_compilegate_stays_out_of_the_way():
    loaded = {name for name in sys.modules if name.partition(".")[0] == "compilegate"}
    assert loaded <= {"compilegate", "compilegate.layout", "compilegate.entry"}, loaded
    assert "torch" not in sys.modules
"""


@pytest.fixture
def repository(tmp_path):
    """A team's repository whose names are those of compilegate's options and packages."""
    folder = tmp_path / "repository"
    for package in ("reports", "fixtures"):
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").write_text("OURS = True\n")
    (folder / "pytest.ini").write_text(
        "[pytest]\naddopts = --strict-config --strict-markers\npythonpath = .\n"
        "zoo = my_models.py\nbudgets = my_budgets.toml\n"
    )
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_ours.py").write_text(TESTS)
    return folder


def run(folder, runs, *arguments):
    #: The entry point of an installation.
    words = [sys.executable, "-m", "pytest", "-p", "compilegate.entry", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*words, *arguments],
        cwd=folder,
        env={**surroundings(runs), "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_compilegate_is_inert_in_another_repository(repository, runs):
    done = run(repository, runs, "--models", "small")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
    assert "compilegate" not in shown_by(done.stdout, runs.parent)


def test_help_shows_no_option_of_compilegate_in_another_repository(repository, runs):
    done = run(repository, runs, "--help")
    assert done.returncode == 0, done.stderr
    assert "--models" in done.stdout
    for option in ("--tier", "--cases", "--zoo", "--budgets", "--replay", "--baseline-run"):
        assert option not in done.stdout
