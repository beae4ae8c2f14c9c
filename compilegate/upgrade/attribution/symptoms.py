"""What makes a case worse under the candidate, to be recognised in another environment."""

from __future__ import annotations

from dataclasses import dataclass

from compilegate.runs.archive import CaseRecord
from compilegate.upgrade.attribution.search import Shown
from compilegate.upgrade.case_comparison import CaseComparison, Class
from compilegate.upgrade.costs import COUNTED
from compilegate.upgrade.verdict_changes import Change

_WORSE = ("broken", "worse", "eager")
#: In these classes, a case shows nothing about its change.
_UNCOMPARED: tuple[Class, ...] = ("gone", "new", "not comparable")


@dataclass(frozen=True)
class Symptom:
    """What makes a case worse.

    Attributes:
        aspects: The aspects of the change that decided its class.
        failure: Status and kind of the failure that ended it early; empty where it ran to its end.
    """

    aspects: frozenset[str]
    failure: tuple[str, str] | tuple[()] = ()

    @classmethod
    def of(cls, found: CaseComparison, now: CaseRecord) -> Symptom:
        """Return the symptom of a case that is worse.

        Args:
            found: How it compares with the version in use.
            now: What the candidate showed.
        """
        assert found.decisive is not None
        return cls(_aspects(found.decisive), _failure(now))

    @property
    def is_cost(self) -> bool:
        """Whether only pairs of processes can show it."""
        return bool(self.aspects & COUNTED.keys())

    def shown_by(self, found: CaseComparison, now: CaseRecord) -> Shown:
        """Return whether a case shows the symptom in another environment.

        Args:
            found: How it compares with the version in use.
            now: What the environment showed.
        """
        concerned = [change for change in found.changes if self.aspects & _aspects(change)]
        if any(change.effect in _WORSE for change in concerned):
            return "red" if _failure(now) == self.failure else "unclear"
        if found.kind in _UNCOMPARED or now.observation is None or now.observation.failure:
            return "unclear"
        is_open = any(change.effect == "unclear" for change in (*concerned, *_of_case(found)))
        return "unclear" if is_open else "green"


def _of_case(found: CaseComparison) -> list[Change]:
    """Return the changes that are about the case as a whole."""
    return [change for change in found.changes if not change.aspect]


def _aspects(change: Change) -> frozenset[str]:
    """Return the aspects of a change. One text of several aspects is one change."""
    return frozenset(change.aspect.split(", "))


def _failure(record: CaseRecord) -> tuple[str, str] | tuple[()]:
    seen = record.observation
    return (seen.status, seen.failure.kind) if seen is not None and seen.failure else ()
