"""A run file read case by case: an index of its lines is kept, their content is not.

Two runs of ten thousand cases would not fit into the memory of a small CI machine, so a case is
decoded when it is asked for, and only as slim records. As in :mod:`compilegate.runs.files`, the
last record of a case and aspect counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compilegate.records.attribution import Attribution
from compilegate.records.case import Case
from compilegate.records.observation import Observation
from compilegate.records.pair import Pair, latest
from compilegate.records.verdict import Verdict
from compilegate.runs.reader import Line, Reader, parse_case
from compilegate.runs.slim import SlimObservation, SlimVerdict, slim_observation, slim_verdict

#: By kind of record, what is decoded of it.
_SLIM: dict[str, type] = {
    "observation": SlimObservation,
    "verdict": SlimVerdict,
    "pair": Pair,
    "attribution": Attribution,
}


@dataclass(frozen=True)
class CaseRecord:
    """The records of one case in one run.

    Attributes:
        planned: Whether the run planned to observe it.
        observation: What was measured; None where the case was not observed.
        verdicts: By aspect.
    """

    planned: bool
    observation: SlimObservation | None = None
    verdicts: Mapping[str, SlimVerdict] = field(default_factory=dict)

    @classmethod
    def of(cls, observation: Observation, verdicts: Iterable[Verdict]) -> CaseRecord:
        """Return the records of a case in a session that is still running."""
        slim = {verdict.aspect: slim_verdict(verdict) for verdict in verdicts}
        return cls(True, slim_observation(observation), slim)


@dataclass(slots=True)
class _Span:
    """Adjacent lines about one case."""

    number: int
    offset: int
    length: int


class Archive(Reader):
    """A stored run, open for reading case by case. Use it as a context.

    All lines are read once when it is opened, so the attributes of :class:`Reader` are final.

    Raises:
        RunError: It does not exist, is no run file, or was written by a newer version.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._spans: dict[str, list[_Span]] = {}
        self._observed: set[str] = set()
        try:
            self._index()
        except BaseException:
            self.close()
            raise
        self._planned = frozenset(self.header.planned)

    @property
    def cases(self) -> Sequence[str]:
        """Every case that was planned, then any other that was observed."""
        observed = (case for case in self._spans if case in self._observed)
        return tuple(dict.fromkeys((*self.header.planned, *observed)))

    @property
    def missing(self) -> list[str]:
        """Planned cases that were not observed."""
        return [case for case in self.header.planned if not self.observed(case)]

    def parse(self, case: str) -> Case:
        """Return a case of the run, given its id.

        Raises:
            RunError: This version of compilegate has no such case.
        """
        spans = self._spans.get(case)
        return parse_case(self.path, spans[0].number if spans else 1, case)

    def observed(self, case: str) -> bool:
        """Whether the run holds an observation of a case."""
        return case in self._observed

    def seen(self, case: str) -> CaseRecord:
        """Return the records of a case.

        Raises:
            RunError: A line is no record of a run.
        """
        last: Line | None = None
        verdicts: dict[str, SlimVerdict] = {}
        for line in self._lines(case):
            if line.kind == "observation":
                last = line
            elif line.kind == "verdict":
                verdict = line.decode(SlimVerdict)
                verdicts[verdict.aspect] = verdict
        observation = last.decode(SlimObservation) if last else None
        planned = case in self._planned or observation is not None
        return CaseRecord(planned, observation, verdicts)

    def verdicts(self, case: str) -> Collection[Verdict]:
        """Return the complete verdicts on a case; of repeated ones only the last.

        Raises:
            RunError: A line is no record of a run.
        """
        lines = (line for line in self._lines(case) if line.kind == "verdict")
        verdicts = (line.decode(Verdict) for line in lines)
        return {verdict.aspect: verdict for verdict in verdicts}.values()

    def pairs(self, case: str) -> Collection[Pair]:
        """Return the pairs of processes that timed a case; of repeated ones only the last.

        Raises:
            RunError: A line is no record of a run.
        """
        pairs = (line.decode(Pair) for line in self._lines(case) if line.kind == "pair")
        return latest(pairs).values()

    def attribution(self, case: str) -> Attribution | None:
        """Return what makes a case worse; None if the run does not say.

        Raises:
            RunError: A line is no record of a run.
        """
        lines = [line for line in self._lines(case) if line.kind == "attribution"]
        return lines[-1].decode(Attribution) if lines else None

    def raw(self, case: str) -> Iterator[str]:
        """Yield the lines of a case as they are in the file."""
        return (line.text.decode() for line in self._lines(case))

    def check(self, case: str) -> None:
        """Decode the complete records of a case; everything else here decodes slim ones.

        Raises:
            RunError: A line is no record of a run.
        """
        for line in self._lines(case):
            line.record()

    def _lines(self, case: str) -> Iterator[Line]:
        for span in self._spans.get(case, ()):
            yield from self.at(span.offset, span.length, span.number)

    def _index(self) -> None:
        """Note the positions of each case's lines."""
        before, span = "", _Span(0, 0, 0)
        for line in self.lines():
            adjoins = line.offset == span.offset + span.length
            if line.case != before or not adjoins:
                before, span = line.case, _Span(line.number, line.offset, 0)
                self._spans.setdefault(line.case, []).append(span)
            span.length += len(line.text) + 1
            line.decode(_SLIM[line.kind])  # a damaged record is refused before anything is shown
            if line.kind == "observation":
                self._observed.add(line.case)
