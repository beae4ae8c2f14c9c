"""The hooks that compilegate adds to pytest.

https://docs.pytest.org/en/stable/how-to/writing_hook_functions.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compilegate.records.pair import Pair


def pytest_compilegate_observed(records: Mapping[str, Sequence[str]]) -> None:
    """A case was observed before its own tests, because pairs of all cases judge together.

    Args:
        records: The lines that it adds to the run file of each side.
    """


def pytest_compilegate_pair(pair: Pair) -> None:
    """A suspect was measured again in a fresh pair of processes."""


def pytest_compilegate_trial(changes: str, cases: Sequence[str]) -> None:
    """Cases that are worse are tried in an environment between the two.

    Args:
        changes: How it differs from that of the version in use.
        cases: The cases.
    """


def pytest_compilegate_progress(case_id: str, stage: str, elapsed_s: float, at_work: str) -> None:
    """A case is being observed in this process, or a child starts.

    Called when the stage changes, and about every five seconds while it lasts.

    Args:
        case_id: The case; empty while a child starts.
        stage: The stage that the case has reached.
        elapsed_s: Seconds since the case began.
        at_work: The processes that work for the case, other than the child: ``2 cc1plus``.
    """
