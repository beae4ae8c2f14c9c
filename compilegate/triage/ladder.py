"""The ladder of backends: the first that shows a failure names the part of the compiler."""

from __future__ import annotations

from dataclasses import dataclass, field

from compilegate.fuzzing.script import stage_named
from compilegate.processes.observer import BACKENDS
from compilegate.triage.releases import Seen
from compilegate.triage.trials import Trials

#: From the backend that only captures graphs to the one that does everything.
LADDER = tuple(reversed(BACKENDS))
#: What a script is given in place of a backend to leave everything to eager.
OFF = "off"
#: The mode that generates the same code without CUDA graphs, by the mode that records them.
_WITHOUT_GRAPHS = {"reduce_overhead": "default", "max_autotune": "max_autotune_no_cudagraphs"}


@dataclass
class Stage:
    """Where on the ladder a failure begins.

    Attributes:
        backend: The first backend that shows it; empty if it is undecided.
        seen: What each backend showed, in the order in which they were observed.
        cure: The mode without CUDA graphs in which the failure is gone; empty if it is not, or if
            the case records none.
    """

    backend: str = ""
    seen: dict[str, Seen] = field(default_factory=dict)
    cure: str = ""

    @property
    def name(self) -> str:
        """The part of the compiler that this backend adds."""
        if self.cure:
            return "CUDA graphs"
        return stage_named(self.backend) if self.backend else "undecided"

    @property
    def below(self) -> str:
        """The last backend without the failure; *off* where the first one shows it."""
        rung = LADDER.index(self.backend) if self.backend else 0
        return LADDER[rung - 1] if rung else OFF

    @property
    def is_confirmed(self) -> bool:
        """Whether the case still fails as it did."""
        return any(seen.state == "bad" for seen in self.seen.values())

    @property
    def doubt(self) -> str:
        """Why nothing follows where the failure is not confirmed."""
        if all(seen.state == "unobservable" for seen in self.seen.values()):
            return "the case could not be observed here"
        return "the failure did not show again"


def climb(trials: Trials) -> Stage:
    """Observe the case with its own backend, then with each below it, from the first on.

    Raises:
        OutOfTimeError: The time for the culprit is over.
    """
    own, stage = trials.suspect.observation.backend, Stage()
    stage.seen[own] = trials.of_backend(own)
    if stage.seen[own].state != "bad":
        return stage
    for backend in LADDER[: LADDER.index(own)]:
        stage.seen[backend] = trials.of_backend(backend)
        if stage.seen[backend].state == "bad":
            break
    found = [backend for backend in LADDER if backend in stage.seen]
    first = next(backend for backend in found if stage.seen[backend].state == "bad")
    if all(stage.seen[b].state == "good" for b in found[: found.index(first)]):
        stage.backend = first
    case = trials.suspect.case
    if stage.backend == "inductor" and case.uses_cuda_graphs:
        mode = _WITHOUT_GRAPHS[case.mode]
        seen = stage.seen[f"inductor, {option(mode)}"] = trials.of_mode(mode)
        stage.cure = mode if seen.state == "good" else ""
    return stage


def option(mode: str) -> str:
    """Return a mode as an argument of ``torch.compile``."""
    return f'mode="{mode.replace("_", "-")}"'
