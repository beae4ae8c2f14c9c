"""What pytest loads in every session of an environment that has compilegate installed.

It does nothing unless the session collects the suites. Then it registers
:mod:`compilegate.plugin`, which adds the options. A session of other tests sees no option, no
fixture and no import of compilegate beyond this file.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path

import pytest

from compilegate.layout import SUITES

#: A module, because pytest does not import a plugin that is already registered under its name.
PLUGIN = "compilegate.plugin"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the ini settings, so that ``--strict-config`` accepts them in every session.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_addoption
    """
    parser.addini("zoo", "compilegate: files whose models are added to the zoo", "paths", [])
    parser.addini("budgets", "compilegate: budgets files over the shipped ones", "paths", [])
    parser.addini("runs_dir", "compilegate: the folder of run files", default=".runs")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser) -> None:
    """Registers the plugin where the command line, or ``testpaths``, names the suites.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_load_initial_conftests
    """
    known = early_config.known_args_namespace
    arguments = known.file_or_dir or early_config.getini("testpaths")
    folder = early_config.invocation_params.dir
    if names_suites(arguments, folder, pyargs=known.pyargs):
        early_config.pluginmanager.import_plugin(PLUGIN)


def names_suites(arguments: Iterable[str], folder: Path, *, pyargs: bool) -> bool:
    """Whether pytest collects the suites when it is given these arguments.

    Args:
        arguments: Paths, node ids or, with ``pyargs``, names of packages.
        folder: The folder that relative paths start from.
        pyargs: Whether pytest runs with ``--pyargs``.
    """
    found = (_path_of(argument.partition("::")[0], folder, pyargs) for argument in arguments)
    return any(
        path == SUITES or SUITES in path.parents or path in SUITES.parents
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
