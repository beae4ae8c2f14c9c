"""The plugin that pytest loads in every environment with compilegate installed.

It does nothing unless the session collects the suites. Then it registers
:mod:`compilegate.plugin`, which adds the options. A session of other tests gets no option and no
fixture from compilegate, and imports nothing of it but this module and :mod:`compilegate.layout`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path

import pytest

from compilegate.layout import SUITES

#: The name of a module: pytest does not import a plugin that is registered under this name.
PLUGIN = "compilegate.plugin"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ini settings, so that ``--strict-config`` accepts them in every session.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_addoption
    """
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
def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser) -> None:
    """Register the plugin if the command line, or ``testpaths``, names the suites.

    https://docs.pytest.org/en/stable/reference/reference.html#pytest.hookspec.pytest_load_initial_conftests
    """
    known = early_config.known_args_namespace
    arguments = known.file_or_dir or early_config.getini("testpaths")
    folder = early_config.invocation_params.dir
    if names_suites(arguments, folder, pyargs=known.pyargs):
        early_config.pluginmanager.import_plugin(PLUGIN)


def names_suites(arguments: Iterable[str], folder: Path, *, pyargs: bool) -> bool:
    """Whether pytest collects the suites for these arguments.

    Args:
        arguments: Paths, node ids and, with ``pyargs``, names of packages.
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
