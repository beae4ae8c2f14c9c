"""Culprits: failures of one cause, however many cases and aspects show it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from compilegate.culprits.evidence import AT_ONCE, LATER, Evidence, Key, evidence
from compilegate.culprits.known import WORKAROUND, Known
from compilegate.judging.aspects import ASPECTS, aspect_named
from compilegate.records.case import computes_in_half, model_of
from compilegate.records.observation import Observation
from compilegate.records.verdict import Verdict

#: The summary of an expected failure begins with its reason and the issue.
_EXPECTED = re.compile(r"(?P<title>.*? \(https?://[^\s)]+\)): ")
#: A model of the zoo that is a known bug is named after its issue.
_KNOWN_BUG = re.compile(r"gh(\d+)_")
_ISSUES = "https://github.com/pytorch/pytorch/issues/"


#: The outcomes of verdicts that failed.
FAILED = ("failed", "expected_failure")

#: All cases.
ANY = "*"
#: How the name of a culprit begins that nobody but triage knows.
TRIAGED = "triage found "
#: How many cases of a culprit are named.
SHOWN = 3


class Failure(NamedTuple):
    """A verdict that failed, whether that was expected or not.

    Attributes:
        observation: The case.
        verdict: The verdict on one of its aspects, with its details.
    """

    observation: Observation
    verdict: Verdict

    @property
    def is_expected(self) -> bool:
        """Whether a budget expects it."""
        return self.verdict.outcome == "expected_failure"

    @property
    def reason(self) -> str:
        """Of an expected failure: the reason and the issue; empty where there is no issue."""
        found = _EXPECTED.match(self.verdict.summary)
        return found["title"] if found else ""


@dataclass
class Culprit:
    """One cause of failures.

    Attributes:
        key: What tells it from other causes; equal from run to run.
        text: What the first case shows.
        aspect: The aspect in which that shows; empty where the whole case failed.
        cases: The cases that show it.
        aspects: The aspects in which any of them fails because of it.
        known: Who reports it, with workarounds; empty where nobody is known to.
        is_expected: Whether all of its failures are expected.
        report: The path of the report of a triage; empty for none.
        failures: Each failure that it causes: the case, the aspect, and a regular expression that
            lines of the verdict match which show it. The aspect is empty where any may show it, and
            the case is ``*`` where the expression names a place, so that no other cause matches.
    """

    key: Key
    text: str
    aspect: str
    cases: list[str] = field(default_factory=list)
    aspects: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    is_expected: bool = False
    report: str = ""
    failures: list[tuple[str, str, str]] = field(default_factory=list)

    def __str__(self) -> str:
        """Where and what it is, who knows it, and its first cases."""
        where = f"{self.aspect}: " if self.aspect else ""
        return f"{where}{self.labelled} ({folded(self.cases)})"

    @property
    def labelled(self) -> str:
        """Its text and what is known of it, a team's own words first: lines are cut."""
        names = [name for name in self.known if name not in self.text]
        known = "" if self.issue.startswith(TRIAGED) else "known: "
        label = f"[{known}{'; '.join(names)}]" if names else ""
        return " ".join(filter(None, (label, self.text) if self.issue else (self.text, label)))

    @property
    def workaround(self) -> str:
        """What a team's file says that helps; empty if it says nothing."""
        titles = (name.partition(WORKAROUND) for name in self.known)
        return next((helps for issue, _, helps in titles if issue == self.issue), "")

    def add(self, verdict: Verdict, known: Iterable[str], shows: Evidence | None = None) -> None:
        """Add a failure that it causes, and what is known of it.

        Args:
            verdict: The verdict that failed.
            known: What is known of it.
            shows: The evidence in the verdict; None if only the aspect tells it.
        """
        match = shows.match if shows else ""
        aspect = shows.aspect if shows and (match or _is_of_case(shows)) else verdict.aspect
        pairs = ((self.cases, [verdict.case]), (self.aspects, [verdict.aspect]))
        for found, names in (*pairs, (self.known, known)):
            found += [name for name in names if name and name not in found]
        case = ANY if shows and match and shows.is_specific else verdict.case
        if (one := (case, aspect, match)) not in self.failures:
            self.failures.append(one)

    @property
    def issue(self) -> str:
        """The issue by which a team's file knows it; empty if none does."""
        return self.key[1] if self.key[0] == "known" else ""

    def joined(self, other: Culprit) -> Culprit:
        """Return one culprit for two that have one cause, with the text of the first."""
        both: dict[str, Any] = {
            name: [*dict.fromkeys((*getattr(self, name), *getattr(other, name)))]
            for name in ("cases", "aspects", "known", "failures")
        }
        return replace(self, key=other.key if other.issue else self.key, **both)


def folded(cases: Sequence[str]) -> str:
    """Return the first cases of many, and how many more there are."""
    more = len(cases) - SHOWN
    return f"{', '.join(cases[:SHOWN])}{f' and {more} more' if more > 0 else ''}"


