"""What a suite judges, as the marker of its test says it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import pytest

from compilegate.records.case import Case
from compilegate.records.observation import Want


@dataclass(frozen=True)
class Aspect:
    """The marker ``aspect`` of a test.

    Attributes:
        name: As verdicts have it.
        wants: What has to be observed.
        applies: Which cases have it; all of them by default.
        cold: Whether only cases that compile in an empty cache have it.
        baseline: Whether only a session has it that is held against an earlier run.
        paired: Whether only a session has it that observes two versions.
        gone: Whether it is of the cases that the session does not have any more.
    """

    name: str
    wants: Sequence[Want]
    applies: Callable[[Case], bool] = lambda case: True
    cold: bool = False
    baseline: bool = False
    paired: bool = False
    gone: bool = False

    @classmethod
    def of(cls, node: pytest.Item | pytest.Collector) -> Self | None:
        """The aspect that a test judges, if it is a suite's."""
        mark = node.get_closest_marker("aspect")
        return None if mark is None else cls.of_mark(mark)

    @classmethod
    def of_mark(cls, mark: pytest.Mark) -> Self:
        """The aspect that a marker declares."""
        return cls(*mark.args, **mark.kwargs)
