"""The record of two processes that were timed in turns, one under each PyTorch.

Standard library only: the observed interpreter need not have more than torch.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

Side = Literal["baseline", "candidate"]


class Rounds(Protocol):
    """Rounds of one process: nanoseconds per call of eager and of compiled code."""

    @property
    def eager_ns(self) -> tuple[float, ...]:
        """Nanoseconds per eager call, one entry a round."""

    @property
    def compiled_ns(self) -> tuple[float, ...]:
        """Nanoseconds per compiled call, one entry a round."""

    @property
    def busy(self) -> float:
        """Share of the processor that others took while it ran."""

    @property
    def disturbance(self) -> str:
        """Why the GPU was not in its normal state while it ran; empty where it was."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How fast one process ran a case.

    Attributes:
        eager_ns: Median nanoseconds of an eager call.
        compiled_ns: Median nanoseconds of a compiled call.
        speedup: Exponential of the median of ln eager − ln compiled, over its rounds.
        rounds: The number of rounds.
        busy: Share of the processor that others took while it ran.
        disturbance: Why the GPU was not in its normal state while it ran; empty where it was.
    """

    eager_ns: float
    compiled_ns: float
    speedup: float
    rounds: int
    busy: float = 0.0
    disturbance: str = ""

    @classmethod
    def of(cls, timing: Rounds) -> Pace:
        """Return the pace of measured rounds."""
        both = list(zip(timing.eager_ns, timing.compiled_ns, strict=True))
        return cls(
            eager_ns=statistics.median(timing.eager_ns),
            compiled_ns=statistics.median(timing.compiled_ns),
            speedup=math.exp(statistics.median(math.log(e / c) for e, c in both)),
            rounds=len(both),
            busy=timing.busy,
            disturbance=timing.disturbance,
        )


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two processes on one device, timed in turns A B B A.

    Attributes:
        case: The case's id.
        number: 0 for the pair that observed the case and screens it; from 1 on, fresh pairs.
        first: Which of the two began.
        baseline: The pace under the PyTorch in use; None where it was not timed.
        candidate: The pace under the new one.
        failure: Why one of them is missing.
    """

    case: str
    number: int
    first: Side
    baseline: Pace | None = None
    candidate: Pace | None = None
    failure: str = ""


def latest(pairs: Iterable[Pair]) -> dict[tuple[str, int], Pair]:
    """Return the last pair of each case and number, given pairs in the order they were made.

    A screening pair observed the case again, so its earlier pairs belong to another session.
    """
    found: dict[tuple[str, int], Pair] = {}
    for pair in pairs:
        if pair.number == 0:
            found = {key: kept for key, kept in found.items() if key[0] != pair.case}
        found[pair.case, pair.number] = pair
    return found
