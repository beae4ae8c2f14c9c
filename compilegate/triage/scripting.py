"""Writes the script of a culprit: tries the smallest first, until one is verified."""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from compilegate.fuzzing.outcome import Symptom, outcome_of
from compilegate.fuzzing.program import Program
from compilegate.fuzzing.reduction import Reducer
from compilegate.processes.zoo_listing import list_models
from compilegate.records.case import REPLAYING_CALLS
from compilegate.triage import place, programs, scripts_run
from compilegate.triage.findings import Files, Findings
from compilegate.triage.probing_changes import change_of
from compilegate.triage.recipe import NoSourceError, recipe_lines
from compilegate.triage.report import cleaned_code
from compilegate.triage.script import Script, Shows, may_be_brief, of_program, of_recipe
from compilegate.triage.suspect import Suspect
from compilegate.triage.title import title_of
from compilegate.triage.trials import OutOfTimeError, Trials, part
from compilegate.zoo import registry
from compilegate.zoo.registry import Model

#: What the compiler must not do, by the aspect that fails.
_STRICT: dict[str, Literal["breaks", "recompiles"]] = {
    "graph_breaks": "breaks",
    "recompiles": "recompiles",
}
#: The error that a script then shows.
_ERRORS = {"breaks": "Unsupported", "recompiles": "FailOnRecompileLimitHit"}
#: What a script prints that counts breaks.
_COUNTED = "breaks the graph"
#: How many recompilations the suite allows.
_ALLOWED = re.compile(r"\b(\d+) allowed\b")
#: What a GPU that lost its context says. Which exception says it depends on who asks first.
_LOST = re.compile(r"(?:CUDA error|Triton Error \[CUDA\]): ([^\n.;]+)")
#: How many calls come before the one that a probing call after more calls looks at.
_REPEATED = 9
#: The shares of the time that is left: for trying and reducing programs, and for replacing
#: submodules.
_PROGRAMS, _OTHERS = 0.4, 0.3


