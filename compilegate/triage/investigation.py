"""Investigates one culprit within its time: stage, place, script, bisection, workaround."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compilegate.fuzzing.program import Program
from compilegate.fuzzing.reduction import Reducer
from compilegate.processes.child_process import ObserverError
from compilegate.processes.zoo_listing import list_models
from compilegate.triage import ladder, place, programs, scripts_run
from compilegate.triage.ladder import Stage
from compilegate.triage.place import Place
from compilegate.triage.recipe import NoSourceError, recipe_lines
from compilegate.triage.script import BREAKS, RECOMPILES, VALUES, Script, of_program, of_recipe
from compilegate.triage.scripts_run import Verified
from compilegate.triage.suspect import Suspect
from compilegate.triage.trials import OutOfTimeError, Trials, part
from compilegate.zoo import registry

#: The shares of the time that is left: for the place, and for trying and reducing programs.
_PLACE, _PROGRAMS = 0.35, 0.4
#: With less time than this, in seconds, no bisection is begun.
_BISECTION_S = 20.0


@dataclass(frozen=True)
class Files:
    """Files of the user and settings of the run.

    Attributes:
        zoo: Absolute paths of zoo files.
        tf32: Whether f32 products round to TF32.
    """

    zoo: Sequence[str] = ()
    tf32: bool = False


@dataclass
class Findings:
    """What is known of a culprit so far.

    Attributes:
        stage: Where on the ladder it begins.
        place: Where in the model it shows.
        script: The script that is shipped; None if there is none.
        verified: What the script did; None if it was not run.
        tried_scripts: What became of the scripts that are not shipped.
        bisected: What torch's bisector found.
        workarounds: Code that makes the case pass, and how that was tried.
        notes: What could not be done, and why.
        seconds: How long each part took.
    """

    stage: Stage = field(default_factory=Stage)
    place: Place = field(default_factory=Place)
    script: Script | None = None
    verified: Verified | None = None
    tried_scripts: list[str] = field(default_factory=list)
    bisected: dict[str, Any] = field(default_factory=dict)
    workarounds: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)


class Investigation:
    """Investigates one suspect.

    Args:
        suspect: The case.
        folder: Where scripts and logs are written.
        files: The user's files.
        seconds: The time for all of it.
        say: Is given a line for each thing that is done.

    Attributes:
        findings: What was found.
    """

    def __init__(
        self,
        suspect: Suspect,
        folder: Path,
        files: Files,
        seconds: float,
        say: Callable[[str], None],
    ) -> None:
        self.findings = Findings()
        self._suspect, self._folder, self._files, self._say = suspect, folder, files, say
        self._began = time.monotonic()
        self._seconds = seconds
        self._until = self._began + seconds
        self._scratch = Path(tempfile.mkdtemp(prefix="compilegate-triage-"))
        self._trials = Trials(suspect, self._scratch, files.zoo, tf32=files.tf32, until=self._until)

    def run(self) -> Findings:
        """Do everything that there is time for."""
        steps: dict[str, Callable[[], None]] = {
            "stage": self._find_stage,
            "place": self._find_place,
            "script": self._write_script,
            "bisection": self._bisect,
            "workaround": self._try_workarounds,
        }
        try:
            for name, step in steps.items():
                began = time.monotonic()
                try:
                    step()
                except OutOfTimeError:
                    if time.monotonic() > self._until:
                        self.findings.notes.append(f"the time was over in this step: {name}")
                        break
                    self.findings.notes.append(f"there was too little time for all of: {name}")
                except ObserverError as error:
                    self.findings.notes.append(f"{name}: {error}")
                finally:
                    self.findings.seconds[name] = time.monotonic() - began
                if not self.findings.stage.is_confirmed:
                    break
        finally:
            self._trials.close()
            shutil.rmtree(self._scratch, ignore_errors=True)
        return self.findings

    def _find_stage(self) -> None:
        self.findings.stage = stage = ladder.climb(self._trials)
        for backend, seen in stage.seen.items():
            self._say(f"  {backend}: {seen}")
        self._say(f"  stage: {stage.name}")

    @property
    def _backend(self) -> str:
        """The backend under which the place is searched: the first, and fastest, that fails."""
        return self.findings.stage.backend or self._suspect.observation.backend

    def _within(self, share: float, step: Callable[[], None]) -> None:
        """Take a step in a share of the time that is left."""
        self._trials.until = time.monotonic() + share * (self._until - time.monotonic())
        try:
            step()
        finally:
            self._trials.until = self._until

    def _find_place(self) -> None:
        if not (self._suspect.is_of_values or self._suspect.fails_as_a_whole):
            return
        found = self.findings.place
        try:
            self._within(_PLACE, lambda: place.descend(self._trials, found, self._backend))
        finally:
            for path, seen in found.tried.items():
                self._say(f"  {path}: {seen}")
            self._say(f"  place: {found}")

    def _write_script(self) -> None:
        """Try scripts, from the smallest to the largest, until one is verified."""
        for make in (self._scripts_of_programs, self._scripts_of_recipe):
            try:
                for script in make():
                    if self._verify(script):
                        return
            except (programs.UnprintableError, NoSourceError) as error:
                self.findings.tried_scripts.append(str(error))
                self._say(f"  no such script: {error}")
            except OutOfTimeError:
                if time.monotonic() > self._until:
                    raise
                self.findings.tried_scripts.append("there was too little time to reduce the graph")

    def _verify(self, script: Script) -> bool:
        path = self._folder / "repro.py"
        before = path.read_text(encoding="utf-8") if path.exists() else None
        path.write_text(script.text, encoding="utf-8")
        made = scripts_run.verify(path, self.findings.stage.below, self._until)
        if made.holds or self.findings.script is None:
            self.findings.script, self.findings.verified = script, made
        elif before is not None:
            path.write_text(before, encoding="utf-8")
        (self._folder / "repro.log").write_text(made.red.output, encoding="utf-8")
        self._say(f"  script of {script.origin}: {made.red}; {made.below}: {made.green}")
        if not made.holds:
            self.findings.tried_scripts.append(
                f"a script of {script.origin}: {made.red}; with {made.below}: {made.green}"
            )
        return made.holds

    def _scripts_of_programs(self) -> list[Script]:
        if not (self._suspect.is_of_values or self._suspect.fails_as_a_whole):
            raise programs.UnprintableError("no program of tensors shows breaks or recompilations")
        place_found, case = self.findings.place, self._suspect.case
        graph, why = self._trials.told(part(path=place_found.path), "graph")
        if graph is None:
            raise programs.UnprintableError(f"no graph could be captured: {why}")
        whole = programs.program_of(graph, case, self._backend)
        found: list[Program] = []
        self._within(_PROGRAMS, lambda: found.extend(self._reduced(whole)))
        title = self._suspect.text
        origin = f"the graph of {place_found}"
        return [
            Script(text=of_program(one, case, title), origin=origin, program=one) for one in found
        ]

    def _reduced(self, whole: Program) -> list[Program]:
        """Return the program of one operator that fails alone, or else a reduced one, or none."""
        alone = programs.of_one_operator(whole)
        for one, symptom in zip(alone, self._trials.symptoms(alone), strict=True):
            if symptom is not None:
                self.findings.place.operator = one.statements[0].operator
                self._say(f"  operator: {one.statements[0].text}")
                break
        else:
            one, symptom = whole, next(self._trials.symptoms([whole]))
        if symptom is None:
            raise programs.UnprintableError("the graph on random data does not fail")
        left = self._trials.until - time.monotonic()
        reducer = Reducer(
            lambda some, until: self._trials.first_failing(some, symptom, until), left / 2
        )
        try:
            reduced = reducer.reduce(one)
        except OutOfTimeError:
            reduced = reducer.best or one
        return [reduced, one] if reduced != one else [one]

    def _scripts_of_recipe(self) -> list[Script]:
        suspect = self._suspect
        models = {model.name: model for model in list_models(sys.executable, list(self._files.zoo))}
        model = registry.load() | models
        entry = model[suspect.case.model]
        lines = recipe_lines(Path(entry.source), entry.name, suspect.case.device)
        sizes = entry.sizes(suspect.case.device)
        first = {name: each[0] for name, each in sizes.items()}
        others = [{**first, n: size} for n, each in sizes.items() for size in each[1:]]
        aspect = "" if suspect.fails_as_a_whole else suspect.verdict.aspect
        check = {"graph_breaks": BREAKS, "recompiles": RECOMPILES}.get(aspect, VALUES)
        calls = [first, first] if "vary" not in suspect.wants else [first, first, *others, first]
        text = of_recipe(
            lines,
            suspect.case,
            suspect.text,
            check,
            calls,
            seed=suspect.observation.seed,
            backend=self._backend,
        )
        return [Script(text=text, origin=f"the recipe of {entry.name}")]

    def _bisect(self) -> None:
        findings = self.findings
        if findings.stage.backend not in ("inductor", "aot_eager_decomp_partition"):
            return
        if findings.verified is None or not findings.verified.holds:
            findings.notes.append("no bisection: it needs a verified script")
            return
        if time.monotonic() + _BISECTION_S > self._until:
            raise OutOfTimeError
        found, log = scripts_run.bisect(
            self._folder / "repro.py", self._scratch, findings.stage.backend, self._until
        )
        (self._folder / "bisection.log").write_text(log, encoding="utf-8")
        findings.bisected = found
        self._say(f"  bisected: {found}")
        for options in found.get("helps", ()):
            code = f"torch.compile(model, options={options!r})"
            findings.workarounds.append((code, "repro.py passes with these options of Inductor"))

    def _try_workarounds(self) -> None:
        findings, found = self.findings, self.findings.place
        below = findings.stage.below
        if below != ladder.OFF:
            how = "the case passes with this backend"
            findings.workarounds.append((f'torch.compile(model, backend="{below}")', how))
        if found.path:
            seen = self._trials.of_part(part(disabled=(found.path,)))
            self._say(f"  torch.compiler.disable on {found.path}: {seen.state}")
            if seen.state == "good":
                code = f'part = model.get_submodule("{found.path}")\n'
                code += "part.forward = torch.compiler.disable(part.forward)"
                findings.workarounds.append((code, "the case passes"))
