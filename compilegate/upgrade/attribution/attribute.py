"""Attributes cases that are worse to what changed, by trying environments between two.

The searches of all cases advance together: an environment is made once for all cases that ask for
it. This module decides what to try and words the result; what it is given makes the environments
and observes in them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from compilegate.records.attribution import Attribution, Cause, DistributionChange
from compilegate.upgrade.attribution.groups import Group
from compilegate.upgrade.attribution.search import Found, Names, Search, Shown, as_causes, search
from compilegate.upgrade.case_comparison import CaseComparison

#: Environments that are tried at most. Each costs an import of torch, and the cases to observe.
LIMIT = 24


@dataclass(frozen=True)
class Tried:
    """The result of trying an environment.

    Attributes:
        shown: What each case showed.
        python: The environment's interpreter; empty if it could not be made.
        trouble: Why it could not be made or used; empty if it could.
    """

    shown: Mapping[str, Shown]
    python: str = ""
    trouble: str = ""


#: Tries the environment with some changes on some cases.
Try = Callable[[Names, Sequence[str]], Tried]


@dataclass
class _CaseSearch:
    """The search for one case: what it asks for next, and what it has seen."""

    item: CaseComparison
    search: Search
    wants: Names = frozenset()
    seen: dict[Names, Shown] = field(default_factory=dict)


def attribute(
    red: Sequence[CaseComparison],
    groups: Sequence[Group],
    changes: Mapping[str, DistributionChange],
    try_: Try,
    *,
    otherwise: str = "",
    limit: int = LIMIT,
) -> Iterator[Attribution]:
    """Yield what makes each case worse, as soon as it is known.

    Args:
        red: The cases that are worse.
        groups: The groups of changes to try; see :func:`groups_of`.
        changes: The distributions that differ, by name.
        try_: Tries an environment.
        otherwise: What else differs between the two environments: ``python 3.11.9 → 3.12.4``.
        limit: Environments that are tried at most.
    """
    words = _Words(groups, changes, otherwise)
    if not groups:
        yield from (words.unexplained(item, words.nothing_differs) for item in red)
        return
    tried: dict[Names, list[Tried]] = {}
    waiting: list[_CaseSearch] = []
    for item in red:
        begun = _CaseSearch(item, search(groups))
        begun.wants = next(begun.search)
        waiting.append(begun)
    while waiting:
        for case in list(waiting):
            if found := _advance(case):
                waiting.remove(case)
                yield words.attribution(case, found, tried)
        if not waiting:
            return
        wants = _next(waiting)
        if wants not in tried and len(tried) == limit:
            why = f"not found in {limit} environments, the most that are tried"
            yield from (words.unexplained(case.item, why, len(case.seen)) for case in waiting)
            return
        asking = [case for case in waiting if case.wants == wants]
        result = try_(wants, [case.item.case for case in asking])
        tried.setdefault(wants, []).append(result)
        for case in asking:
            case.seen[wants] = result.shown.get(case.item.case, "unclear")


def _advance(case: _CaseSearch) -> Found | None:
    """Give a search what the case has shown so far; return its result once it has one."""
    while case.wants in case.seen:
        try:
            case.wants = case.search.send(case.seen[case.wants])
        except StopIteration as stop:
            found: Found = stop.value
            return found
    return None


def _next(waiting: Sequence[_CaseSearch]) -> Names:
    """Return the changes that most cases ask for; of equals, those of the first case."""
    (wants, _), *_ = Counter(case.wants for case in waiting).most_common(1)
    return wants


@dataclass(frozen=True)
class _Words:
    """Words the results of searches."""

    groups: Sequence[Group]
    changes: Mapping[str, DistributionChange]
    otherwise: str

    @property
    def nothing_differs(self) -> str:
        other = f"; what differs: {self.otherwise}" if self.otherwise else ""
        return f"no installed distribution differs{other}"

    def attribution(
        self, case: _CaseSearch, found: Found, tried: Mapping[Names, Sequence[Tried]]
    ) -> Attribution:
        if not found.names:
            return self.unexplained(case.item, self._why(case, found, tried), len(case.seen))
        causes = tuple(
            Cause(changes=tuple(self.changes[name] for name in names))
            for names in as_causes(found.names, self.groups)
        )
        made = tried.get(found.names, ())
        return Attribution(
            case=case.item.case,
            kind=case.item.kind,
            aspect=_aspect(case.item),
            causes=causes,
            environments=len(case.seen),
            python=made[0].python if made else "",
        )

    def unexplained(self, item: CaseComparison, why: str, environments: int = 0) -> Attribution:
        return Attribution(
            case=item.case,
            kind=item.kind,
            aspect=_aspect(item),
            why=why,
            environments=environments,
        )

    def _why(self, case: _CaseSearch, found: Found, tried: Mapping[Names, Sequence[Tried]]) -> str:
        if found.without_any == "red":
            return "it is as bad in a copy of the version in use: it does not repeat reliably"
        if found.without_any == "unclear":
            return f"a copy of the version in use does not settle it{_trouble(tried, frozenset())}"
        everything = frozenset[str]().union(*(group.names for group in self.groups))
        if found.with_all == "unclear":
            trouble = _trouble(tried, everything)
            return f"the version in use with all changed distributions does not settle it{trouble}"
        other = f": {self.otherwise}" if self.otherwise else ", such as a variable"
        return (
            "it does not show in the version in use with all changed distributions: it does not "
            f"repeat reliably, or the cause is no distribution{other}"
        )


def _trouble(tried: Mapping[Names, Sequence[Tried]], names: Names) -> str:
    found = next((result.trouble for result in tried.get(names, ()) if result.trouble), "")
    return f": {found}" if found else ""


def _aspect(item: CaseComparison) -> str:
    return item.decisive.aspect if item.decisive else ""