@dataclass(frozen=True, kw_only=True)
class Scripting:
    """Writes the script of one suspect.

    Attributes:
        trials: Observes programs and parts of the suspect's model.
        findings: Stage and place. They receive the script.
        folder: Where it is written.
        files: The user's files.
        backend: The backend that the script uses.
        say: Is given a line for each thing that is done.
    """

    trials: Trials
    findings: Findings
    folder: Path
    files: Files
    backend: str
    say: Callable[[str], None]

    def write(self) -> None:
        """Try scripts, from the smallest to the largest, until one is verified."""
        ways = {
            "a script of single operators": self._scripts_of_programs,
            "a script with the model's source": self._scripts_of_recipe,
        }
        for what, make in ways.items():
            try:
                for script in make():
                    if self._verify(script):
                        return
            except (programs.UnprintableError, NoSourceError) as error:
                self.findings.tried_scripts.append(f"{what} is not possible: {error}")
                self.say(f"  {self.findings.tried_scripts[-1]}")
            except OutOfTimeError:
                if time.monotonic() > self.trials.until:
                    raise
                self.findings.tried_scripts.append("there was too little time to reduce the graph")
        if self.files.zoo and self.findings.script is not None:
            self.findings.notes.append(
                "a script that shows what your zoo file changes, such as an option of the "
                "compiler: scripts import no zoo file"
            )

    def _verify(self, script: Script) -> bool:
        path = self.folder / "repro.py"
        path.write_text(cleaned_code(script.text), encoding="utf-8")
        try:
            made = scripts_run.verify(path, self.findings.stage.off, self.trials.until, script.says)
            if made.holds or self.findings.script is None:
                self.findings.script, self.findings.verified = script, made
                (self.folder / "repro.log").write_text(made.red.output, encoding="utf-8")
        finally:  # also where the time is over: the report shows the script that has a log
            if (shipped := self.findings.script) is not None:
                path.write_text(cleaned_code(shipped.text), encoding="utf-8")
        green = made.green or "not run"
        self.say(f"  script of {script.origin}: {made.red}; {made.below}: {green}")
        if not made.holds:
            self.findings.tried_scripts.append(
                f"a script of {script.origin}: {made.red}; with {made.below}: {green}"
            )
        return made.holds

    def _scripts_of_programs(self) -> list[Script]:
        suspect = self.trials.suspect
        if suspect.was_not_compiled:
            raise programs.UnprintableError("nothing was compiled, so there are none")
        if not (suspect.is_of_values or suspect.fails_as_a_whole):
            raise programs.UnprintableError(
                "a break or a recompilation is of the model's code, not of an operator"
            )
        if (facts := self.trials.suspect.probing_call) is not None:
            raise programs.UnprintableError(f"it makes no call with {facts.probe}")
        if stage := self.findings.stage.left_out:
            raise programs.UnprintableError(f"they show no fault of {stage}")
        found_at, case = self.findings.place, self.trials.suspect.case
        graph, why = self.trials.told(part(path=found_at.path), "graph")
        if graph is None:
            raise programs.UnprintableError(f"PyTorch captured no graph: {why}")
        whole = programs.program_of(graph, case, self.backend)
        found: list[Program] = []
        symptoms: list[Symptom] = []
        self.trials.within(_PROGRAMS, lambda: found.extend(self._reduced(whole, symptoms)))
        origin, shows = f"the graph of {found_at}", replace(self._shows, kind=symptoms[0].kind)
        return [
            Script(text=of_program(one, case, how), origin=origin, program=one, says=self._says)
            for one in found
            for how in (*_brief_way(one, shows), *_ways(shows))
        ]

    def _reduced(self, whole: Program, symptoms: list[Symptom]) -> list[Program]:
        """Return the program of one operator that fails alone, or else a reduced one, or none.

        Args:
            whole: The program of the whole graph.
            symptoms: Receives how these fail.
        """
        alone = programs.of_one_operator(whole)
        for one, symptom in zip(alone, self.trials.symptoms(alone), strict=True):
            if symptom is not None:
                self.findings.place.name_operator(one.statements[0])
                self.say(f"  operator: {one.statements[0].text}")
                break
        else:
            one, symptom = whole, next(self.trials.symptoms([whole]))
        if symptom is None:
            raise programs.UnprintableError("on random data, the model's operators are right")
        symptoms.append(symptom)
        left = self.trials.until - time.monotonic()
        reducer = Reducer(
            lambda some, until: self.trials.first_failing(some, symptom, until), left / 2
        )
        try:
            reduced = reducer.reduce(one)
        except OutOfTimeError:
            reduced = reducer.best or one
        return [reduced, one] if reduced != one else [one]

    def _scripts_of_recipe(self) -> list[Script]:
        suspect = self.trials.suspect
        models = {model.name: model for model in list_models(sys.executable, list(self.files.zoo))}
        model = registry.load() | models
        entry = model[suspect.case.model]
        lines = recipe_lines(Path(entry.source), entry.name, suspect.case.device)
        calls = _calls(suspect, entry, reaches_limit=self._shows.recompilations is None)
        if not suspect.was_not_compiled:
            self._replace_others()
        replaced, shows, smallest = (
            self.findings.place.identities,
            self._shows,
            self.findings.smallest,
        )
        variants = [(suspect.case, calls)]
        if smallest:
            fewer = [{**call, **smallest.sizes} for call in calls]
            variants = [(smallest.case_of(suspect.case), fewer), *variants]
        return [
            Script(
                text=of_recipe(
                    lines,
                    case,
                    how,
                    given,
                    seed=suspect.observation.seed,
                    backend=self.backend,
                    identities=identities,
                    tf32=self.files.tf32,
                    cold=self.findings.stage.is_cold,
                ),
                origin=f"the recipe of {entry.name}",
                says=how.reason or _COUNTED if how.counted else self._says,
                is_exact=case != suspect.case,
            )
            for case, given in variants
            for identities in ([replaced, []] if replaced else [[]])
            for how in _ways(shows)
        ]

    @property
    def _says(self) -> str:
        """What a script prints where it shows the culprit: a reason, or the class of an error."""
        suspect = self.trials.suspect
        failure = suspect.observation.failure
        if failure is not None and (lost := _LOST.search(failure.message)):
            return lost[1]
        if failure is None and suspect.reason:
            return suspect.reason
        if suspect.was_not_compiled:
            return ""  # fullgraph=True raises whatever kept Dynamo from compiling
        if failure is None:
            return _ERRORS.get(_STRICT.get(suspect.verdict.aspect, ""), "")
        return failure.kind if suspect.observation.status == "raised" else ""

    @property
    def _shows(self) -> Shows:
        """What a script of the model shows."""
        suspect = self.trials.suspect
        symptom = outcome_of(suspect.observation).symptom
        aspect = "" if suspect.fails_as_a_whole else suspect.verdict.aspect
        probes = suspect.observation.probes
        states = [call.state for call in (*suspect.observation.calls, *probes)]
        checked = [*(call.outputs for call in suspect.observation.calls), *states]
        return Shows(
            title=title_of(suspect, self.findings),
            kind=symptom.kind if symptom and aspect not in _STRICT else "values",
            change=_change(suspect),
            aliasing=any(d.what == "aliasing" for one in checked for d in one.differences),
            strict="breaks" if suspect.was_not_compiled else _STRICT.get(aspect, ""),
            reason=suspect.reason,
            recompilations=_allowed(suspect, self.findings) if aspect == "recompiles" else None,
            where=next((d.where for one in states for d in one.differences), ""),
            calls=1 if suspect.is_of_first_call and not self.findings.stage.cure else 0,
            hangs_s=self.trials.hangs_s,
        )

    def _replace_others(self) -> None:
        with contextlib.suppress(OutOfTimeError):
            self.trials.within(
                _OTHERS,
                lambda: place.replace_others(self.trials, self.findings.place, self.backend),
            )


