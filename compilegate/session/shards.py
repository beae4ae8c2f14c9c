"""Divides the cases of a session into shards that take about as long as each other.

Every machine computes the same division from the same zoo, options and earlier run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from compilegate.records.case import Case


@dataclass(frozen=True)
class Shard:
    """One of several shards.

    Attributes:
        number: Its number, from 1.
        count: The number of shards.
    """

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Parse ``2/4``.

        Raises:
            ValueError: The text is no such number. The message says what is expected.
        """
        found = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text, re.ASCII)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise ValueError(f"--shard {text}: expected I/N with I from 1 to N, for instance 2/4")
        return cls(int(found[1]), int(found[2]))

    @property
    def is_first(self) -> bool:
        """Whether it is the first one."""
        return self.number == 1

    def of(self, cases: Sequence[Case], seconds: Callable[[Case], float]) -> list[Case]:
        """Return its part of the cases: see :func:`divide`."""
        return divide(cases, self.count, seconds)[self.number - 1]


def divide(cases: Sequence[Case], count: int, seconds: Callable[[Case], float]) -> list[list[Case]]:
    """Divide cases into shards.

    The cases of a model share a process, so they stay together. Only a model that takes longer than
    a shard should is divided. The longest part goes first to the shard that has least to do.

    Args:
        cases: The cases.
        count: The number of shards.
        seconds: Returns how long a case takes.

    Returns:
        The cases of each shard, in the order given. A shard may be empty.
    """
    share_s = sum(map(seconds, cases)) / count
    models: dict[str, list[Case]] = {}
    for case in cases:
        models.setdefault(case.model, []).append(case)
    parts = [part for some in models.values() for part in _parts(some, share_s, seconds)]
    loads, shard_of = [0.0] * count, dict[str, int]()
    for part in sorted(parts, key=lambda part: (-sum(map(seconds, part)), part[0].id)):
        least = loads.index(min(loads))
        loads[least] += sum(map(seconds, part))
        shard_of.update((case.id, least) for case in part)
    return [[case for case in cases if shard_of[case.id] == index] for index in range(count)]


def _parts(
    cases: Sequence[Case], share_s: float, seconds: Callable[[Case], float]
) -> list[list[Case]]:
    """Return the cases of a model whole, or else in parts no longer than a share or one case."""
    parts, part_s = [list[Case]()], 0.0
    for case in sorted(cases, key=lambda case: case.id):
        if parts[-1] and part_s + seconds(case) > share_s:
            parts.append([])
            part_s = 0.0
        parts[-1].append(case)
        part_s += seconds(case)
    return parts
