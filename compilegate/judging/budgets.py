"""Budgets: what a case is allowed, and which of its failures are expected.

Entries that match a case are merged key by key. For each key the later layer wins, the user's over
the shipped; within a layer the entry that names more axes, then the one with fewer globs, then the
one that names its hardware. Two that still tie are an error. The files that hold them:
:mod:`compilegate.judging.budgets_toml`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from packaging.specifiers import SpecifierSet

from compilegate.records.case import AXES, Case

#: What an entry may name of the cases that it is for.
SELECTORS = ("model", *AXES)

#: The aspects, as the suites name them.
ASPECTS = (
    "forward",
    "gradients",
    "side_effects",
    "randomness",
    "graph_breaks",
    "recompiles",
    "cuda_graphs",
    "speedup",
    "compile_time",
    "memory",
    "energy",
    "upgrade",
)


class BudgetError(ValueError):
    """A mistake in a budgets file: file, line and what would be right."""


@dataclass(frozen=True)
class AllowedBreak:
    """A known graph break: its reason contains ``reason``, its file ends in ``place``."""

    reason: str = ""
    place: str = ""

    def __str__(self) -> str:
        return " at ".join(part for part in (self.reason or "any reason", self.place) if part)


@dataclass(frozen=True)
class Budget:
    """What a case is allowed.

    Attributes:
        graph_breaks: Graph breaks that are known, by reason and place.
        max_graph_breaks: Distinct graph breaks allowed besides.
        recompiles: Recompilations of one code object allowed besides those of the dynamic setting.
        recompile_guards: Parts of guards that are known to fail: such recompilations do not count.
        min_speedup: Least speedup over eager.
        max_call_overhead_us: Microseconds by which a compiled call may be slower whatever the
            ratio: guards and dispatch cost that much, which shows on models of a few kernels.
        max_compile_s: Most seconds of cold compile time.
        max_memory_ratio: Most peak memory over eager's.
        memory_slack_bytes: Bytes by which the peak may be higher whatever the ratio.
        max_energy_ratio: Most energy of a call over eager's.
        energy_slack_j: Joules by which a call may take more whatever the ratio.
        cudagraph_skips: Parts of known reasons for which CUDA graphs are not used.
        elsewhere: Thresholds for other hardware, which are not judged on this: key → its name.
        expected_failures: Failures that are expected.
    """

    graph_breaks: tuple[AllowedBreak, ...] = ()
    max_graph_breaks: int = 0
    recompiles: int = 0
    recompile_guards: tuple[str, ...] = ()
    min_speedup: float | None = None
    max_call_overhead_us: float = 0.0
    max_compile_s: float | None = None
    max_memory_ratio: float | None = None
    memory_slack_bytes: int = 0
    max_energy_ratio: float | None = None
    energy_slack_j: float = 0.0
    cudagraph_skips: tuple[str, ...] = ()
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    expected_failures: tuple[ExpectedFailure, ...] = ()

    def why_unjudged(self, key: str) -> str:
        """Why there is no threshold here."""
        other = self.elsewhere.get(key)
        return f"not judged, the threshold is for {other}" if other else "not judged, no threshold"


@dataclass(frozen=True)
class ExpectedFailure:
    """A failure that is known: of one aspect, or of all because a stage is not passed.

    Attributes:
        reason: Why.
        aspect: The aspect that fails.
        stage: The stage that is not passed, or ``crash`` for a process that dies.
        issue: Link to the bug.
        torch: Versions that have it, as ``>=2.10,<2.12``.
        match: A regular expression that everything found must match: another failure is none of it.
        strict: Whether passing is a failure too: false where it comes and goes, as with kernels
            that are chosen by timing them.
        where: File and line of the entry.
    """

    reason: str
    aspect: str = ""
    stage: str = ""
    issue: str = ""
    torch: str = ""
    match: str = ""
    strict: bool = True
    where: str = ""

    def holds_for(self, version: str) -> bool:
        """Whether a torch version is in the range."""
        return SpecifierSet(self.torch).contains(version.partition("+")[0], prereleases=True)


@dataclass(frozen=True)
class Entry:
    """One table of a budgets file."""

    selectors: Mapping[str, str]
    values: Mapping[str, Any]
    hardware: str
    layer: int
    where: str
    expected: ExpectedFailure | None = None

    def matches(self, case: Case) -> bool:
        """Whether every selector matches."""
        return all(fnmatchcase(getattr(case, a), glob) for a, glob in self.selectors.items())

    def holds_on(self, hardware: str) -> bool:
        """Whether its thresholds are for this hardware."""
        return not self.hardware or fnmatchcase(hardware, self.hardware)

    @property
    def rank(self) -> tuple[int, int, int, bool]:
        """Later layers win, then more axes named, then fewer globs, then naming hardware."""
        globs = sum(any(c in glob for c in "*?[") for glob in self.selectors.values())
        return self.layer, len(self.selectors), -globs, bool(self.hardware)


@dataclass(frozen=True)
class Budgets:
    """All entries of all files."""

    entries: Sequence[Entry] = ()

    def budget(self, case: Case, hardware: str, torch_version: str) -> Budget:
        """The budget of a case.

        Args:
            case: The case.
            hardware: Name of its processor or GPU.
            torch_version: Of the observed interpreter.

        Raises:
            BudgetError: Two entries tie.
        """
        matching = sorted((e for e in self.entries if e.matches(case)), key=lambda e: e.rank)
        holding = [entry for entry in matching if entry.holds_on(hardware)]
        winners: dict[str, Entry] = {}
        for key in {key for entry in holding for key in entry.values}:
            *others, winner = (entry for entry in holding if key in entry.values)
            if others and others[-1].rank == winner.rank:
                raise BudgetError(
                    f"{winner.where}: {key} ties with {others[-1].where} for {case.id}: "
                    "name one more axis in one of them"
                )
            winners[key] = winner
        elsewhere = {key: entry.hardware for entry in matching for key in entry.values}
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
