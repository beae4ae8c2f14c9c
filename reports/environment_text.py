"""All differences of two environments, in groups: those that decide, then the others."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compilegate.records import environment_changes
from compilegate.records.environment_changes import EnvironmentChange
from compilegate.upgrade.comparison import Comparison

#: Characters that the longest name of a group takes in text, with the space after it.
_NAME = len("configuration") + 2


@dataclass(frozen=True)
class ChangeGroup:
    """Differences of one kind.

    Attributes:
        name: The group: *software*, *libraries*, *variables*, *configuration* or *machine*.
        decides: Whether they can change what a case computes or costs.
        changes: The differences.
    """

    name: str
    decides: bool
    changes: tuple[EnvironmentChange, ...]


def groups(comparison: Comparison) -> list[ChangeGroup]:
    """Return the differences of the environments of two runs; groups that decide come first.

    Only torch itself is left out: it begins the headline.
    """
    sides = (comparison.baseline.environment, comparison.candidate.environment)
    found = [c for c in environment_changes.compare(*sides) if c.name != "torch"]
    keys = dict.fromkeys((change.weight != "shown", change.group) for change in found)
    return [
        ChangeGroup(
            group, decides, tuple(c for c in found if (c.weight != "shown", c.group) == key)
        )
        for key in sorted(keys, key=lambda key: not key[0])
        for decides, group in [key]
    ]


def lines(found: Sequence[ChangeGroup], width: int) -> Iterator[str]:
    """Yield differences as text, one a line; a longer one is wrapped."""
    for decides in (True, False):
        some = [group for group in found if group.decides is decides]
        if some:
            yield ""
            yield ("the environments differ in:" if decides else "and in what does not decide:")
        for group in some:
            name = group.name
            for change in group.changes:
                yield from textwrap.wrap(
                    str(change),
                    width,
                    initial_indent=f"  {name:<{_NAME}}",
                    subsequent_indent=" " * (_NAME + 4),
                )
                name = ""
