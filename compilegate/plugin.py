"""The hooks of compilegate. The work is in :mod:`compilegate.session`."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from compilegate.judging.aspects import Aspect
from compilegate.processes import interrupts
from compilegate.session import collection, hookspecs, start
from compilegate.session.command_line import add_options
from compilegate.session.description import describe
from compilegate.session.observations import OBSERVATIONS
from compilegate.session.options import judges_suites
from compilegate.session.plan import INTERRUPTS, PLAN

pytest_plugins = (
    "compilegate.session.clean_terminal",
    "compilegate.session.unreadable_run",
    "compilegate.session.xdist_hooks",
    "compilegate.session.suite_fixtures",
    "compilegate.session.lost_device",
    "compilegate.session.replay_clock",
    "compilegate.session.triaging",
    "compilegate.reports.terminal",
    "compilegate.reports.candidate_sessions",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options.

    https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_addoption
    """
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Add compilegate's own hooks.

    https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_addhooks
    """
    pluginmanager.add_hookspecs(hookspecs)


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, Any, Any]:
    """Handle SIGINT and SIGTERM.

    https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_cmdline_main
    """
    if not judges_suites(config):
        return (yield)
    with interrupts.taken_together() as came:
        config.stash[INTERRUPTS] = came
        status = yield
    return came.status(status)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers.

    https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_configure
    """
    start.add_markers(config)
    start.refuse_update_under_ci(config)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Make the plan before xdist starts its workers, so that a mistake is reported once.

    https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_sessionstart
    """
    if judges_suites(session.config):
        start.start(session.config)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End all processes that the session started, also after Ctrl-C.

    https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_unconfigure
    """
    if plan := config.stash.get(PLAN, None):
        plan.close()


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    """Name a suite by its file, also where it is outside of the root directory.

    https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_pycollect_makemodule
    """
    return collection.suite_outside(module_path, parent)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize the tests of the suites by case.

    https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_generate_tests
    """
    if (aspect := Aspect.of(metafunc.definition)) is not None:
        plan = metafunc.config.stash.get(PLAN, None)
        collection.parametrize(metafunc, aspect, plan or collection.refuse(metafunc))


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem() -> Generator[None, Any, Any]:
    """Leave out a suite's test without cases, before pytest counts it as selected.

    https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_pycollect_makeitem
    """
    made = yield
    return collection.with_cases(made) if isinstance(made, list) else made


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Group the tests by model.

    https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_collection_modifyitems
    """
    if (plan := config.stash.get(PLAN, None)) is not None:
        collection.order(items, plan)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note which measurements the selected tests need, by case.

    https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_collection_finish
    """
    stash = session.config.stash
    if PLAN in stash and not session.config.getoption("collectonly"):
        collection.note_wants(session.items, stash[PLAN], stash[OBSERVATIONS])


def pytest_report_header(config: pytest.Config) -> Sequence[str]:
    """Describe the plan.

    https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_report_header
    """
    plan = config.stash.get(PLAN, None)
    if plan is None:
        return []
    return describe(plan, max(config.get_terminal_writer().fullwidth, 80))
