"""The search for the smallest set of changes that makes one case worse. Pure logic.

A search is a generator: it yields the changes of the environment to try, and receives what the case
showed in it. It first tries each group alone, then all of them, then leaves groups out. A group is
divided at the end, as far as its parts can change without the others.

It takes for granted that a case that is worse stays so when more changes are added. Where that does
not hold, a set that it returns still makes the case worse, but a smaller one may exist.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from compilegate.upgrade.attribution.groups import Group, rank

#: What a case showed: the same change as under the candidate, not that change, or nothing clear.
Shown = Literal["red", "green", "unclear"]
Names = frozenset[str]
Search = Generator[Names, Shown, "Found"]
_Step = Generator[Names, Shown, Names]

_NOTHING: Names = frozenset()
#: As many parts of a group are tried one by one; more are halved.
_FEW = 4


@dataclass(frozen=True)
class Found:
    """The result of a search.

    Attributes:
        names: The distributions whose change makes the case worse; empty where none does.
        with_all: What the case showed with all changes.
        without_any: What it showed in a copy of the version in use; *green* where that was not
            tried.
    """

    names: Names
    with_all: Shown = "red"
    without_any: Shown = "green"


def search(groups: Sequence[Group]) -> Search:
    """Search among groups of changes.

    With n groups, it tries at most n of them alone, n + 1 larger sets, and the combinations that
    could be smaller than the set that these leave. What it finds must not show without any change:
    a copy of the version in use is tried last.
    """
    found = yield from _search(groups)
    if not found.names:
        return found
    shown = yield _NOTHING
    return found if shown == "green" else Found(_NOTHING, without_any=shown)


def _search(groups: Sequence[Group]) -> Search:
    shown: Shown = "green"
    for group in groups:
        shown = yield group.names
        if shown == "red":
            return Found((yield from _divided(_NOTHING, group)))
    if len(groups) > 1:
        shown = yield _union(groups)
    if shown != "red":
        return Found(_NOTHING, shown)
    chosen = yield from _fewest(groups)
    found = _union(chosen)
    for group in chosen:
        others = _union(other for other in chosen if other is not group)
        kept = (found - group.names) | (others & found)
        found = kept | (yield from _divided(kept, group))
    return Found(found)


def _fewest(groups: Sequence[Group]) -> Generator[Names, Shown, Sequence[Group]]:
    """Return the fewest of these groups that are red together; all are, and none is alone."""
    green: list[Names] = []
    current = list(groups)
    for group in reversed(groups):
        rest = [other for other in current if other is not group]
        if len(rest) > 1 and (yield _union(rest)) == "red":
            current = rest
        else:
            green.append(_union(rest))
    for size in range(2, len(current)):
        for some in combinations(groups, size):
            names = _union(some)
            if not any(names <= known for known in green) and (yield names) == "red":
                return some
    return current


def _divided(background: Names, group: Group) -> _Step:
    """Return the part of a group that is red on top of a background; the whole group is.

    Few parts are tried one by one. Where none of them is red and one does not work without the
    others, they are not divided: to find which of them it needs would explain nothing.
    """
    if not group.parts:
        return group.names
    if len(group.parts) <= _FEW:
        seen: set[Shown] = set()
        for part in group.parts:
            shown = yield background | part.names
            if shown == "red":
                return (yield from _divided(background, part))
            seen.add(shown)
        if "unclear" in seen:
            return group.names
    return (yield from _quickxplain(background, group.parts, is_known=True))


def _quickxplain(background: Names, parts: Sequence[Group], *, is_known: bool) -> _Step:
    """Return what a background needs of some parts to be red. With all of them, it is.

    This is QuickXplain: it takes about 2 k log2(n / k) trials to find k of n parts.
    U. Junker, "QuickXplain: preferred explanations and relaxations for over-constrained problems",
    AAAI 2004.

    Args:
        background: What is changed anyway.
        parts: The parts to choose from.
        is_known: Whether the background is known not to be red by itself.
    """
    if not is_known and (yield background) == "red":
        return _NOTHING
    if len(parts) == 1:
        return (yield from _divided(background, parts[0]))
    first, second = _halves(parts)
    ours = _union(first)
    of_second = yield from _quickxplain(background | ours, second, is_known=False)
    base = background | of_second
    of_first = yield from _quickxplain(base, first, is_known=not of_second)
    return of_first | of_second


def _halves(parts: Sequence[Group]) -> tuple[Sequence[Group], Sequence[Group]]:
    middle = (len(parts) + 1) // 2
    return parts[:middle], parts[middle:]


def _union(groups: Iterable[Group]) -> Names:
    return _NOTHING.union(*(group.names for group in groups))


def as_causes(found: Names, groups: Sequence[Group]) -> Iterator[tuple[str, ...]]:
    """Yield the changes that were found, group by group, the head of each first."""
    left = set(found)
    related = [part for one in groups for part in (one.parts if one.is_bundle else (one,))]
    for group in sorted(related, key=lambda group: group.head not in found):
        if some := left & group.names:
            left -= some
            yield tuple(sorted(some, key=lambda name: (name != group.head, rank(name))))
