"""Finds the first release that shows a failure, by bisection over releases in order.

A release that cannot be observed is left out: a neighbour is tried in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from compilegate.triage.search.seen import Seen, State


@dataclass(frozen=True)
class Bisected:
    """Where a failure begins, as indices into the releases.

    Attributes:
        seen: What each observed release showed.
        turn: The neighbours between which it changes: the earlier and the later one. None if all
            observed releases show the same, or too few could be observed.
    """

    seen: dict[int, Seen]
    turn: tuple[int, int] | None

    @property
    def between(self) -> list[int]:
        """The releases inside the turn: none of them could be observed."""
        return list(range(self.turn[0] + 1, self.turn[1])) if self.turn else []


def bisect(count: int, look: Callable[[int], Seen]) -> Bisected:
    """Find two releases, as near as can be, of which one shows the failure and the other does not.

    Both ends are observed first. If they differ, a half that has the change is searched; of several
    changes between them, one is found.

    Args:
        count: The number of releases, from old to new.
        look: Observes one of them, by index.
    """
    seen: dict[int, Seen] = {}

    def state(index: int) -> State:
        if index not in seen:
            seen[index] = look(index)
        return seen[index].state

    def is_observable(index: int) -> bool:
        return state(index) != "unobservable"

    low = next(filter(is_observable, range(count)), None)
    high = next(filter(is_observable, reversed(range(count))), None)
    if low is None or high is None or state(low) == state(high):
        return Bisected(seen, None)
    while (middle := next(filter(is_observable, _from_the_middle(low, high)), None)) is not None:
        low, high = (middle, high) if state(middle) == state(low) else (low, middle)
    return Bisected(seen, (low, high))


def _from_the_middle(low: int, high: int) -> Sequence[int]:
    """Return the indices between two, those in the middle first."""
    return sorted(range(low + 1, high), key=lambda index: abs(2 * index - low - high))
