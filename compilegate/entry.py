"""The plugin that pytest loads in every environment with compilegate installed.

It does nothing unless the session collects the suites. Then it registers
:mod:`compilegate.plugin`, which adds the options. A session of other tests gets no option and no
fixture from compilegate, and imports nothing of it but this module and :mod:`compilegate.layout`.
"""

from __future__ import annotations

import copy
import importlib.util
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from compilegate.layout import PACKAGE, SUITES

#: The name of a module: pytest does not import a plugin that is registered under this name.
PLUGIN = "compilegate.plugin"

#: Options that people give first. Without the suites, pytest knows none of them.
_OPTIONS = ("--zoo", "--models", "--cases", "--tier", "--budgets", "--baseline-python")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ini settings, so that ``--strict-config`` accepts them in every session.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_addoption
    """
    parser.addini("known", "compilegate: TOML files that name known culprits", "paths", [])
    parser.addini("zoo", "compilegate: zoo files, whose models are added to the zoo", "paths", [])
    parser.addini(
        "budgets", "compilegate: budgets files, layered over the shipped ones", "paths", []
    )
    parser.addini(
        "runs_dir",
        "compilegate: the folder of run files, from the folder of the ini file",
        default=".runs",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> None:
    """Register the plugin if the command line, or ``testpaths``, names the suites.

    The options of compilegate do not exist yet, so pytest takes their values for paths. Only a path
    that is no such value keeps ``testpaths`` from being read.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_load_initial_conftests
    """
    known = early_config.known_args_namespace
    values = _values_of_unknown_options(early_config, parser, args)
    given = [argument for argument in known.file_or_dir if argument not in values]
    arguments = known.file_or_dir if given else early_config.getini("testpaths")
    folder = early_config.invocation_params.dir
    if names_suites([*known.file_or_dir, *arguments], folder, pyargs=known.pyargs):
        early_config.pluginmanager.import_plugin(PLUGIN)
        return
    words = {word.partition("=")[0] for word in args}
    if wanted := [option for option in _OPTIONS if option in words]:
        # pytest shows it only if it refuses the command line: a conftest may have the option, too.
        parser.extra_info["compilegate"] = (
            f"{wanted[0]} needs its suites on the command line: --pyargs compilegate.suites"
        )


def _values_of_unknown_options(
    config: pytest.Config, parser: pytest.Parser, words: Sequence[str]
) -> set[str]:
    """Return the words that follow an option which no plugin has added so far."""
    options = copy.copy(config.option)
    _, unknown = parser.parse_known_and_unknown_args(words, namespace=options)
    names = {word for word in unknown if word.startswith("--") and "=" not in word}
    return {value for name, value in itertools.pairwise(words) if name in names}


def names_suites(arguments: Iterable[str], folder: Path, *, pyargs: bool) -> bool:
    """Whether these arguments name the suites: them, a part of them, or what compilegate is in.

    A folder further up does not name them. It may be a team's repository with a virtual environment
    inside, whose tests have nothing to do with compilegate.

    Args:
        arguments: Paths, node ids and, with ``pyargs``, names of packages.
        folder: The folder that relative paths start from.
        pyargs: Whether pytest runs with ``--pyargs``.
    """
    found = (_path_of(argument.partition("::")[0], folder, pyargs) for argument in arguments)
    return any(
        path in (SUITES, SUITES.parent, PACKAGE) or SUITES in path.parents
        for path in found
        if path is not None
    )


def _path_of(argument: str, folder: Path, pyargs: bool) -> Path | None:
    if pyargs and argument.split(".", maxsplit=1)[0] == "compilegate":
        try:
            spec = importlib.util.find_spec(argument)
        except ImportError:
            return None
        if spec is None or spec.origin is None:
            return None
        origin = Path(spec.origin).resolve()
        return origin.parent if origin.name == "__init__.py" else origin
    return (folder / argument).resolve()
