"""The plugin that ends a session with status 2, *cannot say*, if a run cannot be read.

It is the status that the command ``compilegate`` has for such a file. Status 1 would mean that
something is worse, and pytest's 4 that the command line is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import Any

import pytest

from compilegate.output.streams import CleanStream
from compilegate.runs.reader import UnreadableRunError

CANNOT_SAY = 2


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main() -> Generator[None, Any, Any]:
    """Print the reason as pytest prints the reasons of wrong use, and end with another status.

    https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_cmdline_main
    """
    try:
        return (yield)
    except pytest.UsageError as error:
        if not isinstance(error.__cause__, UnreadableRunError):
            raise
        CleanStream(sys.stderr, colours=False).write(f"ERROR: {error}\n\n")
        return CANNOT_SAY
