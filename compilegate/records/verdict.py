"""The record of a verdict: the outcome of judging one aspect of a case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: The outcome of judging one aspect of one case.
Outcome = Literal["passed", "failed", "expected_failure", "inconclusive", "skipped"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The outcome of judging one aspect of a case.

    Attributes:
        case: Its id.
        aspect: Name of the suite's aspect.
        outcome: What was decided.
        summary: One line: what was seen and what was allowed.
        details: Further lines.
    """

    case: str
    aspect: str
    outcome: Outcome
    summary: str
    details: tuple[str, ...] = ()
