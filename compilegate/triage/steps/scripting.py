"""Writes the script of a culprit: tries the smallest first, until one is verified."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from compilegate.fuzzing.outcome import Symptom
from compilegate.fuzzing.program import Program
from compilegate.fuzzing.reduction import Reducer
from compilegate.processes.zoo_listing import list_models
from compilegate.triage.findings import Files, Findings
from compilegate.triage.report.cleaning import cleaned, cleaned_code
from compilegate.triage.report.title import title_of
from compilegate.triage.scripts import programs, running
from compilegate.triage.scripts.script import Script, of_program, titled
from compilegate.triage.scripts.shows import Shows
from compilegate.triage.search import costs
from compilegate.triage.search.suspect import Suspect, exit_status
from compilegate.triage.search.trials import OutOfTimeError, Trials, part
from compilegate.triage.source.definitions import NoSourceError
from compilegate.triage.source.recipe import operators_of
from compilegate.triage.steps import own_code, shown
from compilegate.triage.steps.recipe_scripts import RecipeScripts
from compilegate.zoo import registry
from compilegate.zoo.registry import Model

#: The share of the time that is left for trying and reducing programs.
_PROGRAMS = 0.4
#: What a script of the whole model is called.
_OF_MODEL = "a script with the model's source"


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
        _broken: Recipes that raise in a script: no other script with them is run.
    """

    trials: Trials
    findings: Findings
    folder: Path
    files: Files
    backend: str
    say: Callable[[str], None]
    _broken: list[Sequence[str]] = field(default_factory=list)

    def write(self) -> None:
        """Try scripts, from the smallest to the largest, until one is verified."""
        if why := costs.why_no_script(self.trials.suspect):
            self.findings.notes.append(why)
            self.say(f"  {why}")
            return
        ways: dict[str, Callable[[], Iterable[Script]]] = {
            "a script of single operators": self._scripts_of_programs,
            "a script of the submodule": self._of_recipes.of_submodule,
            _OF_MODEL: self._of_recipes.of_model,
        }
        if self.trials.suspect.cost:
            ways = {_OF_MODEL: ways[_OF_MODEL]}
        for what, make in ways.items():
            try:
                for script in make():
                    if script.source not in self._broken and self._verify(script):
                        return
            except (programs.UnprintableError, NoSourceError) as error:
                self.findings.tried_scripts.append(f"{what} is not possible: {error}")
                self.say(f"  {self.findings.tried_scripts[-1]}")
            except OutOfTimeError:
                if time.monotonic() > self.trials.until:
                    raise
                self.findings.tried_scripts.append("there was too little time to reduce the graph")
        if self.findings.script is not None:
            self.findings.notes.append(_lack(self.findings, self.trials.suspect, self._shows.where))

    def _verify(self, script: Script) -> bool:
        path = self.folder / "repro.py"
        path.write_text(cleaned_code(script.text), encoding="utf-8")
        try:
            off, until = self.findings.stage.off, self.trials.until
            exits = exit_status(self.trials.suspect)
            made = running.verify(path, off, until, script.says, paths=script.paths, exits=exits)
            self.findings.errors.append(made.red.error)
            if made.holds or self.findings.script is None:
                self.findings.script, self.findings.verified = script, made
                (self.folder / "repro.log").write_text(made.red.output, encoding="utf-8")
        finally:  # also where the time is over: the report shows the script that has a log
            if (shipped := self.findings.script) is not None:
                path.write_text(cleaned_code(shipped.text), encoding="utf-8")
        green = made.green or "not run"
        if script.source and made.red.fails_in_recipe:
            self._broken.append(script.source)
        line = cleaned(f"script of {script.origin}: {made.red}; with {made.below}: {green}")
        if (tried := f"a {line}") not in self.findings.tried_scripts:  # a longer one did the same
            self.say(f"  {line}")
            self.findings.tried_scripts += [] if made.holds else [tried]
        return made.holds

    def _scripts_of_programs(self) -> list[Script]:
        suspect = self.trials.suspect
        if suspect.was_not_compiled:
            raise programs.UnprintableError("nothing was compiled, so there are no operators")
        if not (suspect.is_of_values or suspect.fails_as_a_whole):
            raise programs.UnprintableError(
                "a graph break or a recompilation belongs to the model's code, not to an operator"
            )
        if (facts := self.trials.suspect.probing_call) is not None:
            raise programs.UnprintableError(f"such a script makes no call with {facts.probe}")
        if stage := self.findings.stage.left_out:
            raise programs.UnprintableError(f"such a script shows no fault of {stage}")
        found_at, case = self.findings.place, self.trials.suspect.case
        graph, why = self.trials.told(part(path=found_at.path), "graph")
        if graph is None:
            raise programs.UnprintableError(f"PyTorch captured no graph: {why}")
        whole = programs.program_of(graph, case, self.backend)
        found: list[Program] = []
        symptoms: list[Symptom] = []
        self.trials.within(_PROGRAMS, lambda: found.extend(self._reduced(whole, symptoms)))
        origin, shows = f"the graph of {found_at}", replace(self._shows, kind=symptoms[0].kind)
        file, builder = Path(self._entry.source), self._entry.builder
        return [
            Script(
                text=of_program(one, case, how, defined),
                origin=origin,
                program=one,
                says=shown.says(suspect),
                modules=defined.modules,
                paths=defined.paths,
            )
            for one in found
            for defined in [operators_of(file, one.code, case.model, case.device, builder)]
            for how in (*shown.brief_way(one, shows), *shown.ways(shows))
        ]

    @functools.cached_property
    def _of_recipes(self) -> RecipeScripts:
        return RecipeScripts(
            trials=self.trials,
            findings=self.findings,
            entry=self._entry,
            shows=self._shows,
            backend=self.backend,
            tf32=self.files.tf32,
        )

    @functools.cached_property
    def _entry(self) -> Model:
        """The model of the suspect. A process of its own lists those of the user."""
        models = {model.name: model for model in list_models(sys.executable, list(self.files.zoo))}
        return (registry.load() | models)[self.trials.suspect.case.model]

    def _reduced(self, whole: Program, symptoms: list[Symptom]) -> list[Program]:
        """Return the program of one operator that fails alone, or else a reduced one, or none.

        Args:
            whole: The program of the whole graph.
            symptoms: Receives how these fail.
        """
        one, symptom = self.findings.alone or self._first_failing(whole)
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

    def _first_failing(self, whole: Program) -> tuple[Program, Symptom]:
        """Return the program of the first operator that fails alone, or the whole, and how."""
        alone = programs.of_one_operator(whole)
        for one, symptom in zip(alone, self.trials.symptoms(alone), strict=True):
            if symptom is not None:
                self.findings.place.name_operator(one.statements[0])
                self.say(f"  operator: {one.statements[0].text}")
                break
        else:
            one, symptom = whole, next(self.trials.symptoms([whole]))
        if symptom is None:
            raise programs.UnprintableError(own_code.why_right(self.findings))
        return one, symptom

    @property
    def _shows(self) -> Shows:
        """What a script of the model shows."""
        return shown.shows(self.trials.suspect, self.findings, self.trials.patience.script_s)


def _lack(findings: Findings, suspect: Suspect, where: str) -> str:
    """What the scripts that were tried do not show, or show without the stage, too."""
    made, text = findings.verified, "a script that shows the failure with torch alone"
    if suspect.was_not_compiled and suspect.graph_break is None:
        return f"{text}: Dynamo names no line, and there may be nothing to compile"
    if made is not None and made.red.shows and made.says in made.red.output:
        return f"{text} and passes without the stage: triage's script fails there, too"
    if where and not (findings.script and shown.compares(findings.script, where)):
        return f"{text}: no variable of the recipe itself is `{where}`"
    if any(findings.errors):
        some = "all" if all(findings.errors) else "some"
        return f"{text}: {some} scripts that triage tried ended with an unrelated error"
    if suspect.cost:
        return f"{text}: triage's script needs no more memory than allowed"
    return f"{text}: in the scripts that triage tried, compiled code is right"


def retitle(suspect: Suspect, findings: Findings, folder: Path) -> None:
    """Give the script the title of the report: later steps may have found what is at fault."""
    if (script := findings.script) is not None:
        findings.script = made = titled(script, title_of(suspect, findings))
        (folder / "repro.py").write_text(cleaned_code(made.text), encoding="utf-8")
