"""Turns an observation and a budget into a verdict: the part that all aspects share.

A suite's rule receives only observations of cases that ran to their end and compiled something. A
process that died, an exception, and a case that compiled nothing get the same verdict in every
aspect, so this module gives it. It also turns failures that are expected into expected failures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from compilegate.judging import raising
from compilegate.judging.aspects import aspect_named
from compilegate.judging.budget import KEYS, Budget, KeyKind
from compilegate.judging.completeness import nothing_compiled, was_observed
from compilegate.judging.expectations import concerns, covers, explaining
from compilegate.judging.expected_failure import ExpectedFailure
from compilegate.judging.finding import Finding, with_help
from compilegate.judging.tensors import examine
from compilegate.judging.toml_values import toml
from compilegate.judging.tracebacks import without_torch
from compilegate.records.observation import (
    BUSY_MACHINE,
    Capture,
    Failure,
    GraphBreak,
    Observation,
    Want,
)
from compilegate.records.verdict import Outcome, Verdict

Rule = Callable[[Observation, Budget], Finding]
#: The fixture ``judge``: applies a rule and ends the test as the verdict says.
Judge = Callable[[Rule], None]
#: What the first aspect of a case says that ran eagerly, whichever it is.
UNCOMPILED = "nothing was compiled, all of it ran eagerly"


@dataclass(frozen=True)
class Judgement:
    """A verdict and the budget values that would have let it pass."""

    verdict: Verdict
    proposal: Mapping[str, Any] = field(default_factory=dict)
    #: Whether the details are about the case, not the aspect, and need to be shown only once.
    of_case: bool = False


def judge(
    observation: Observation,
    budget: Budget,
    aspect: str,
    rule: Rule,
    wants: Sequence[Want] = (),
    *,
    said_by: str = "",
) -> Judgement:
    """Judge one aspect of a case.

    Args:
        observation: What was measured.
        budget: What is allowed.
        aspect: The aspect's name.
        rule: The aspect's own rule.
        wants: What the rule needs to have been observed.
        said_by: The aspect that has failed because nothing was compiled. The others are skipped.
    """
    of_case = _finding_of_case(observation, aspect, said_by) or _not_measured(observation, wants)
    finding = of_case or rule(observation, budget)
    concerned = [e for e in budget.expected_failures if concerns(e, aspect, observation)]
    covering = [entry for entry in concerned if covers(entry, aspect, observation)]
    return _as_expected(
        observation.case, aspect, finding, concerned, covering, of_case=of_case is not None
    )


def judge_change(case_id: str, budget: Budget, aspect: str, finding: Finding) -> Judgement:
    """Judge how a case changed since an earlier run, whether or not it ran to its end.

    Its failures are known from that run, so only entries for this aspect concern it. They also
    accept what the comparison leaves open.

    Args:
        case_id: The case.
        budget: What is allowed.
        aspect: The aspect's name.
        finding: What was found.
    """
    accepted = [entry for entry in budget.expected_failures if entry.aspect == aspect]
    if finding.outcome == "inconclusive" and explaining(accepted, finding):
        finding = replace(finding, outcome="failed")
    return _as_expected(case_id, aspect, finding, accepted, accepted)


def _as_expected(
    case_id: str,
    aspect: str,
    finding: Finding,
    concerned: Sequence[ExpectedFailure],
    covering: Sequence[ExpectedFailure],
    *,
    of_case: bool = False,
) -> Judgement:
    """Turn a finding into a judgement, with the expected failures taken into account.

    Args:
        case_id: The case.
        aspect: The aspect's name.
        finding: What was found.
        concerned: Entries that are about the aspect.
        covering: Those of them that expect this very failure.
        of_case: Whether the finding is the same for all aspects.
    """
    outcome, summary = finding.outcome, finding.summary
    others: list[ExpectedFailure] = []
    strict = (entry for entry in concerned if entry.strict)
    if outcome == "failed" and (matching := explaining(covering, finding)):
        reasons = "; ".join(map(str, matching))
        outcome, summary = "expected_failure", f"{reasons}: {summary}"
    elif outcome == "failed":
        others = [entry for entry in covering if entry.match and entry.strict]
    elif outcome == "passed" and not finding.indicative and (expected := next(strict, None)):
        outcome = "failed"
        summary = (
            f"expected to fail, but passed: {expected}. "
            f"Remove the entry at {expected.where} or narrow its torch range. {summary}"
        )
    proposal = (finding.proposal or {}) if outcome == "failed" else {}
    verdict = Verdict(
        case=case_id,
        aspect=aspect,
        outcome=outcome,
        summary=summary,
        details=(*finding.details, *map(_of_others, others), *_budget_keys(aspect, proposal)),
    )
    return Judgement(verdict, proposal, of_case=of_case)


def _of_others(entry: ExpectedFailure) -> str:
    """Return why an entry for the aspect does not cover a failure."""
    return (
        f"the expected failure at {entry.where} is another one: not every line has its match "
        f"'{entry.match}'"
    )


#: How a line begins that names the budget keys which would allow a failure.
BUDGET_KEY = "budget key: "
#: How a message shows a budget key whose value it does not know.
_VALUES: dict[KeyKind, str] = {
    "count": "",
    "number": "",
    "texts": ' = ["…"]',
    "breaks": ' = [{reason = "…", place = "…"}]',
}
#: What a value of a budget key counts from, where a reader might take it for the whole.
_RELATIVE = {"recompiles": " (more than the setting allows)"}


def _budget_keys(aspect: str, proposal: Mapping[str, Any]) -> Iterator[str]:
    """Yield one line with the budget keys that would allow a failure; none if no key would."""
    if not proposal:
        return
    keys = []
    for key in aspect_named(aspect).keys:
        value = proposal.get(key)
        shown = _VALUES[KEYS[key]] if value is None else f" = {toml(value)}{_RELATIVE.get(key, '')}"
        keys.append(f"{key}{shown}")
    if keys:
        yield f"{BUDGET_KEY}{', or '.join(sorted(keys, key=lambda key: '[' in key))}"


def _not_measured(observation: Observation, wants: Sequence[Want]) -> Finding | None:
    """Return the finding of a case that lacks the measurement; None if it has it."""
    missing = [want for want in wants if want not in observation.wants]
    if missing:
        return Finding("skipped", f"not measured in this run: {', '.join(missing)}")
    measured: dict[str, object] = {
        "time": observation.timing,
        "memory": observation.memory,
        "energy": observation.energy,
        "compile_work": observation.compile_work,
    }
    if any(measured.get(want, want) is None for want in wants):
        return Finding("skipped", "the first call raises, as in eager: nothing to measure")
    return None


#: Where other processes hold more than this share of a GPU's memory, running out of it proves
#: nothing about the model. The process's own context takes some hundred MiB.
CROWDED = 0.1
_STATUS = {
    "raised": "raised",
    "out_of_memory": "ran out of memory",
    "crashed": "crashed",
    "timed_out": "timed out",
    "could_not_start": "could not start",
}


def proves_nothing(failure: Failure) -> bool:
    """Whether the machine ended a case: others took its processor, or the GPU's memory."""
    return failure.kind == BUSY_MACHINE or is_crowded(failure.held_by_others)