def _allowed(suspect: Suspect, findings: Findings) -> int | None:
    """Return how many recompilations the suite allows, where a verdict says so."""
    seen = (each.text for each in findings.stage.seen.values())
    said = map(_ALLOWED.search, (suspect.verdict.summary, *seen))
    return next((int(found[1]) for found in said if found), None)


def _change(suspect: Suspect) -> str:
    """Return what the probing call that shows it changes, as code; empty for no change."""
    if (facts := suspect.probing_call) is None:
        return ""
    halves = {"bf16": "bfloat16", "f16": "float16"}
    axes = suspect.case.precision, suspect.case.weights.removesuffix("_weights")
    dtypes = (halves[name] for name in axes if name in halves)
    return change_of(facts.probe, next(dtypes, "float32"))


def _calls(suspect: Suspect, entry: Model, *, reaches_limit: bool) -> list[dict[str, int]]:
    """Return the sizes of each call that the case makes.

    Args:
        suspect: The case.
        entry: Its model.
        reaches_limit: Whether calls follow until PyTorch's limit is hit, if the case hits it.
    """
    if (facts := suspect.probing_call) is None and suspect.observation.failure is None:
        calls = [dict(call.sizes) for call in suspect.observation.calls]
        reaches_limit &= "limit hit" in suspect.verdict.summary  # perhaps in rounds that are timed
        return [*calls, *calls[-1:] * (_REPEATED * reaches_limit)]
    sizes = entry.sizes(suspect.case.device)
    first = {name: each[0] for name, each in sizes.items()}
    if facts is not None:
        before = _REPEATED if facts.probe.startswith("after ") else 1
        return [*[first] * before, facts.sizes]
    others = [{**first, n: size} for n, each in sizes.items() for size in each[1:]]
    repeats = REPLAYING_CALLS if suspect.case.uses_cuda_graphs else 2
    varied = (*others, first) if "vary" in suspect.wants else ()
    return [*[first] * repeats, *(each for each in varied for _ in range(repeats - 1))]


def _brief_way(program: Program, shows: Shows) -> Iterator[Shows]:
    if may_be_brief(program, shows):
        yield replace(shows, brief=True)


def _ways(shows: Shows) -> Iterator[Shows]:
    """Yield ways to show something, from the shortest script to the most careful."""
    yield shows
    if shows.strict == "breaks":
        yield replace(shows, counted=True)  # where fullgraph=True raises another error
    if not shows.raises:
        yield replace(shows, may_raise=True)  # in float64, where a part of a model refuses it
    yield replace(shows, careful=True)
