"""Shows measured rounds through pytest-benchmark.

The rounds were timed in the child, in pairs; here they are played back through a clock that moves
by what each round took, so that the table, ``--benchmark-json`` and ``--benchmark-compare`` work as
people know them. No verdict reads them.
"""

from __future__ import annotations

from typing import Any

from compilegate.records.performance import Timing


class ReplayClock:
    """A timer for ``@pytest.mark.benchmark(timer=…)`` that moves only when it is told to."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def __call__(self) -> float:
        """The time in seconds."""
        return self._now_s

    def show(self, benchmark: Any, timing: Timing | None) -> None:
        """Play the compiled rounds back through a ``benchmark`` fixture.

        A case that was not timed leaves the fixture unused, and says so.

        Args:
            benchmark: pytest-benchmark's fixture.
            timing: The rounds.
        """
        if timing is None:
            benchmark.disabled = True  # used, or pytest-benchmark warns, but without a row
            benchmark.pedantic(lambda: None, rounds=1)
            return
        rounds = iter(timing.compiled_ns)

        def play_next() -> None:
            # --benchmark-cprofile calls once more than there are rounds.
            self._now_s += next(rounds, 0.0) / 1e9

        benchmark.extra_info["eager_median_s"] = (
            sorted(timing.eager_ns)[len(timing.eager_ns) // 2] / 1e9
        )
        benchmark.pedantic(play_next, rounds=len(timing.compiled_ns))
