"""What is triaged: a case that stands for a culprit, and what shows that it still fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from compilegate.culprits.evidence import Evidence, evidence
from compilegate.culprits.grouping import Culprit
from compilegate.fuzzing.outcome import SILENT, Kind, Symptom, outcome_of
from compilegate.judging.aspects import ASPECTS, aspect_named
from compilegate.judging.budget import Budget
from compilegate.judging.completeness import nothing_compiled
from compilegate.judging.judge import BUDGET_KEY
from compilegate.judging.rules import verdicts
from compilegate.processes import lost_device
from compilegate.records.call import CallFacts, name_of_probe
from compilegate.records.case import Case
from compilegate.records.observation import PROBING, WANTS, GraphBreak, Observation, Status, Want
from compilegate.records.verdict import Verdict
from compilegate.triage.search.seen import Seen

#: How a part fails where its case ended with a status.
_KINDS: dict[Status, tuple[Kind, ...]] = {
    "raised": ("raises",),
    "crashed": ("crash",),
    "timed_out": ("hang",),
}

#: How a part fails where the numbers of its case are wrong.
_NUMBERS = tuple(kind for kind in (*SILENT, "raises not") if kind != "layout")

#: The aspects of what a call computes, rather than of what it leaves behind.
_RESULTS = ("forward", "gradients")

#: How a complaint about state of Python begins, which is no tensor.
_OF_PYTHON = re.compile(r"(?:probing )?call\b[^:]*: (?:attribute|class|closure|function|global) ")

#: How one about the state of a module begins, which later calls read.
_OF_MODULE = re.compile(r"call\b[^:]*: (?:buffer|parameter) ")

#: The number of a call that is no probing call.
_CALL = re.compile(r"call (\d+)\b")

#: How a record describes a process that ended by itself.
_EXITED = re.compile(r"the process exited with status (\d+)\b")

#: The class of errors of a C++ compiler.
_CPP_ERROR = "CppCompileError"

Cost = Literal["", "time", "memory", "compiling"]

#: What explains each cost: kernels, what memory holds, the phases of compiling.
_COSTS: dict[str, Cost] = {
    "speedup": "time",
    "slowdown": "time",
    "energy": "time",
    "energy_growth": "time",
    "memory": "memory",
    "memory_growth": "memory",
    "compile_time": "compiling",
    "compile_work": "compiling",
    "compile_slowdown": "compiling",
}


@dataclass(frozen=True)
class Suspect:
    """A case that stands for a culprit.

    Attributes:
        culprit: The culprit.
        observation: The case as the run observed it.
        verdicts: What failed of it: what explains the rest, then outputs first.
        budget: Returns the budget of a case under a version of torch.
        release: The version of torch of the run.
    """

    culprit: Culprit
    observation: Observation
    verdicts: Sequence[Verdict]
    budget: Callable[[Case], Budget]
    release: str

    @property
    def case(self) -> Case:
        """The case."""
        return Case.parse(self.observation.case)

    @property
    def verdict(self) -> Verdict:
        """What failed first."""
        return self.verdicts[0]

    @property
    def text(self) -> str:
        """What it shows, in one line."""
        return self.evidence.text

    @property
    def evidence(self) -> Evidence:
        """What the verdict shows of the culprit: it may name several breaks or guards."""
        return self.pieces[0]

    @property
    def pieces(self) -> Sequence[Evidence]:
        """All that the verdict shows of the culprit."""
        found = evidence(self.observation, self.verdict)
        return [piece for piece in found if piece.key == self.culprit.key] or found[:1]

    @property
    def shown(self) -> Sequence[str]:
        """The lines of the verdict for a maintainer: of several breaks, the culprit's own."""
        lines = [piece.line for piece in self.pieces if piece.line]
        if lines and len(evidence(self.observation, self.verdict)) > len(lines):
            return (self.text, *_about(lines, self.verdict.details))
        details = [each for each in self.verdict.details if not each.startswith(BUDGET_KEY)]
        return (self.verdict.summary, *details)

    @property
    def reason(self) -> str:
        """The reason of a break that is not the only one of its case; empty otherwise."""
        capture, own = self.observation.capture, self.graph_break
        breaks = capture.breaks if capture else ()
        return own.reason if own in breaks and len({one.reason for one in breaks}) > 1 else ""

    @property
    def graph_break(self) -> GraphBreak | None:
        """The break that is the culprit, also of a frame that is left to eager; else None."""
        capture = self.observation.capture
        if capture is None or not (self.was_not_compiled or self.verdict.aspect == "graph_breaks"):
            return None
        known = (*capture.breaks, *capture.fallbacks)
        return next((one for one in known if str(one) == self.evidence.line), None)

    @property
    def fails_as_a_whole(self) -> bool:
        """Whether the case raised, crashed or hung, rather than that a number is wrong."""
        return self.observation.failure is not None

    @property
    def was_not_compiled(self) -> bool:
        """Whether the failure is that nothing was compiled, rather than what then differs."""
        return self.evidence.is_uncompiled

    @property
    def hangs(self) -> bool:
        """Whether the case hung."""
        return self.observation.status == "timed_out"

    @property
    def is_of_values(self) -> bool:
        """Whether tensors are compared, so that a script can compare them, too."""
        return not self.fails_as_a_whole and bool(aspect_named(self.verdict.aspect).tensors)

    @property
    def is_of_first_call(self) -> bool:
        """Whether the first call shows it, before anything is compiled a second time."""
        if self.graph_break is not None:
            return 0 in self.graph_break.calls
        failure = self.observation.failure
        if failure is not None and not failure.call:  # the process died, and said nothing more
            return failure.stage == "compile"
        return bool(_CALL.match(self._first_said)) and self.shown_in == 0

    @property
    def shown_in(self) -> int:
        """The number, from 0, of the call that shows it first; 0 where that is not known."""
        found = _CALL.match(self._first_said)
        return int(found[1]) - 1 if found else 0

    @property
    def _first_said(self) -> str:
        """The line that names the call which shows it first."""
        failure = self.observation.failure
        return failure.call if failure else "\n".join(self.verdict.details[:1])

    @property
    def cost(self) -> Cost:
        """What compiled code costs too much of; empty for another failure."""
        return (
            ""
            if self.fails_as_a_whole or self.was_not_compiled
            else _COSTS.get(self.verdict.aspect, "")
        )

    @property
    def is_cold(self) -> bool:
        """Whether it shows only where the case compiles in an empty cache."""
        return aspect_named(self.verdict.aspect).cold and self.observation.cold

    @property
    def wants(self) -> tuple[Want, ...]:
        """What must be observed to see it."""
        names = [verdict.aspect for verdict in self.verdicts]
        if self.fails_as_a_whole:
            names = [name for name in names if ASPECTS[name].group != "cost"] or names
        else:
            names = names[:1]
        wanted = {want for name in names for want in aspect_named(name).wants}
        if self.probing_call is not None:
            wanted |= {*PROBING}.intersection(self.observation.wants)
        return tuple(want for want in WANTS if want in wanted) or ("capture",)

    @property
    def probing_call(self) -> CallFacts | None:
        """The probing call that shows it, if no call before does."""
        first = "".join(self.verdict.details[:1])
        for facts in self.observation.probes:
            if first.startswith(f"{name_of_probe(facts.probe, facts.sizes)}: "):
                return facts
        return None

    def seen_in(self, observation: Observation) -> Seen:
        """Return whether an observation of the case shows the failure."""
        if self.fails_as_a_whole:
            return self._failure_in(observation)
        if (failure := observation.failure) is not None:
            text = f"{observation.status} in stage {failure.stage}: {failure.kind}"
            return Seen("unobservable", f"{text}: {failure.message}")
        if self.was_not_compiled:
            text = self.verdict.summary
            return Seen("bad", text) if nothing_compiled(observation) else Seen("good")
        budget = replace(self.budget(self.case), expected_failures=())
        found = [v for v in verdicts(observation, budget) if v.aspect == self.verdict.aspect]
        of_nothing = any(_is_of_nothing(observation, verdict) for verdict in found)
        return Seen.in_verdicts(found).as_other(of_nothing)

    def seen_in_part(self, observation: Observation) -> Seen:
        """Return whether an observation of a part of the model shows a failure of this kind."""
        outcome = outcome_of(observation)
        if (symptom := outcome.symptom) is not None:
            is_results = self.verdict.aspect in _RESULTS and self.is_of_first_call
            # Where the part returns what it should, its state made no result of this call wrong.
            is_other = is_results and _OF_MODULE.match(symptom.line)
            is_alike = self.is_alike(symptom) and not is_other
            return Seen("bad" if is_alike else "unobservable", symptom.line)
        is_good = outcome.word in ("passed", "not compiled")
        return Seen("good" if is_good else "unobservable", outcome.why)

    def is_alike(self, symptom: Symptom) -> bool:
        """Whether a part or a program fails as the case does.

        That is in its numbers, in the layout of a tensor, or as a whole: a submodule that returns
        another layout is not where wrong numbers come from.
        """
        whole = outcome_of(self.observation).symptom
        is_of_layout = self.verdict.aspect == "forward" and whole and whole.kind == "layout"
        alike = ("layout",) if is_of_layout else _NUMBERS
        if _loses_the_gpu(self.observation):
            return symptom.kind in ("raises", "crash")
        if self.verdict.aspect in _RESULTS and _OF_PYTHON.match(symptom.line):
            return False  # a count in a global variable is not what makes outputs wrong
        return symptom.kind in _KINDS.get(self.observation.status, alike)

    def _failure_in(self, observation: Observation) -> Seen:
        failure = observation.failure
        if failure is None:
            return Seen("good")
        text = f"{observation.status} in stage {failure.stage}: {failure.kind}: {failure.message}"
        own = self.observation.failure
        is_compiled = observation.status != "raised" or bool(failure.call and own and own.call)
        loses_it_too = _loses_the_gpu(self.observation) and _loses_the_gpu(observation)
        if is_compiled and (observation.status == self.observation.status or loses_it_too):
            return Seen("bad", text)
        return Seen("unobservable", text)


