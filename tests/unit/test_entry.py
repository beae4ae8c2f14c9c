"""Which sessions load compilegate's plugin: those that name the suites, and no others."""

import pytest

from compilegate import entry
from compilegate.layout import PACKAGE, SUITES

pytest_plugins = ["pytester"]


@pytest.fixture
def loads(pytester):
    """Whether a session with these words, in a team's repository, loads the plugin."""

    def parse(*words):
        config = pytester.parseconfig("-p", "compilegate.entry", *words)
        return config.pluginmanager.has_plugin(entry.PLUGIN)

    return parse


@pytest.fixture
def installed(pytester, monkeypatch):
    """The suites of a wheel, in a virtual environment inside the team's repository."""
    package = pytester.path / ".venv" / "lib" / "python3.13" / "site-packages" / "compilegate"
    (package / "suites").mkdir(parents=True)
    monkeypatch.setattr(entry, "PACKAGE", package)
    monkeypatch.setattr(entry, "SUITES", package / "suites")
    return package


@pytest.mark.parametrize("words", [(), (".",), (".venv",), ("tests",)])
def test_a_repository_with_an_environment_inside_does_not_name_the_suites(
    pytester, installed, loads, words
):
    pytester.makeini("[pytest]\ntestpaths = .\n")
    assert not loads(*words)


def test_the_installed_package_and_its_suites_are_named_by_their_paths(installed, loads):
    assert loads(str(installed))
    assert loads(str(installed / "suites"))
    assert loads(str(installed / "suites" / "test_forward.py") + "::test_outputs_match_eager")


def test_the_root_of_the_checkout_names_the_suites_and_a_folder_above_does_not():
    assert entry.names_suites(["."], SUITES.parent, pyargs=False)
    assert entry.names_suites(["compilegate"], PACKAGE.parent, pyargs=False)
    assert not entry.names_suites([".."], SUITES.parent, pyargs=False)
    assert not entry.names_suites(["tests", "docs"], SUITES.parent, pyargs=False)


@pytest.fixture
def in_testpaths(pytester):
    """A repository whose ini file names the suites, with a zoo file and a test of its own."""
    pytester.makeini("[pytest]\ntestpaths = compilegate.suites\naddopts = --pyargs\n")
    pytester.makepyfile(my_models="", test_ours="def test_ours(): pass")


@pytest.mark.parametrize(
    "words",
    [
        ("-m", "cpu"),
        ("-m", "cpu", "--zoo", "my_models.py", "--models", "my_net"),
        ("--zoo=my_models.py", "--models=my_net"),
        ("--zoo", "my_models.py", "compilegate.suites.test_forward"),
    ],
)
@pytest.mark.usefixtures("in_testpaths")
def test_suites_in_testpaths_are_named_whatever_values_options_have(loads, words):
    assert loads(*words)


@pytest.mark.usefixtures("in_testpaths")
def test_a_test_on_the_command_line_replaces_the_suites_in_testpaths(loads):
    assert not loads("test_ours.py")


def test_an_option_without_the_suites_is_refused_with_the_way_to_them(pytester):
    refused = pytester.runpytest("-p", "compilegate.entry", ".", "--zoo=mine.py")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines(
        ["*unrecognized arguments: --zoo=mine.py", "*: --zoo needs *: --pyargs compilegate.suites"]
    )


def test_a_team_that_has_such_an_option_itself_sees_nothing_of_the_suites(pytester):
    pytester.makeconftest("def pytest_addoption(parser): parser.addoption('--zoo')")
    pytester.makepyfile("def test_ours(): pass")
    passed = pytester.runpytest("-p", "compilegate.entry", "--zoo=mine.py")
    passed.assert_outcomes(passed=1)
    assert "compilegate.suites" not in passed.stdout.str() + passed.stderr.str()


def test_another_mistake_has_no_such_hint(pytester):
    refused = pytester.runpytest("-p", "compilegate.entry", "--zooo=mine.py")
    refused.stderr.no_fnmatch_line("*compilegate.suites*")