def is_crowded(held: float | None) -> bool:
    """Whether others held so much memory, or an unknown share, that a lack of it proves nothing."""
    return held is None or held > CROWDED


def share(held: float | None) -> str:
    """Return a share of memory in words."""
    return "an unknown share" if held is None else f"{held:.0%}"


def says_that_nothing_compiled(judgement: Judgement, observation: Observation) -> bool:
    """Whether an aspect has failed, expectedly or not, because nothing was compiled."""
    fails = judgement.verdict.outcome in ("failed", "expected_failure")
    is_whole = observation.status == "completed" and nothing_compiled(observation)
    return judgement.of_case and fails and is_whole


def _is_raised_by_model(observation: Observation, failure: Failure) -> bool:
    """Whether the model raised the error in eager, where its recipe names none.

    An error of the recipe itself ends the first eager call, before there is a reference.
    """
    raised_in_eager = (observation.status, failure.stage) == ("raised", "eager")
    return raised_in_eager and bool(observation.reference) and not observation.raises


def _wrong_before(observation: Observation) -> Iterator[str]:
    """Yield what was wrong in the calls before the one that ended the case.

    Calls in which eager and compiled code both raise show nothing: the message has the error.
    """
    returning = tuple(call for call in observation.calls if not raising.error_of_both(call))
    groups = ("outputs", "gradients", "state") if returning else ()
    for group in groups:
        finding = examine(replace(observation, calls=returning), group).finding
        if finding is not None and finding.outcome == "failed":
            yield f"wrong before that, in {group}: {finding.summary}"


