"""Observes trials: the case with another backend, parts of its model, and reduced programs.

All of them pass through the machinery that observes cases, so the same oracle judges them, and a
crash or a hang ends one child.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

from compilegate.fuzzing.outcome import Symptom, outcome_of
from compilegate.fuzzing.program import Program, zoo_text
from compilegate.judging.completeness import nothing_compiled
from compilegate.processes.observer import Observer
from compilegate.processes.server_process import Launch
from compilegate.records.case import REPLAYING_CALLS, Case
from compilegate.records.observation import Observation, Stage, Want
from compilegate.records.part import Part
from compilegate.records.request import Request
from compilegate.triage.search import sightings
from compilegate.triage.search.patience import Patience
from compilegate.triage.search.seen import Seen
from compilegate.triage.search.suspect import Suspect

#: Seconds without progress after which a trial hangs whose case did not.
_STUCK_S = 240.0
#: What a child tells of a part.
_OfCall = Literal["graph", "operators", "lines", "construction", "checkpoints"]
Told = _OfCall | Literal["cpp", "raising", "tree", "own", "kernels", "held"]
#: What is seen of a case whose disabled submodules are all of it.
NOTHING_LEFT = "nothing would be left to compile"


class OutOfTimeError(Exception):
    """The time for a culprit is over."""


class Trials:
    """Observes the trials of one suspect.

    Args:
        suspect: What is triaged.
        folder: Where the trials' zoo file and what children tell is written.
        zoo: The user's zoo files.
        root: The folder that files are named from; by default the current one.
        tf32: Whether f32 products round to TF32.
        until: When to end, on the monotonic clock.

    Attributes:
        suspect: What is triaged.
        until: When to end.
        cold: Whether trials compile in empty caches.
        wants: What trials of the whole case observe.
        patience: How long trials of a case that hung may make no progress.
    """

    def __init__(
        self,
        suspect: Suspect,
        folder: Path,
        zoo: Sequence[str],
        root: str = "",
        *,
        tf32: bool,
        until: float,
    ) -> None:
        self.suspect, self.until = suspect, until
        self.cold, self.wants = suspect.is_cold, suspect.wants
        self.patience = Patience(suspect.observation.failure)
        self._folder, self._tf32, self._seed = folder, tf32, suspect.observation.seed
        self._file = folder / "trials.py"
        self._numbers = itertools.count(1)
        self._file.write_text("", encoding="utf-8")
        launch = Launch(zoo=(*zoo, str(self._file)), root=root or str(Path.cwd()))
        self._observer = Observer(launch, self._progress)

    def of_backend(self, backend: str, mode: str = "") -> Seen:
        """Return whether the case fails with a backend.

        Args:
            backend: The compiler backend.
            mode: Another mode of Inductor; by default that of the case.
        """
        suspect = self.suspect
        return self.of_case(replace(suspect.case, mode=mode or suspect.case.mode), backend)

    def of_case(self, case: Case, backend: str) -> Seen:
        """Return whether another case of the model fails as the suspect does.

        Args:
            case: The case.
            backend: The compiler backend.
        """
        suspect = self.suspect
        made = self._observe(case.id, case.model, backend, self.wants, seed=self._seed)
        if case.dynamic != suspect.case.dynamic:
            return sightings.with_remedy(suspect, made)
        is_own = (case, backend) == (suspect.case, suspect.observation.backend)
        return sightings.of_whole(suspect, made, is_own=is_own)

    def widen(self) -> bool:
        """Observe all that the run observed: timed rounds make calls, too. Return if it is more."""
        narrow, self.wants = self.wants, self.suspect.observation.wants
        return {*narrow} != {*self.wants}

    def of_part(self, part: Part, backend: str = "") -> Seen:
        """Return whether a part of the model fails: see :meth:`of_parts`."""
        return next(self.of_parts([part], backend))

    def of_parts(self, parts: Sequence[Part], backend: str = "") -> Iterator[Seen]:
        """Yield whether each part fails, as soon as it is observed.

        One child observes all of them, so the model gets its weights once.

        Args:
            parts: The parts. Their names, cases and seeds are filled in.
            backend: The compiler backend; by default that of the case.
        """
        suspect = self.suspect
        backend = backend or suspect.observation.backend
        least = REPLAYING_CALLS if suspect.case.uses_cuda_graphs else 1
        named = [replace(self._named(part), calls=max(part.calls, least)) for part in parts]
        self._write(_PARTS.format(parts=[asdict(part) for part in named]))
        for part in named:
            wants = ("capture",) if part.path else self.wants
            case_id, key = _case_id(part.name, suspect), named[0].name
            yield _seen(suspect, part, self._observe(case_id, key, backend, wants, seed=self._seed))

    def told(self, part: Part, what: Told) -> tuple[Any, str]:
        """Return what a child tells of a part; None, and why, if the child could not.

        Args:
            part: The part.
            what: The field of :class:`Part` that names the file.
        """
        target = self._folder / f"{what}.json"
        target.unlink(missing_ok=True)
        asked: dict[str, Any] = {what: str(target)}
        part = replace(self._named(part), **asked)
        self._write(_PARTS.format(parts=[asdict(part)]))
        case_id = _case_id(part.name, self.suspect)
        made = self._observe(case_id, part.name, "eager", ("capture",), seed=self._seed)
        if target.exists():
            return json.loads(target.read_text(encoding="utf-8")), ""
        if (failure := made.failure) is None:
            return None, made.status
        last = failure.output.strip().splitlines()[-1:]
        return None, ": ".join((failure.kind, failure.message, *last))

    def symptoms(self, programs: Sequence[Program]) -> Iterator[Symptom | None]:
        """Yield how each program fails; None if it does not as the case does, or is undecided."""
        named = [replace(one, name=f"triage.{next(self._numbers)}") for one in programs]
        self._write(zoo_text(named, _set_up(self.suspect.case)))
        for one in named:
            made = self._observe(one.case, named[0].name, one.backend, ("capture",), seed=0)
            symptom = outcome_of(made).symptom
            is_alike = symptom is not None and self.suspect.is_alike(symptom)
            if is_alike and made.status in ("crashed", "timed_out") and one.backend != "eager":
                # It must return without the compiler: an index may be out of range.
                made = self._observe(one.case, named[0].name, "eager", ("capture",), seed=0)
                is_alike = made.status == "completed"
            yield symptom if is_alike else None

    def first_failing(
        self, programs: Sequence[Program], suits: Symptom, until: float
    ) -> Program | None:
        """Return the first program that fails in a certain way; None if none does.

        Args:
            programs: The programs.
            suits: How it fails.
            until: When to end, on the monotonic clock.
        """
        for program, symptom in zip(programs, self.symptoms(programs), strict=True):
            if symptom is not None and symptom.is_like(suits):
                return program
            if time.monotonic() > until:
                break
        return None

    def within(self, share: float, step: Callable[[], object]) -> None:
        """Take a step in a share of the time that is left."""
        before = self.until
        self.until = time.monotonic() + share * (before - time.monotonic())
        try:
            step()
        finally:
            self.until = before

    def close(self) -> None:
        """End the child and its server."""
        self._observer.close()

    def _named(self, part: Part) -> Part:
        observed = self.suspect.observation
        name = f"triage.{next(self._numbers)}"
        made = replace(part, name=name, case=observed.case, seed=observed.seed)
        facts = self.suspect.probing_call
        return replace(made, index=self.suspect.shown_in, probe=facts.probe if facts else "")

    def _write(self, text: str) -> None:
        self._file.write_text(text, encoding="utf-8")
        self._observer.end_child()  # the next one reads the file

    def _observe(
        self, case_id: str, key: str, backend: str, wants: Sequence[Want], *, seed: int
    ) -> Observation:
        suspect = self.suspect
        if time.monotonic() > self.until:
            raise OutOfTimeError
        request = Request(
            case=case_id,
            wants=tuple(wants),
            seed=seed,
            backend=backend,
            tf32=self._tf32,
            cold=self.cold,
        )
        self.patience.step("")
        made = self._observer.observe(
            request,
            model=key,
            device=suspect.case.device,
            timeout_s=self.patience.trial_s if suspect.hangs else _STUCK_S,
        )
        self.patience.end(hung=made.status == "timed_out")
        return made

    def _progress(self, case_id: str, stage: Stage, elapsed_s: float, at_work: str) -> None:
        self.patience.step(stage)
        if time.monotonic() > self.until:
            raise OutOfTimeError


_PARTS = """\
from compilegate.observe.dissect import parts

