"""Investigates one culprit within its time: stage, place, script, bisection, workaround."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from compilegate.processes.child_process import ObserverError
from compilegate.records.part import Held, Kernel
from compilegate.triage.findings import Files, Findings
from compilegate.triage.scripts import programs, running
from compilegate.triage.search import ladder, place, smallest
from compilegate.triage.search.costs import why_no_script
from compilegate.triage.search.seen import Seen
from compilegate.triage.search.suspect import Suspect, is_of_cpp
from compilegate.triage.search.trials import OutOfTimeError, Trials, part
from compilegate.triage.steps import dying_operator, lines, own_code, workarounds
from compilegate.triage.steps.causes import Cause, recognise
from compilegate.triage.steps.scripting import Scripting

#: The share of the time that is left, for the place.
_PLACE = 0.35
#: The same for smaller sizes.
_SIZES = 0.2
#: The steps whose results the report of an earlier culprit of the same cause has.
_OF_FIRST = ("sizes", "script", "bisection", "line")
#: Seconds after which a script hangs whose case did not.
_STUCK_S = 120.0
#: With less time than this, in seconds, no bisection is begun.
_BISECTION_S = 20.0
#: The share of the time, and the most seconds, that a bisection leaves to what follows it:
#: the line of what it names, and workarounds.
_AFTER, _AFTER_S = 0.25, 60.0


class Investigation:
    """Investigates one suspect.

    Args:
        suspect: The case.
        folder: Where scripts and logs are written.
        files: The user's files.
        seconds: The time for all of it.
        say: Is given a line for each thing that is done.
        earlier: The causes of earlier culprits.

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
        *,
        earlier: Sequence[Cause] = (),
    ) -> None:
        self.findings = Findings()
        self._suspect, self._folder, self._files = suspect, folder, files
        self._say, self._earlier = say, earlier
        scratch = Path(tempfile.mkdtemp(prefix="compilegate-triage-"))
        self._until, self._scratch = time.monotonic() + seconds, scratch
        self._trials = Trials(
            suspect, scratch, files.zoo, files.root, tf32=files.tf32, until=self._until
        )

    def run(self) -> None:
        """Do everything that there is time for."""
        steps: dict[str, Callable[[], None]] = {
            "costs": self._explain_costs,
            "stage": self._find_stage,
            "code of others": lambda: own_code.find(self._trials, self.findings, self._say),
            "recognition": self._recognise,
            "stack": lambda: dying_operator.find(self._trials, self.findings, self._say),
            "place": self._find_place,
            "sizes": self._shrink,
            "script": self._write_script,
            "bisection": self._bisect,
            "line": lambda: lines.find(self._trials, self.findings, self._say, self._files.root),
            "workaround": lambda: workarounds.find(self._trials, self.findings, self._say),
        }
        try:
            for name, step in steps.items():
                if self.findings.is_recognised and name in _OF_FIRST:
                    continue
                began = time.monotonic()
                try:
                    step()
                except OutOfTimeError:
                    if time.monotonic() > self._until:
                        self.findings.notes.append(f"time ran out in this step: {name}")
                        break
                    self.findings.notes.append(f"too little time to finish this step: {name}")
                except OSError:  # the disk is full: no other step can write, either
                    raise
                except Exception as error:
                    self.findings.notes.append(_note_of(name, error))
                except KeyboardInterrupt as error:
                    what = str(error) or "Ctrl-C"
                    self.findings.notes.append(f"{what} ended it in this step: {name}")
                    raise
                finally:
                    self.findings.seconds[name] = time.monotonic() - began
                if name == "stage" and not self.findings.stage.is_confirmed:
                    break
        finally:
            self._trials.close()
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _find_stage(self) -> None:
        self.findings.stage = stage = ladder.climb(self._trials)
        for backend, seen in stage.seen.items():
            self._say(f"  {backend}: {_shown(self._suspect, seen)}")
        doubt = "" if stage.is_confirmed else f", because {stage.doubt}"
        self._say(f"  stage: {stage.name}{doubt}")

    @property
    def _backend(self) -> str:
        """The backend under which the place is searched: the first, and fastest, that fails."""
        return self.findings.stage.shown_by or self._suspect.observation.backend

    def _explain_costs(self) -> None:
        cost = self._suspect.cost
        if cost not in ("time", "memory"):
            return
        told, why = self._trials.told(part(), "kernels" if cost == "time" else "held")
        if cost == "time":
            self.findings.kernels = [Kernel(**kernel) for kernel in told or ()]
        else:
            self.findings.held = [Held(**held) for held in told or ()]
        if why:
            self.findings.notes.append(f"no profile: {why}")

    def _recognise(self) -> None:
        """Look for the cause of an earlier culprit, which is quicker than a search."""
        findings, backend = self.findings, self.findings.stage.backend
        if not self._earlier or backend in ("", "inductor") or not self._has_operators:
            return
        graph, _ = self._trials.told(part(), "graph")
        if graph is None:  # the child died, as the case does
            return
        try:
            program = programs.program_of(graph, self._suspect.case, backend)
        except programs.UnprintableError:
            return
        findings.is_recognised = recognise(self._trials, findings, program, self._earlier)
        if findings.is_recognised:
            steps = f"{', '.join(_OF_FIRST[:-1])} and {_OF_FIRST[-1]}"
            findings.notes.append(f"{steps}: an earlier culprit has the same cause")
            self._say(f"  recognised: {findings.place.operator} fails alone, as in another culprit")

    @property
    def _has_operators(self) -> bool:
        suspect = self._suspect
        return not suspect.was_not_compiled and (suspect.is_of_values or suspect.fails_as_a_whole)

    def _find_place(self) -> None:
        if not self._has_operators or self.findings.alone is not None:
            return
        found = self.findings.place
        try:
            self._trials.within(_PLACE, lambda: place.descend(self._trials, found, self._backend))
        finally:
            for path, seen in found.tried.items():
                self._say(f"  {path} alone: {_shown(self._suspect, seen)}")
            self._say(f"  place: {found}")

    def _shrink(self) -> None:
        """Look for smaller sizes and a plainer dtype, for what the first call shows."""
        suspect, found = self._suspect, self.findings.smallest
        calls = suspect.observation.calls
        if not (self._has_operators and suspect.is_of_first_call and calls):
            return
        sizes, backend = calls[0].sizes, self._backend
        self._trials.within(_SIZES, lambda: smallest.shrink(self._trials, found, sizes, backend))
        sizes_text = ", ".join(f"{name}={size}" for name, size in found.sizes.items())
        exact = {None: "", True: ", and in float32", False: ", and not in float32"}[found.is_exact]
        self._say(f"  still fails at {sizes_text or 'no smaller size'}{exact}")

    def _write_script(self) -> None:
        Scripting(
            trials=self._trials,
            findings=self.findings,
            folder=self._folder,
            files=self._files,
            backend=self._backend,
            say=self._say,
        ).write()

    def _bisect(self) -> None:
        findings = self.findings
        # Memory may begin to grow in one stage, and be another amount after the next one.
        backend = findings.stage.backend or ("inductor" if findings.held else "")
        if backend not in ("inductor", "aot_eager_decomp_partition"):
            return
        if part_of := findings.stage.left_out:
            findings.notes.append(f"a bisection of Inductor: without {part_of}, its code is right")
            return
        if findings.verified is None or not findings.verified.holds:
            if why_no_script(self._suspect):
                return
            findings.notes.append(
                "a bisection of the compiler: it needs a script that shows the failure, so write "
                "one by hand, or give more --minutes"
            )
            return
        left = self._until - time.monotonic()
        if left < _BISECTION_S:
            raise OutOfTimeError
        found, log = running.bisect(
            self._folder / "repro.py",
            self._scratch,
            backend,
            self._until - min(_AFTER * left, _AFTER_S),
            self._trials.patience.script_s if self._suspect.hangs else _STUCK_S,
            device=self._suspect.case.device,
            paths=findings.script.paths if findings.script else (),
            first="cpp.simdlen" if is_of_cpp(self._suspect) else "",
        )
        (self._folder / "bisection.log").write_text(log, encoding="utf-8")
        findings.bisected = found
        own_code.name_bisected(findings)
        if why := found.get("why"):
            self._say(f"  no bisection: {why}")
        else:
            named = found.get("what") or found.get("subsystem") or "nothing"
            self._say(f"  the bisection names: {named}")


def _shown(suspect: Suspect, seen: Seen) -> str:
    text = seen.besides(suspect.verdict.summary)
    return f"{seen.outcome}: {text}" if text else seen.outcome


def _note_of(step: str, error: Exception) -> str:
    """Return what a report says of a step that failed: it costs no other culprit its report."""
    if isinstance(error, ObserverError):
        return f"{step}: {error}"
    return f"{step}: a bug of compilegate, {type(error).__name__}: {error}"