def _finding_of_case(observation: Observation, aspect: str, said_by: str) -> Finding | None:
    """Return the finding of a case that ended before an aspect, or compiled nothing."""
    failure = observation.failure
    if failure is not None and not was_observed(observation, aspect):
        if observation.status == "unavailable":
            return Finding("skipped", failure.message)
        what = _STATUS[observation.status]
        message = failure.message
        if observation.status == "raised":
            message = f"{failure.kind}: {message}"
        alone = f", {failure.call}, where eager returned" if failure.call else ""
        summary = f"{what} in stage {failure.stage!r}{alone}: {message}"
        details = [*without_torch(failure.traceback)]
        if _is_raised_by_model(observation, failure):
            details += raising.ways_out(f"{failure.kind}: {failure.message}")
        if (observation.status, failure.stage) == ("raised", "eager") and not observation.raises:
            details += raising.without_autocast(observation)
        if failure.call:
            details += raising.fixed_dimensions(message)
            details += raising.behind_breaks(observation)
        details += _wrong_before(observation)
        if failure.output:
            details += ["last output:", *(f"  {line}" for line in failure.output.splitlines())]
        held = failure.held_by_others
        if is_crowded(held):
            summary += f"; other processes held {share(held)} of the GPU's memory"
        outcome: Outcome = "inconclusive" if proves_nothing(failure) else "failed"
        return Finding(outcome, summary, tuple(details))
    # Whether eager raises in more calls than before is what the aspect "eager" judges.
    if aspect != "eager" and (mistake := raising.unexpected(observation)):
        return mistake
    if nothing_compiled(observation):
        if said_by:
            return Finding("skipped", f"nothing was compiled: {said_by} fails for it")
        capture = observation.capture
        why = [*_why_nothing_compiled(capture)]
        summary = f"{UNCOMPILED}: {why[0]}"
        breaks = (*capture.breaks, *capture.fallbacks) if capture else ()
        return Finding("failed", summary, tuple(with_help(why, breaks)))
    return None


def _says_little(one: GraphBreak) -> bool:
    """Whether Dynamo's reason is only that Python runs a statement: another break says why."""
    return one.reason.startswith("step_unsupported")


def _why_nothing_compiled(capture: Capture | None) -> Iterator[str]:
    found: list[str] = []
    if capture is not None:
        breaks = sorted((*capture.breaks, *capture.fallbacks), key=_says_little)
        found += [*capture.limits, *map(str, breaks)]
        if capture.graphs:
            found.append(f"{capture.graphs} graphs were captured, but Inductor generated no code")
        elif not found and any(item.graph for item in capture.compilations):
            found.append("Dynamo traced the model, but found no tensor operation to compile")
    found = found or ["nothing reached the compiler: is torch.compile disabled?"]
    yield from dict.fromkeys(found)
