"""The ladder of backends: the first that shows a failure names the part of the compiler."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from compilegate.fuzzing.script import stage_named
from compilegate.processes.observer import BACKENDS
from compilegate.records.case import torch_mode
from compilegate.triage.search.seen import Seen
from compilegate.triage.search.trials import Trials

#: From the backend that only captures graphs to the one that does everything.
LADDER = tuple(reversed(BACKENDS))
#: What a script is given in place of a backend to leave everything to eager.
OFF = "off"
#: By mode, the modes that leave out one thing after the other, and what each leaves out.
_SIMPLER = {
    "reduce_overhead": {"default": "CUDA graphs"},
    "max_autotune": {"max_autotune_no_cudagraphs": "CUDA graphs", "default": "autotuning"},
    "max_autotune_no_cudagraphs": {"default": "autotuning"},
}


@dataclass
class Stage:
    """Where on the ladder a failure begins.

    Attributes:
        backend: The first backend from which on all show it; empty if it is undecided.
        seen: What each backend showed, in the order in which they were observed.
        cure: The first simpler mode in which the failure is gone; empty if it is in none.
        left_out: What that mode leaves out: CUDA graphs or autotuning.
        is_cold: Whether it shows only where nothing is read from PyTorch's caches.
    """

    backend: str = ""
    seen: dict[str, Seen] = field(default_factory=dict)
    cure: str = ""
    left_out: str = ""
    is_cold: bool = False

    @property
    def name(self) -> str:
        """The part of the compiler that this backend or mode adds."""
        if self.cure:
            return self.left_out
        return stage_named(self.backend) if self.backend else "undecided"

    @property
    def below(self) -> str:
        """The last backend without the failure; *off* where the first one shows it."""
        rung = LADDER.index(self.backend) if self.backend else 0
        return LADDER[rung - 1] if rung else OFF

    @property
    def off(self) -> str:
        """What a script is given to leave out the stage: a backend, or one and a mode."""
        return f"{self.backend} {torch_mode(self.cure)}" if self.cure else self.below

    @property
    def apart(self) -> list[str]:
        """The backends below the stage that fail, though one that does more passes."""
        below = LADDER[: LADDER.index(self.backend)] if self.backend else ()
        return [name for name in below if name in self.seen and self.seen[name].state == "bad"]

    @property
    def is_confirmed(self) -> bool:
        """Whether the case still fails as it did."""
        return any(seen.state == "bad" for seen in self.seen.values())

    @property
    def doubt(self) -> str:
        """Why nothing follows where the failure is not confirmed."""
        if self.seen and all(seen.state == "unobservable" for seen in self.seen.values()):
            return f"the case could not be observed here: {next(iter(self.seen.values())).text}"
        return "the failure did not show again" if self.seen else "the search ended too early"


def climb(trials: Trials) -> Stage:
    """Observe the case with its own backend, then with each below it, from the first on.

    A backend that shows it is followed by the next one, which does more. If that passes, the first
    one has a failure of its own: what it leaves out would have made the case right.

    What does not show again may have been hidden by compiled code in PyTorch's caches, so it is
    observed with empty ones. What fails in Inductor alone is observed in simpler modes, too.

    Raises:
        OutOfTimeError: The time for the culprit is over.
    """
    own, stage = trials.suspect.observation.backend, Stage()
    stage.seen[own] = trials.of_backend(own)
    if stage.seen[own].state == "good" and trials.widen():
        stage.seen[own] = trials.of_backend(own)
    if stage.seen[own].state == "good" and not trials.cold:
        trials.cold = stage.is_cold = True
        stage.seen[own] = trials.of_backend(own)
    if stage.seen[own].state != "bad":
        return stage
    before = ""
    for backend in LADDER[: LADDER.index(own)]:
        stage.seen[backend] = trials.of_backend(backend)
        if before == "bad" and stage.seen[backend].state != "good":
            break
        before = stage.seen[backend].state
    found = [backend for backend in LADDER if backend in stage.seen]
    states = [stage.seen[backend].state for backend in found]
    rungs = len(states) - states[::-1].index("good") if "good" in states else 0
    if states[rungs] == "bad" and "unobservable" not in states[:rungs]:
        stage.backend = found[rungs]
    if stage.backend == "inductor":
        _simplify(trials, stage)
    return stage


def _simplify(trials: Trials, stage: Stage) -> None:
    """Observe the case in simpler modes, until it passes or shows something else."""
    case = trials.suspect.case
    for mode, left_out in _SIMPLER.get(case.mode, {}).items():
        if not replace(case, mode=mode).possible:
            continue  # nothing autotunes without CUDA graphs on a CPU: there are none to leave out
        seen = stage.seen[f"inductor, {option(mode)}"] = trials.of_backend("inductor", mode)
        if seen.state == "good":
            stage.cure, stage.left_out = mode, left_out
        if seen.state != "bad":
            return


def option(mode: str) -> str:
    """Return a mode as an argument of ``torch.compile``."""
    return f'mode="{torch_mode(mode)}"'