parts.register({parts})
"""


def _set_up(case: Case) -> list[str]:
    """Return the lines that do to PyTorch what the recipe of a case does."""
    prepare = f"parts.set_up({case.model!r}, {case.device!r})"
    return ["from compilegate.observe.dissect import parts", prepare]


def part(**fields: Any) -> Part:
    """Return a part whose name, case and seed :class:`Trials` fills in."""
    return Part(name="", case="", seed=0, **fields)


def _seen(suspect: Suspect, part: Part, made: Observation) -> Seen:
    """Return whether a part fails, in which submodules or a stance may leave much to eager."""
    if part.stance:
        return sightings.in_eager(suspect, made)
    if part.path:
        return suspect.seen_in_part(made)
    is_disabled = part.disabled or part.disabled_at
    if is_disabled and made.status == "completed" and nothing_compiled(made):
        return Seen("unobservable", NOTHING_LEFT)
    if part.config or part.disabled_at:
        return sightings.with_remedy(suspect, made)
    is_reduced = part.identities or part.sizes
    return sightings.in_reduced(suspect, made) if is_reduced else suspect.seen_in(made)


def _case_id(name: str, suspect: Suspect) -> str:
    """Return the case of a part: that of the suspect, but what is not whole is not regional."""
    return f"{name}-{suspect.case.device}-{suspect.case.setting}"
