"""What a session is held against: what it holds of each case, and what it lacks.

``--baseline-run RUN`` names a stored run. Its cases are those that the session selects; one that
the session does not have any more is *gone*, and fails. With ``--baseline-python`` it is the other
half of pairs, observed in this session.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from compilegate.records.case import Case, device_of
from compilegate.records.environment import Environment
from compilegate.records.run import Header
from compilegate.runs.archive import Archive, Seen
from compilegate.upgrade import comparable
from compilegate.upgrade.comparison import CaseComparison, Comparison, compare_case
from compilegate.upgrade.paired_baseline import PairedBaseline


class Before(ABC):
    """What is in use, case by case.

    Attributes:
        gone: Cases that it has and the session has not, though it would select them.
    """

    gone: Sequence[Case] = ()

    @abstractmethod
    def seen(self, case: Case) -> Seen:
        """What it holds of a case."""

    @abstractmethod
    def times_compare(self, case: Case, environment: Environment | None) -> bool:
        """Whether it ran on the machine that the session runs on."""

    @abstractmethod
    def compare(
        self, candidate: Header, cases: Iterable[str], found: Mapping[str, CaseComparison]
    ) -> Comparison:
        """The session held against it.

        Args:
            candidate: The session's header.
            cases: The cases that were to be compared.
            found: What was found, by case; the others were not observed.
        """

    @abstractmethod
    def describe(self) -> str:
        """A line for the report's header."""

    def vanished(self, case: Case) -> CaseComparison:
        """What becomes of a case that the session did not observe."""
        return compare_case(case.id, self.seen(case), Seen(planned=False))


class LiveBaseline(Before):
    """The other half of pairs: observed in this session, on this machine.

    Args:
        paired: What is observed under the PyTorch in use.
    """

    def __init__(self, paired: PairedBaseline) -> None:
        self._paired = paired  # a live session observes the same cases under both: none is gone

    def seen(self, case: Case) -> Seen:
        """What was observed of a case, judged as far as the session's tests did."""
        made = self._paired.observed.get(case.id)
        if made is None:
            return Seen(planned=True)
        return Seen.of(made, (v for (c, _), v in self._paired.verdicts.items() if c == case.id))

    def times_compare(self, case: Case, environment: Environment | None) -> bool:
        """One machine; but times of one pair are indicative: pairs judge speed."""
        return True

    def compare(
        self, candidate: Header, cases: Iterable[str], found: Mapping[str, CaseComparison]
    ) -> Comparison:
        """The candidate held against it."""
        asked = tuple(cases)
        compared = [
            found.get(case) or compare_case(case, self.seen(Case.parse(case)), Seen(planned=True))
            for case in asked
        ]
        candidate = replace(candidate, planned=asked)
        before = replace(candidate, environment=self._paired.environment)
        return Comparison(before, candidate, tuple(compared))

    def describe(self) -> str:
        """A line for the report's header."""
        return self._paired.describe()


class StoredBaseline(Before):
    """What was observed before.

    Args:
        archive: The stored run.
        cases: Those of the session.
        select: What the session would select of others, by id.
        tier: Of the session, by device.
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
        others = select(Case.parse(case_id) for case_id in archive.cases if case_id not in here)
        theirs = archive.header.tier
        of_tier = {device for device in tier if tier[device] == theirs.get(device)}
        self.gone = [case for case in others if case.device in of_tier]
        #: How many it has besides because its tier is another one.
        self.of_other_tier = len(others) - len(self.gone)
        #: How many it has besides that the session does not select.
        self.unselected = len([c for c in archive.cases if c not in here]) - len(others)

    def seen(self, case: Case) -> Seen:
        """What it holds of a case."""
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
        """The session held against it."""
        asked, planned = list(cases), set(candidate.planned)
        known = set(self._archive.cases)
        compared = [
            found.get(case)
            or compare_case(case, self._archive.seen(case), Seen(planned=case in planned))
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
            f"held against: {self._archive.path}, torch {versions.get('torch', '?')}, "
            f"{observed} cases observed"
        )
