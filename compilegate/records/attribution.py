"""The record of what makes a case worse: the distributions that a change of environment brought.

Standard library only: the observed interpreter need not have more than torch.
"""

from __future__ import annotations

from dataclasses import dataclass

#: How many distributions of one cause a phrase names.
_NAMED = 2


@dataclass(frozen=True, kw_only=True)
class DistributionChange:
    """A distribution in two environments. A version is empty where it is not installed."""

    name: str
    before: str
    now: str

    def __str__(self) -> str:
        return f"{self.name} {self.before or 'none'} → {self.now or 'none'}"


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Distributions that changed together: the one that matters first, and what it needs."""

    changes: tuple[DistributionChange, ...]

    def __str__(self) -> str:
        head, *others = map(str, self.changes)
        if not others:
            return head
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        return f"{head} (with {', '.join(others[:_NAMED])}{more})"


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """What makes a case worse than under the version in use.

    Attributes:
        case: Its id.
        kind: Its class, such as *broken*.
        aspect: The aspect of the change that decided its class.
        causes: The smallest set of changes found that shows it; empty where none does.
        why: Why no change explains it; empty where one does.
        environments: How many environments between the two were tried for it.
        python: The interpreter of the environment that differs in the causes alone; may be empty.
    """

    case: str
    kind: str
    aspect: str
    causes: tuple[Cause, ...] = ()
    why: str = ""
    environments: int = 0
    python: str = ""

    @property
    def cause(self) -> str:
        """The causes in one phrase: ``timm 1.0.30 → 1.0.31 alone``; empty where none is known."""
        if len(self.causes) == 1:
            return f"{self.causes[0]} alone"
        return " together with ".join(map(str, self.causes))