def _about(lines: Sequence[str], details: Sequence[str]) -> Iterator[str]:
    """Yield the details that contain one of some lines, and those that explain them."""
    is_own = False
    for each in details:
        if not each.startswith("  "):
            is_own = any(line in each for line in lines)
        if is_own:
            yield each


def _is_of_nothing(observation: Observation, verdict: Verdict) -> bool:
    """Whether a verdict failed because nothing was compiled."""
    if verdict.outcome != "failed":
        return False
    return any(piece.is_uncompiled for piece in evidence(observation, verdict))


def exit_status(suspect: Suspect) -> int:
    """Return the status of its own with which the case's process exits; 0 for another failure."""
    failure = suspect.observation.failure
    found = _EXITED.search(failure.message) if failure and failure.kind == "exit" else None
    return int(found[1]) if found else 0


def is_of_cpp(suspect: Suspect) -> bool:
    """Whether a C++ compiler refuses the code that Inductor has generated."""
    failure = suspect.observation.failure
    return failure is not None and _CPP_ERROR in f"{failure.message}\n{failure.traceback}"


def _loses_the_gpu(observation: Observation) -> bool:
    """Whether a kernel broke the GPU's context: the process raises then, or aborts."""
    return observation.status != "timed_out" and lost_device.is_suspected(observation)
