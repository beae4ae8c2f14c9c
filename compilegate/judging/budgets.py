"""Budgets: what a case is allowed, and which of its failures are expected.

Entries that match a case are merged key by key. For each key the later layer wins, the user's over
the shipped; within a layer the entry that names more axes, then the one with fewer globs, then the
one that names its hardware, and its host. Two entries that still tie are an error.
:mod:`compilegate.judging.budgets_toml` reads the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from compilegate.judging.budget import Budget
from compilegate.judging.expected_failure import ExpectedFailure
from compilegate.records.case import AXES, Case
from compilegate.records.environment import Environment

#: The properties by which an entry selects cases.
SELECTORS = ("model", *AXES)


class BudgetError(ValueError):
    """A mistake in a budgets file: file, line and what is expected."""


@dataclass(frozen=True)
class Machine:
    """What cases of one device run on; of an entry, globs on it. Empty where it is not known.

    Attributes:
        hardware: The name of the processor or GPU.
        host: The processor with its cores, as ``Environment.host`` gives it.
    """

    hardware: str = ""
    host: str = ""

    @classmethod
    def of(cls, environment: Environment | None, device: str) -> Machine:
        """The machine of an environment, for the cases of a device."""
        found = environment.device(device) if environment else None
        if environment is None or found is None:
            return cls()
        return cls(found.name, environment.host)

    def __str__(self) -> str:
        return " on ".join(part for part in (self.hardware, self.host) if part)


@dataclass(frozen=True)
class Entry:
    """One table of a budgets file.

    Attributes:
        selectors: Globs on the model and the axes.
        values: The thresholds and allowances, by key.
        machine: What the thresholds are for.
        layer: 0 for a shipped file; a later file of the user has a higher one.
        where: The file and the line.
        expected: The failure that it expects, in place of thresholds.
        models: The only models that it is for; None for all that its globs match.
    """

    selectors: Mapping[str, str]
    values: Mapping[str, Any]
    machine: Machine
    layer: int
    where: str
    expected: ExpectedFailure | None = None
    models: frozenset[str] | None = None

    def matches(self, case: Case) -> bool:
        """Whether every selector matches."""
        if self.models is not None and case.model not in self.models:
            return False
        return all(fnmatchcase(getattr(case, a), glob) for a, glob in self.selectors.items())

    def holds_on(self, machine: Machine) -> bool:
        """Whether its thresholds are for this hardware and this host."""
        pairs = (machine.hardware, self.machine.hardware), (machine.host, self.machine.host)
        return all(not glob or fnmatchcase(name, glob) for name, glob in pairs)

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """Later layers win, then more axes, then fewer globs, then naming hardware and host."""
        globs = sum(any(c in glob for c in "*?[") for glob in self.selectors.values())
        named = bool(self.machine.hardware) + bool(self.machine.host)
        return self.layer, len(self.selectors), -globs, named


@dataclass(frozen=True)
class Budgets:
    """All entries of all files."""

    entries: Sequence[Entry] = ()

    def budget(self, case: Case, machine: Machine, torch_version: str) -> Budget:
        """The budget of a case.

        Args:
            case: The case.
            machine: What it runs on.
            torch_version: Of the observed interpreter.

        Raises:
            BudgetError: Two entries tie.
        """
        matching = sorted((e for e in self.entries if e.matches(case)), key=lambda e: e.rank)
        holding = [entry for entry in matching if entry.holds_on(machine)]
        winners: dict[str, Entry] = {}
        for key in {key for entry in holding for key in entry.values}:
            *others, winner = (entry for entry in holding if key in entry.values)
            if others and others[-1].rank == winner.rank:
                raise BudgetError(
                    f"{winner.where}: {key} ties with {others[-1].where} for {case.id}: "
                    "name one more axis in one of them"
                )
            winners[key] = winner
        elsewhere = {key: str(entry.machine) for entry in matching for key in entry.values}
        expected = tuple(
            entry.expected
            for entry in matching
            if entry.expected is not None and entry.expected.holds_for(torch_version)
        )
        return replace(
            Budget(),
            **{key: entry.values[key] for key, entry in winners.items()},
            elsewhere={key: glob for key, glob in elsewhere.items() if key not in winners},
            expected_failures=expected,
        )

    def unmatched(self, cases: Sequence[Case]) -> Iterator[Entry]:
        """Entries that match none of the cases."""
        for entry in self.entries:
            if not any(entry.matches(case) for case in cases):
                yield entry
