"""The request that the pytest side sends to a child for one case.

Standard library only: the observed interpreter need not have more than torch.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field

from compilegate.records.observation import Stage, Want

#: The signal at which a child writes the stacks of all its threads; sent before it is killed.
#: Libraries that save their state at a signal take SIGUSR1 and SIGUSR2. A machine that only replays
#: runs may lack real-time signals.
STACKS_PLEASE: int = getattr(signal, "SIGRTMAX", signal.SIGUSR1)

#: Reports the stage that was reached, so that the pytest side knows it if the process dies.
StageReport = Callable[[Stage], None]


@dataclass(frozen=True, kw_only=True)
class Request:
    """The request for one case.

    Attributes:
        case: Its id.
        wants: What to observe.
        cold: Compile in an empty cache.
        seed: Of weights, inputs and cotangents.
        backend: The compiler backend.
        tf32: Let f32 matrix products and convolutions round to TF32 on a GPU.
        speedup_threshold: Rounds stop early once the speedup is clearly above or below this.
        timing_budget_s: Rounds stop after this long.
        in_turns: Time rounds only on command, in turns with another process.
        shares_gpu: Other cases are observed on the same GPU while this one is timed.
        account: The file that says for how many seconds the child was stopped, where it shares the
            machine with other children and what it times takes turns; empty otherwise.
        processors: The processors on which the child runs, except in its turns; empty for all.
        compiles_alone: The first compilation takes a turn, too.
        gpus: All GPUs of the session, as ``CUDA_VISIBLE_DEVICES`` names them, where the child sees
            one of them; empty where it sees all.
        unprobed: Why the case gets no extreme floating numbers; empty if it does.
        unprobed_calls: Why it gets no other probing call, by what the call has.
        eager_extremes: Only eager is called, and only with these, to see whether it survives them.
    """

    case: str
    wants: tuple[Want, ...]
    cold: bool = False
    seed: int = 0
    backend: str = "inductor"
    tf32: bool = False
    speedup_threshold: float = 1.0
    timing_budget_s: float = 10.0
    in_turns: bool = False
    shares_gpu: bool = False
    account: str = ""
    processors: tuple[int, ...] = ()
    compiles_alone: bool = False
    gpus: tuple[str, ...] = ()
    unprobed: str = ""
    unprobed_calls: dict[str, str] = field(default_factory=dict)
    eager_extremes: bool = False
