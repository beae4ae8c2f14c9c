"""The baseline of a session: the results under the PyTorch in use, case by case.

``--baseline-run RUN`` names a stored run. A case of it that the session would select but no longer
has is *gone*, and fails. With ``--baseline-python`` the baseline is the other half of the pairs,
observed in this session.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from compilegate.records.case import Case, device_of
from compilegate.records.environment import Environment
from compilegate.records.run import Header
from compilegate.runs.archive import Archive, CaseRecord
from compilegate.upgrade import comparable
from compilegate.upgrade.case_comparison import CaseComparison, compare_case
from compilegate.upgrade.comparison import Comparison
from compilegate.upgrade.paired_baseline import PairedBaseline


class Baseline(ABC):
    """The results under the PyTorch in use, case by case.

    Attributes:
        gone: Cases that it has and the session lacks, although it would select them.
    """

    gone: Sequence[Case] = ()

    @abstractmethod
    def seen(self, case: Case) -> CaseRecord:
        """Return its records of a case."""

    #: Whether both sides of a case are observed in one session, in turns.
    is_paired: bool = False

    @abstractmethod
    def times_compare(self, case: Case, environment: Environment | None) -> bool:
        """Whether it ran on the machine that the session runs on."""

    @abstractmethod
    def compare(
        self, candidate: Header, cases: Iterable[str], found: Mapping[str, CaseComparison]
    ) -> Comparison:
        """Compare the session with it.

        Args:
            candidate: The session's header.
            cases: The cases to compare.
            found: The comparisons of the cases that were observed.
        """

    @abstractmethod
    def describe(self) -> str:
        """A line for the report's header."""

    def vanished(self, case: Case) -> CaseComparison:
        """Compare a case that the session did not observe."""
        return compare_case(case.id, self.seen(case), CaseRecord(planned=False))


class LiveBaseline(Baseline):
    """The other half of the pairs, observed in this session on this machine.

    Args:
        paired: The observations under the PyTorch in use.
    """

    is_paired = True

    def __init__(self, paired: PairedBaseline) -> None:
        self._paired = paired  # a live session observes the same cases under both: none is gone

    def seen(self, case: Case) -> CaseRecord:
        """Return the observation of a case, with the verdicts of the session's tests."""
        made = self._paired.observed.get(case.id)
        if made is None:
            return CaseRecord(planned=True)
        return CaseRecord.of(
            made, (v for (c, _), v in self._paired.verdicts.items() if c == case.id)
        )

    def times_compare(self, case: Case, environment: Environment | None) -> bool:
        """Return True: both ran on this machine."""
        return True

    def compare(
        self, candidate: Header, cases: Iterable[str], found: Mapping[str, CaseComparison]
    ) -> Comparison:
        """Compare the candidate with it."""
        asked = tuple(cases)
        compared = [
            found.get(case)
            or compare_case(
                case, self.seen(Case.parse(case)), CaseRecord(planned=True), paired=True
            )
            for case in asked
        ]
        candidate = replace(candidate, planned=asked)
        before = replace(candidate, environment=self._paired.environment)
        return Comparison(before, candidate, tuple(compared))

    def describe(self) -> str:
        """A line for the report's header."""
        return self._paired.describe()


class StoredBaseline(Baseline):
    """A stored run.

    Args:
        archive: The stored run.
        cases: The cases of the session.
        select: Returns the cases that the session would select.
        tier: The tier of the session, by device.
    """

    def __init__(
        self,
        archive: Archive,
        cases: Iterable[Case],
        select: Callable[[Iterable[Case]], list[Case]],
        tier: Mapping[str, str],
    ) -> None:
        self._archive = archive
        here = {case.id for case in cases}
        others = select(archive.parse(case_id) for case_id in archive.cases if case_id not in here)
        theirs = archive.header.tier
        of_tier = {device for device in tier if tier[device] == theirs.get(device)}
        self.gone = [case for case in others if case.device in of_tier]
        #: The number of its cases that only another tier has.
        self.of_other_tier = len(others) - len(self.gone)
        #: The number of its cases that the session does not select.
        self.unselected = len([c for c in archive.cases if c not in here]) - len(others)

    def seen(self, case: Case) -> CaseRecord:
        """Return its records of a case."""
        return self._archive.seen(case.id)

    def times_compare(self, case: Case, environment: Environment | None) -> bool:
        """Whether it ran on the machine that the session runs on."""
        return not self._machines(environment, case.device)

    def _machines(self, environment: Environment | None, device: str) -> str:
        if environment is None:
            return ""
        header = self._archive.header
        return comparable.machines_differ(header, replace(header, environment=environment), device)

    def compare(
        self, candidate: Header, cases: Iterable[str], found: Mapping[str, CaseComparison]
    ) -> Comparison:
        """Compare the session with it."""
        asked, planned = list(cases), set(candidate.planned)
        known = set(self._archive.cases)
        compared = [
            found.get(case)
            or compare_case(case, self._archive.seen(case), CaseRecord(planned=case in planned))
            for case in asked
        ]
        devices = {device_of(case) for case in asked}
        machines = (self._machines(candidate.environment, device) for device in sorted(devices))
        return Comparison(
            replace(self._archive.header, planned=tuple(c for c in asked if c in known)),
            replace(candidate, planned=tuple(c for c in asked if c in planned)),
            tuple(compared),
            "; ".join(filter(None, machines)),
            tuple(self._cautions(candidate)),
        )

    def _cautions(self, candidate: Header) -> Iterator[str]:
        yield from comparable.incomplete("baseline", self._archive)
        yield from comparable.revisions(self._archive.header, candidate)
        yield from comparable.unrecorded(self._archive.header, candidate)
        if self.of_other_tier:
            tiers = sorted({*self._archive.header.tier.values()})
            yield (
                f"the baseline is of the tier {' and '.join(tiers)}: {self.of_other_tier} of its "
                "cases are no part of this session"
            )
        if self.unselected:
            yield f"{self.unselected} cases of the baseline are not selected in this session"

    def describe(self) -> str:
        """A line for the report's header."""
        versions = self._archive.header.environment.versions
        observed = len(self._archive.cases) - len(self._archive.missing)
        return (
            f"compared with: {self._archive.path}, torch {versions.get('torch', '?')}, "
            f"{observed} cases observed"
        )
