"""Ends a session whose GPU is gone: its other cases would fail, or hang, one after the other."""

from __future__ import annotations

import pytest

from compilegate.records.case import Case
from compilegate.session.observations import OBSERVATIONS


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Stop before the first case that needs a lost device. Cases that were observed are judged.

    https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_runtest_protocol
    """
    observations = item.config.stash.get(OBSERVATIONS, None)
    callspec = getattr(item, "callspec", None)
    case = callspec.params.get("case") if callspec is not None else None
    if observations is None or not isinstance(case, Case):
        return None
    why = observations.why_unobservable(case)
    if not why:
        return None
    item.session.shouldstop = why
    return True
