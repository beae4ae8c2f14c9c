"""Causes: what triage found of culprits tells which of them are one.

A run shows which outputs are wrong, and no operator. So models of two families are two culprits,
until triage finds the same operator in both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from compilegate.culprits.grouping import Culprit
from compilegate.fuzzing.program import Program
from compilegate.triage.findings import NUMBER, Findings
from compilegate.triage.scripts.programs import of_one_operator
from compilegate.triage.search.suspect import Suspect
from compilegate.triage.search.trials import Trials

#: Words in quotes in a statement: ``approximate='tanh'`` is other code than ``'none'``.
_OPTION = re.compile(r"'(\w+)'")
#: The stages in which there is no bisection.
_UNBISECTED = ("Dynamo", "AOTAutograd", "partitioning")
#: Inductor's name of a pass that replaces many patterns, one of which may be wrong.
_MANY_PATTERNS = re.compile(r"\b(pass_pattern_\d+|joint_graph_passes)$")


@dataclass(frozen=True)
class Cause:
    """What tells a cause from others, as far as triage found it.

    Attributes:
        stage: The part of the compiler; empty where that is undecided.
        failing: What fails: the aspect, or how the case ended; and whether that is expected.
        model: The model of the case.
        operator: The operator that fails alone; empty if none.
        options: The words among its arguments; None where they are not known.
        kind: The class of the submodule that fails alone; empty for the whole model.
        line: The first line whose result in a graph is wrong; empty if it is not known.
        named: The pass, lowering or decomposition that the bisection named; empty if none.
        pattern: The pattern that this pass replaces; empty if it is not one alone.
        script: The verified script of a recompilation, without its title; empty if there is none.
    """

    stage: str
    failing: tuple[str, ...]
    model: str = ""
    operator: str = ""
    options: tuple[str, ...] | None = None
    kind: str = ""
    line: str = ""
    named: str = ""
    pattern: str = ""
    script: str = ""

    def is_that_of(self, other: Cause) -> bool:
        """Whether two culprits have this cause: the same operator fails alone at the same stage.

        Where that is not known of one of them, the bisection must name the same. Where it names two
        different passes, lowerings or decompositions, the causes differ. Before decompositions
        there is no bisection: one line of code must be wrong first, or submodules of one class must
        fail alone, as where the bisection names many patterns at once. Two guards that one script
        shows are one cause. In one model, a line that is wrong first may show in several aspects.
        """
        if not self.stage or self.stage != other.stage:
            return False
        if self.failing != other.failing:
            return self._shows_at_the_line_of(other)
        if self.script and self.script == other.script:
            return True
        return not self._contradicts(other) and self._shares_evidence_with(other)

    def _shows_at_the_line_of(self, other: Cause) -> bool:
        """Whether other aspects of the same model fail, and the same line is wrong first."""
        is_same = (self.model, self.line, self.failing[1:]) == (
            *(other.model, other.line, other.failing[1:]),
        )
        return is_same and bool(self.line) and self.stage in _UNBISECTED

    def _contradicts(self, other: Cause) -> bool:
        """Whether something is known of both that differs."""
        known = (
            (self.named or None, other.named or None),
            (self.pattern or None, other.pattern or None),
            (self.options, other.options),
            (self.operator or None, other.operator or None),
        )
        return any(None not in pair and pair[0] != pair[1] for pair in known)

    def _shares_evidence_with(self, other: Cause) -> bool:
        """Whether both have an operator, what the bisection names, a class or a line."""
        if self.operator and other.operator:
            return True
        is_bisected = bool(self.named and other.named)
        has_pattern = self.pattern and self.pattern == other.pattern
        if is_bisected and (has_pattern or not _MANY_PATTERNS.search(self.named)):
            return True
        if self.operator or other.operator or not (is_bisected or self.stage in _UNBISECTED):
            return False
        shared = ((self.kind, other.kind), (self.line, other.line))
        return any(own and own == theirs for own, theirs in shared)


def cause_of(suspect: Suspect, findings: Findings) -> Cause:
    """Return the cause of a culprit.

    Args:
        suspect: The case that stands for it.
        findings: What triage found.
    """
    failure, stage = suspect.observation.failure, findings.stage
    failing: tuple[str, ...] = (suspect.verdict.aspect,)
    if failure is not None:
        failing = (suspect.observation.status, failure.kind)
    failing += ("expected",) * suspect.culprit.is_expected
    program = findings.script.program if findings.script else None
    return Cause(
        stage=stage.name if stage.backend and stage.is_confirmed else "",
        failing=failing,
        model=suspect.case.model,
        operator=_name(findings.place.operator),
        options=_options(program) if program and findings.place.operator else None,
        kind=findings.place.kind,
        line=findings.wrong_line,
        named=_named(findings),
        pattern=findings.pattern,
        script=_script(suspect, findings),
    )


def _script(suspect: Suspect, findings: Findings) -> str:
    script, verified = findings.script, findings.verified
    if suspect.verdict.aspect != "recompiles" or script is None or verified is None:
        return ""
    return script.text.partition("\n")[2] if verified.holds else ""


def _name(operator: str) -> str:
    """Return the name of an operator, which is the same where it works in place."""
    return {"truediv": "div"}.get(operator, operator.rstrip("_"))


def _options(program: Program) -> tuple[str, ...]:
    """Return the words among the arguments of the operators of a program."""
    words = (word for one in program.statements for word in _OPTION.findall(one.text))
    return tuple(sorted({*words}))


def recognise(
    trials: Trials, findings: Findings, program: Program, earlier: Sequence[Cause]
) -> bool:
    """Look for the causes of earlier culprits among the operators of a model.

    Inductor is left out: there the bisection must tell causes of one operator apart.

    Args:
        trials: Observes programs.
        findings: The stage. They receive the operator.
        program: What the model computes.
        earlier: The causes of earlier culprits.

    Returns:
        Whether an operator fails alone, as it does in an earlier culprit.

    Raises:
        OutOfTimeError: The time for the culprit is over.
    """
    alone = of_one_operator(program)
    for cause in earlier:
        here = cause_of(trials.suspect, findings)
        found = [
            one
            for one in alone
            if cause.operator == _name(one.statements[0].operator)
            and cause.options in (None, _options(one))
            and replace(here, operator=cause.operator).is_that_of(cause)
        ]
        for one, symptom in zip(found, trials.symptoms(found), strict=True):
            if symptom is not None:
                findings.place.name_operator(one.statements[0])
                return True
    return False


def _named(findings: Findings) -> str:
    if own := findings.guilty:  # several passes of a team may have one hook
        return f"{own.kind}: {own.name} ({own.source})"
    found = findings.bisected
    what = str(found.get("what") or "")
    if found.get("subsystem") == "lowerings":
        what = NUMBER.sub("", what)
    return f"{found['subsystem']}: {what}" if what else ""


def known_entries(culprit: Culprit, issue: str, report: str = "") -> Iterator[str]:
    """Yield entries of a file of known culprits, which join in reports what triage joined.

    Args:
        culprit: The culprit.
        issue: What names it.
        report: Its report, from the folder of the file; empty for none.
    """
    cases: dict[tuple[str, str], list[str]] = {}
    for case, aspect, match in culprit.failures:
        cases.setdefault((aspect, match), []).append(case)
    for (aspect, match), found in cases.items():
        fields = {"issue": issue, "aspect": aspect, "cases": found, "match": match}
        fields |= {"workaround": culprit.workaround, "report": report}
        # JSON writes texts and lists as TOML does.
        pairs = ((name, json.dumps(it, ensure_ascii=False)) for name, it in fields.items() if it)
        yield "\n".join(["[[known]]", *map(" = ".join, pairs), "\n"])
