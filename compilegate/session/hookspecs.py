"""The hooks of our own: https://docs.pytest.org/en/stable/how-to/writing_hook_functions.html."""

from __future__ import annotations

from compilegate.records.pair import Pair


def pytest_compilegate_pair(pair: Pair) -> None:
    """A suspect was timed again in a fresh pair of processes."""
