"""The ladder of backends: the first that shows a failure names the part of the compiler."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from compilegate.fuzzing.script import stage_named
from compilegate.processes.observer import BACKENDS
from compilegate.records.case import torch_mode
from compilegate.records.part import CheckpointDraws
from compilegate.triage.search import costs
from compilegate.triage.search.seen import Seen
from compilegate.triage.search.trials import Trials, part

#: From the backend that only captures graphs to the one that does everything.
LADDER = tuple(reversed(BACKENDS))
#: What a script is given in place of a backend to leave everything to eager.
OFF = "off"
#: The backend whose backward draws other numbers inside a checkpoint, though nothing is wrong: the
#: partitioner has them drawn again, which it does not run. And the first that draws the same.
_REDRAWS, _DRAWS_ALIKE = "eager", "aot_eager"
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
        draws: What is drawn inside checkpoints, where the failure may depend on it.
        is_recomputed: Whether the case passes where the backward computes nothing again that is in
            a checkpoint.
    """

    backend: str = ""
    seen: dict[str, Seen] = field(default_factory=dict)
    cure: str = ""
    left_out: str = ""
    is_cold: bool = False
    draws: CheckpointDraws = field(default_factory=CheckpointDraws)
    is_recomputed: bool = False

    @property
    def name(self) -> str:
        """The part of the compiler that this backend or mode adds."""
        if self.cure:
            return self.left_out
        if self.is_recomputed:
            return "partitioning"
        return stage_named(self.backend) if self.backend else "undecided"

    @property
    def below(self) -> str:
        """The last backend without the failure; *off* where no backend is without it."""
        rung = LADDER.index(self.backend) if self.backend else 0
        below = LADDER[rung - 1] if rung else OFF
        return OFF if below == _REDRAWS and self.draws.kept else below

    @property
    def shown_by(self) -> str:
        """The first backend that shows it, and that is right where nothing is wrong."""
        return _DRAWS_ALIKE if self.backend == _REDRAWS and self.draws.kept else self.backend

    @property
    def off(self) -> str:
        """What a script is given to leave out the stage: a backend, or one and a mode."""
        return f"{self.backend} {torch_mode(self.cure)}" if self.cure else self.below

    @property
    def apart(self) -> list[str]:
        """The backends below the stage that fail, though one that does more passes."""
        below = LADDER[: LADDER.index(self.backend)] if self.backend else ()
        return [name for name in below if name in self.seen and self.seen[name].state == "bad"]

    def rungs(self) -> list[tuple[str, Seen]]:
        """Return what was seen in the order of the ladder, and simpler modes behind it."""
        last = len(LADDER)
        order = {backend: rung for rung, backend in enumerate(LADDER)}
        return sorted(self.seen.items(), key=lambda one: order.get(one[0], last))

    @property
    def is_confirmed(self) -> bool:
        """Whether the case still fails as it did."""
        return any(seen.state == "bad" for seen in self.seen.values())

    @property
    def doubt(self) -> str:
        """Why nothing follows where the failure is not confirmed."""
        if self.draws.kept:
            return (
                f"`{_REDRAWS}` draws other numbers in the backward of a checkpoint, right or wrong"
            )
        if other := next((seen for seen in self.seen.values() if seen.is_other), None):
            return f"the failure did not show again: {other.text}"
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
    if stage.seen[own].state == "bad":
        stage.draws = _drawn(trials)
    if own == _REDRAWS and stage.draws.kept:
        stage.seen[own] = _seen(trials, stage, own)
    if stage.seen[own].state != "bad":
        return stage
    before = ""
    for backend in LADDER[: LADDER.index(own)]:
        stage.seen[backend] = _seen(trials, stage, backend)
        if before == "bad" and stage.seen[backend].state != "good":
            break
        before = stage.seen[backend].state
    found = [backend for backend in LADDER if backend in stage.seen]
    states = [stage.seen[backend].state for backend in found]
    rungs = len(states) - states[::-1].index("good") if "good" in states else 0
    if states[rungs] == "bad" and "unobservable" not in states[:rungs]:
        stage.backend = "" if costs.is_below_eager(trials.suspect) else found[rungs]
    if stage.backend == "inductor":
        _simplify(trials, stage)
    elif stage.backend != _REDRAWS and stage.draws.kept:
        kept = trials.of_part(part(recomputes=False), stage.backend)
        stage.is_recomputed = kept.state == "good"
    return stage


def _drawn(trials: Trials) -> CheckpointDraws:
    """Return what is drawn inside checkpoints; nothing where no backward makes it show."""
    suspect = trials.suspect
    aspect, observation = suspect.verdict.aspect, suspect.observation
    # Outputs are there before a backward draws.
    may_show = aspect == "randomness" or (suspect.is_of_values and aspect != "forward")
    if not (may_show and observation.draws and suspect.case.phase == "train"):
        return CheckpointDraws()
    told, _ = trials.told(part(), "checkpoints")
    return CheckpointDraws(**{name: (*lines,) for name, lines in (told or {}).items()})


def _seen(trials: Trials, stage: Stage, backend: str) -> Seen:
    """Observe the case with a backend that may draw other numbers in checkpoints than it should.

    Where nothing is computed again, nothing is drawn again.
    """
    if backend == _REDRAWS and stage.draws.kept:
        return trials.of_part(part(recomputes=False), backend)
    return trials.of_backend(backend)


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
