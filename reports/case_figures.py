"""The figures of a case that a table shows, taken from its digest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compilegate.records.statistics import Interval, paired_speedup
from compilegate.records.verdict import Outcome
from compilegate.runs.archive import Seen
from compilegate.runs.digest import Digest, Judged

#: Tensors of which eager itself is off by more than this are left out of the worst error.
ILL_CONDITIONED = 0.1
#: The outcome that stands for a case: the first of these that any of its verdicts has.
GRAVITY: tuple[Outcome, ...] = (
    "failed",
    "inconclusive",
    "expected_failure",
    "passed",
    "skipped",
)


@dataclass(frozen=True)
class Figures:
    """What one case came to, in numbers; None for what was not measured.

    Attributes:
        forward: Largest root mean square error of an output, relative to its scale.
        gradients: Of a gradient.
        breaks: Distinct graph breaks.
        recompilations: Compilations after the first, of all code.
        compile_s: Seconds of compiling.
        cold: Whether in an empty cache.
        speedup: Over eager, with its interval.
        memory_ratio: Compiled peak over eager's.
    """

    forward: float | None = None
    gradients: float | None = None
    breaks: int | None = None
    recompilations: int | None = None
    compile_s: float | None = None
    cold: bool = False
    speedup: Interval | None = None
    memory_ratio: float | None = None


def figures_of(digest: Digest) -> Figures:
    """The figures of a case."""
    capture, timing, memory = digest.capture, digest.timing, digest.memory
    return Figures(
        forward=_worst(digest, "outputs"),
        gradients=_worst(digest, "gradients"),
        breaks=len(capture.breaks) if capture else None,
        recompilations=sum(bool(c.reason) for c in capture.compilations) if capture else None,
        compile_s=digest.compile_time.total_s if digest.compile_time else None,
        cold=digest.cold,
        speedup=paired_speedup(timing.eager_ns, timing.compiled_ns) if timing else None,
        memory_ratio=memory.ratio if memory and memory.eager_peak_bytes else None,
    )


def _worst(digest: Digest, group: str) -> float | None:
    groups = (getattr(call, group) for call in digest.calls)
    return max(
        (
            error.compiled_rms
            for found in groups
            for error in found.errors
            if error.scale and error.eager_rms <= ILL_CONDITIONED
        ),
        default=None,
    )


@dataclass(frozen=True)
class Standing:
    """Where a case of one run stands: all that a table needs, and little to keep.

    Attributes:
        observed: Whether it was.
        verdicts: By aspect.
        figures: What was measured.
        ended_early: Whether it crashed, raised or did not come to its end otherwise.
    """

    observed: bool
    verdicts: Mapping[str, Judged]
    figures: Figures
    ended_early: bool = False

    @classmethod
    def of(cls, seen: Seen) -> Standing:
        """The standing of a case."""
        figures = figures_of(seen.digest) if seen.digest else Figures()
        ended_early = seen.digest is not None and seen.digest.failure is not None
        return cls(seen.digest is not None, seen.verdicts, figures, ended_early)

    @property
    def outcome(self) -> Outcome | None:
        """The gravest outcome of its verdicts; None where it has none."""
        outcomes = {verdict.outcome for verdict in self.verdicts.values()}
        return next((outcome for outcome in GRAVITY if outcome in outcomes), None)