def in_order(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return verdicts in the order of their aspects: outputs first, which explain others.

    What only probing calls show is last: a user makes the other calls.
    """
    ranks = {name: rank for rank, name in enumerate(ASPECTS)}
    return sorted(
        verdicts,
        key=lambda v: (v.summary.startswith("probing call"), ranks.get(v.aspect, len(ranks))),
    )


def culprits(failures: Iterable[Failure], known: Sequence[Known] = ()) -> list[Culprit]:
    """Return the culprits of failed verdicts: unexpected ones first, then by their cases.

    Failures have one culprit if their evidence is equal (:mod:`compilegate.culprits.evidence`), or
    if one entry names them. Where the outputs of a case have wrong numbers, wrong numbers in its
    gradients, buffers and practices have that culprit, too, also where an entry names the outputs.
    Outputs that are wrong in later calls alone have that of state that is wrong before.

    Args:
        failures: Verdicts that failed, in the order of the run and of the aspects. Expected ones
            name the culprits that they share evidence with.
        known: What a team knows.
    """
    pieces = [(failure, evidence(*failure)) for failure in failures]
    red = [(failure, found) for failure, found in pieces if not failure.is_expected]
    expected = [(failure, found) for failure, found in pieces if failure.is_expected]
    reported = {piece.key: failure.reason for failure, found in expected for piece in found}
    made: dict[Key, Culprit] = {}
    named: dict[Key, Known] = {}
    several = {id(failure.verdict) for failure, found in red if len(found) > 1}
    for failure, own, before in _explained(red):
        lines = own.lines if id(failure.verdict) in several else ()
        entry = next((one for one in known if _claims(one, failure.verdict, own, lines)), None)
        if entry is not None:
            named.setdefault(own.key, entry)
        elif before is not own:
            entry = named.get(before.key)
        piece = own if entry else before
        key = ("known", entry.issue) if entry else piece.key
        culprit = made.setdefault(key, Culprit(key, piece.text, piece.aspect))
        culprit.report = culprit.report or (entry.report if entry else "")
        alike = f"expected of other cases: {seen}" if (seen := reported.get(piece.key)) else ""
        title = entry.title if entry else ""
        issue = issue_of(model_of(failure.verdict.case))
        names = (title, alike, f"the model reproduces {issue}" if issue else "")
        culprit.add(failure.verdict, names, own)
    for failure, found in expected:
        key = ("expected", failure.reason) if failure.reason else ("expected", *found[0].key)
        culprit = made.setdefault(key, Culprit(key, found[0].text, found[0].aspect))
        culprit.is_expected = True
        culprit.add(failure.verdict, [failure.reason])
    return sorted(made.values(), key=lambda one: (one.is_expected, -len(one.cases)))


def _claims(entry: Known, verdict: Verdict, own: Evidence, lines: Sequence[str]) -> bool:
    """Whether an entry names a failure; one with an aspect claims failures of that aspect alone."""
    return not (entry.aspect and _is_of_case(own)) and entry.names(verdict, lines)


def _is_of_case(piece: Evidence) -> bool:
    """Whether a case ended early, so that it fails in no aspect of its own."""
    return not piece.aspect and not piece.is_uncompiled


def _explained(
    failures: Sequence[tuple[Failure, Sequence[Evidence]]],
) -> Iterator[tuple[Failure, Evidence, Evidence]]:
    """Yield each failure with each piece of its evidence, and what explains that: often itself.

    In half precision, noise may hide a wrong output, or the first of them, that another case of the
    model shows. What only probing calls show does not explain what a user's calls show. State that
    is wrong from the first call on explains outputs that are wrong in later calls, which read it.
    """
    state = {
        failure.verdict.case: found[0]
        for failure, found in failures
        if failure.verdict.aspect == "side_effects" and AT_ONCE in found[0].key
    }
    plain: dict[str, Evidence] = {}
    for failure, found in failures:
        if _is_plain(failure, found[0]):
            plain.setdefault(failure.verdict.case, found[0])
    outputs: dict[str, Evidence] = {}
    exact: dict[str, Evidence] = {}
    for failure, found in failures:
        case = failure.verdict.case
        is_first = not found[0].is_probing or case not in plain
        if failure.verdict.aspect == "forward" and found[0].is_of_numbers and is_first:
            first = state.get(case, found[0]) if LATER in found[0].key else found[0]
            outputs.setdefault(case, first)
            outputs.setdefault(model_of(case), first)
            if not computes_in_half(case):
                exact.setdefault(model_of(case), first)
    gradients: dict[str, Evidence] = {}
    for failure, found in failures:
        case, aspect = failure.verdict.case, failure.verdict.aspect
        clear = exact.get(model_of(case)) if computes_in_half(case) else None
        before = clear or outputs.get(case)
        if computes_in_half(case):
            before = before or outputs.get(model_of(case))
        for piece in found:
            shown = plain.get(case) if piece.is_probing else None
            if piece.is_of_numbers and aspect == "gradients":
                gradients.setdefault(case, before or shown or piece)
            explains = before or gradients.get(case)
            if aspect == "forward":
                explains = clear or (before if before in state.values() else None)
            yield failure, piece, (explains or shown or piece) if piece.is_of_numbers else piece


def _is_plain(failure: Failure, piece: Evidence) -> bool:
    """Whether a call that is no probing call has wrong numbers."""
    tensors = aspect_named(failure.verdict.aspect).tensors
    return bool(tensors) and piece.is_of_numbers and not piece.is_probing


def issue_of(model: str) -> str:
    """Return the address of the issue that a model of the zoo is named after; empty for none."""
    found = _KNOWN_BUG.match(model)
    return f"{_ISSUES}{found[1]}" if found else ""


def counted(found: Sequence[Culprit]) -> str:
    """Return how many culprits fail unexpectedly, in how many cases; empty where none does."""
    red = [culprit for culprit in found if not culprit.is_expected]
    cases = len({case for culprit in red for case in culprit.cases})
    if not red:
        return ""
    return f"{len(red)} culprit{'s' * (len(red) != 1)} in {cases} case{'s' * (cases != 1)}"
