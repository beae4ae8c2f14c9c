"""The plugin that cleans what pytest prints and stores of a session of the suites.

pytest prints failures, captured output, warnings and reasons of skipped tests itself, so the
terminal's stream is what cleans them. Reports of the suites are cleaned before any plugin reads
them: JUnit's file and other plugins' get the same text.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from compilegate.judging.aspects import ASPECTS
from compilegate.output.streams import CleanStream
from compilegate.output.visible import visible_lines
from compilegate.records.case import suite_of
from compilegate.session.options import judges_suites


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Clean the terminal's stream, once pytest has made it.

    https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_configure
    """
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and judges_suites(config):
        clean(reporter)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, Any, Any]:
    """Clean the text of a wrong use, which pytest prints after it has removed all plugins.

    https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_cmdline_main
    """
    try:
        return (yield)
    except pytest.UsageError as error:
        error.args = tuple(visible_lines(str(text)) for text in error.args)
        raise


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_logreport(report: Any) -> Generator[None]:
    """Clean the report of a suite's test. Other tests may colour their output.

    https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_runtest_logreport
    """
    if suite_of(report.nodeid) in ASPECTS:
        report.longrepr = _cleaned(report.longrepr)
        report.sections = _cleaned(report.sections)
        if hasattr(report, "wasxfail"):
            report.wasxfail = visible_lines(report.wasxfail)
    yield


def clean(reporter: Any) -> Any:
    """Clean the stream of a terminal reporter, and return the reporter."""
    clean_writer(reporter._tw)
    return reporter


def clean_writer(writer: Any) -> Any:
    """Clean the stream of a terminal writer, and return the writer."""
    if not isinstance(writer._file, CleanStream):
        writer._file = CleanStream(writer._file, colours=writer.hasmarkup)
    return writer


def write_command(reporter: Any, command: str) -> None:
    """Write a command to the runner of a workflow.

    Args:
        reporter: pytest's terminal reporter.
        command: What :mod:`compilegate.output.workflow_command` made.
    """
    reporter.ensure_newline()
    clean(reporter)._tw._file.write_command(command)


def _cleaned(value: Any) -> Any:
    """Return a part of a report, its text cleaned; objects of pytest are changed in place."""
    match value:
        case str():
            return visible_lines(value)
        case list() | tuple():
            return type(value)(map(_cleaned, value))
        case dict():
            return {key: _cleaned(item) for key, item in value.items()}
        case _ if type(value).__module__.startswith("_pytest."):
            for name, item in vars(value).items():
                setattr(value, name, _cleaned(item))
    return value
