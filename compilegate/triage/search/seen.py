"""What a trial, or a release of torch, showed of a culprit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from compilegate.records.verdict import Verdict

#: What a release showed of a case.
State = Literal["good", "bad", "unobservable"]
#: How the text begins of what fails in another way than the culprit.
OTHER = "it shows another failure: "


@dataclass(frozen=True)
class Seen:
    """What a release showed.

    Attributes:
        state: Whether the failure shows.
        text: The line that shows it, or why nothing could be observed.
    """

    state: State
    text: str = ""

    @property
    def outcome(self) -> str:
        """The state as a test would say it."""
        return {"bad": "fails", "good": "passes", "unobservable": "undecided"}[self.state]

    @property
    def is_other(self) -> bool:
        """Whether something else fails."""
        return self.state == "unobservable" and self.text.startswith(OTHER)

    def as_other(self, is_other: bool) -> Seen:
        """Return a failure that is not that of the culprit, or this as it is."""
        return Seen("unobservable", f"{OTHER}{self.text}") if is_other else self

    def besides(self, summary: str) -> str:
        """The text, or that it is the same as in the run.

        Args:
            summary: What the run showed.
        """
        return "the same" if self.text.endswith(summary) else self.text

    def __str__(self) -> str:
        """The state, and the text if there is one."""
        return f"{self.state}: {self.text}" if self.text else self.state

    @classmethod
    def in_verdicts(cls, found: Sequence[Verdict]) -> Seen:
        """Return what the verdicts on the aspects of the failure show."""
        for verdict in found:
            if verdict.outcome == "failed":
                return cls("bad", f"{verdict.aspect}: {verdict.summary}")
        if any(verdict.outcome == "passed" for verdict in found):
            return cls("good")
        return cls("unobservable", next((v.summary for v in found), "it has no such aspect"))
