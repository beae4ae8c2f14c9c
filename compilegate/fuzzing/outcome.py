"""What the observer says about a program, in one word, and the symptom of one that fails."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from compilegate.judging.budget import Budget
from compilegate.judging.completeness import nothing_compiled
from compilegate.judging.judge import judge, proves_nothing
from compilegate.judging.rules import rules
from compilegate.records.call import Checked
from compilegate.records.case import Case
from compilegate.records.observation import Failure, Observation

#: What is judged of a program.
ASPECTS = ("forward", "gradients", "side_effects")

Word = Literal["passed", "failed", "inconclusive", "invalid", "not compiled"]
#: How compiled code is wrong.
Kind = Literal[
    "values", "integers", "layout", "gradients", "state", "raises", "raises not", "crash", "hang"
]
#: Kinds that show nothing to the user: compiled code returns, and what it returns is wrong.
SILENT: tuple[Kind, ...] = ("values", "integers", "layout", "gradients", "state")


@dataclass(frozen=True, kw_only=True)
class Symptom:
    """How a program fails.

    Attributes:
        kind: How compiled code is wrong.
        line: The complaint of the suite, or the error.
        what: For errors: their class and message, without names and numbers. For a process that
            exits by itself: with which status.
    """

    kind: Kind
    line: str
    what: str = ""

    def is_like(self, other: Symptom) -> bool:
        """Whether another symptom may have the same cause."""
        return (self.kind, self.what) == (other.kind, other.what)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a program.

    Attributes:
        word: *passed*; *failed*; *inconclusive*, if the oracle cannot tell; *invalid*, if eager
            raises; or *not compiled*.
        symptom: How it fails.
        why: Why it is invalid or inconclusive.
    """

    word: Word
    symptom: Symptom | None = None
    why: str = ""


def outcome_of(observation: Observation) -> Outcome:
    """Judge an observation by the suites' own rules."""
    failure = observation.failure
    if failure is not None:
        return _of_failure(observation, failure)
    if nothing_compiled(observation):
        return Outcome(word="not compiled")
    case = Case.parse(observation.case)
    unsure = ""
    for aspect, rule in rules():
        if aspect.name not in ASPECTS or not aspect.applies(case):
            continue
        verdict = judge(observation, Budget(), aspect.name, rule).verdict
        if verdict.outcome == "failed":
            lines = "\n".join((verdict.summary, *verdict.details))
            kind = _kind(observation, aspect.name, lines)
            if kind is None:
                return Outcome(word="invalid", why=verdict.summary)
            symptom = Symptom(kind=kind, line=verdict.summary)
            return Outcome(word="failed", symptom=symptom)
        if verdict.outcome == "inconclusive":
            unsure = unsure or verdict.summary
    if unsure:
        return Outcome(word="inconclusive", why=unsure)
    return Outcome(word="passed")


def _of_failure(observation: Observation, failure: Failure) -> Outcome:
    where = f"{observation.status} in stage {failure.stage}: {failure.kind}: {failure.message}"
    if proves_nothing(failure) or observation.status in ("out_of_memory", "unavailable"):
        return Outcome(word="inconclusive", why=where)
    if observation.status == "raised" and failure.call:
        what = f"{failure.kind}: {_general(failure.message)}"
        return Outcome(word="failed", symptom=Symptom(kind="raises", line=where, what=what))
    if observation.status in ("crashed", "timed_out") and failure.stage not in ("build", "eager"):
        if failure.stage == "start":
            return Outcome(word="inconclusive", why=where)
        kind: Kind = "crash" if observation.status == "crashed" else "hang"
        what = failure.message if failure.kind == "exit" else ""
        return Outcome(word="failed", symptom=Symptom(kind=kind, line=where, what=what))
    return Outcome(word="invalid", why=where)


def _kind(observation: Observation, aspect: str, lines: str) -> Kind | None:
    first = lines.partition("\n")[0]
    if "eager raises" in first or "compiled raises" in first:
        return "raises not"
    if aspect == "gradients":
        return "gradients"
    if aspect == "side_effects":
        return "state"
    found = [call.outputs for call in observation.calls]
    if not any(checked.errors or checked.differences for checked in found):
        return None
    whats = {difference.what for checked in found for difference in checked.differences}
    if whats & {"elements", "nonfinite"}:
        return "integers" if "elements" in whats else "values"
    return "layout" if whats and not _errs(found, lines) else "values"


def _errs(found: list[Checked], lines: str) -> bool:
    return any(f"{error.name} (" in lines for checked in found for error in checked.errors)


def _general(message: str) -> str:
    """Return the beginning of a message without names of variables, addresses and numbers."""
    first = message.partition("\n")[0]
    first = re.sub(r"'[^']*'|\"[^\"]*\"|/\S+|0x[0-9a-f]+", "_", first)
    first = re.sub(r"(?<==)\w+|\{[^}]*\}?", "_", first)
    return re.sub(r"\b[a-z]*_?\d+\b|\d+", "#", first)[:90]
