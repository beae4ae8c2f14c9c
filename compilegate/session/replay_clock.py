"""Shows measured rounds through pytest-benchmark, in its table and in its files.

The child timed the rounds in pairs. Here a clock that moves by each round's time plays them back,
so that pytest-benchmark's own options work: https://pytest-benchmark.readthedocs.io. No verdict
reads its statistics.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest

from compilegate.records.case import AXES, Case
from compilegate.records.environment import Environment
from compilegate.records.performance import Timing
from compilegate.records.statistics import ALPHA, paired_speedup
from compilegate.session.options import judges_suites
from compilegate.session.plan import PLAN

#: The columns of pytest-benchmark's tables where none are given: they fit 80 characters.
_COLUMNS = ("median", "iqr", "rounds")
#: The options of pytest-benchmark whose users expect its tables.
_ASKING = (
    *("only", "verbose", "columns", "sort", "group_by", "name", "time_unit", "cprofile"),
    *("histogram", "compare", "compare_fail", "json", "save", "autosave"),
)
#: The values of those that always have one.
_DEFAULTS = {"sort": "min", "group_by": "group", "name": "normal"}


class ReplayClock:
    """A timer for ``@pytest.mark.benchmark(timer=…)`` that moves only while rounds are replayed."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self._now_s

    def show(self, benchmark: Any, case: Case, timing: Timing | None) -> None:
        """Replay the rounds of a case: two rows, eager and compiled, in a group of their own.

        A case that was not timed has no row.

        Args:
            benchmark: pytest-benchmark's fixture.
            case: The case.
            timing: The rounds; None if the case was not timed.
        """
        if timing is None:
            benchmark.disabled = True  # unused, pytest-benchmark would warn
            benchmark.pedantic(lambda: None, rounds=1)
            return
        benchmark.group = case.id
        benchmark.params = {"model": case.model} | {axis: getattr(case, axis) for axis in AXES}
        # A fixture makes one row and can be used once, so eager's row needs a copy.
        eager = copy.copy(benchmark)
        eager.extra_info = {}
        benchmark.extra_info |= _speedup(timing)
        self._replay(eager, "eager", timing.eager_ns)
        self._replay(benchmark, "compiled", timing.compiled_ns)

    def _replay(self, benchmark: Any, side: str, rounds_ns: Sequence[float]) -> None:
        rounds = iter(rounds_ns)

        def play_next() -> None:
            # --benchmark-cprofile makes one call more than there are rounds.
            self._now_s += next(rounds, 0.0) / 1e9

        benchmark.name = side
        benchmark.fullname = f"{benchmark.fullname}::{side}"
        benchmark.pedantic(play_next, rounds=len(rounds_ns))


def _speedup(timing: Timing) -> dict[str, float]:
    seen = paired_speedup(timing.eager_ns, timing.compiled_ns)
    return {
        "speedup": seen.value,
        "speedup_low": seen.low,
        "speedup_high": seen.high,
        "speedup_coverage": 1 - ALPHA,
    }


def describe_machine(environment: Environment) -> dict[str, Any]:
    """Return the machine and the versions, for pytest-benchmark's ``machine_info``."""
    devices = {device.kind: device.name for device in environment.devices}
    return {
        "torch": environment.versions.get("torch", "unknown"),
        "python": environment.python,
        "CUDA": environment.cuda or "none",
        "GPU": devices.get("cuda", "none"),
        "driver": next((d.driver for d in environment.devices if d.driver), "none"),
        "processor": devices.get("cpu", "unknown"),
    }


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_machine_info(
    config: pytest.Config, machine_info: dict[str, Any]
) -> None:
    """Add the environment of the observed interpreter to what pytest-benchmark writes."""
    plan = config.stash.get(PLAN, None)
    if plan is not None and plan.environment is not None:
        machine_info["compilegate"] = describe_machine(plan.environment)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Show pytest-benchmark's tables on request only, and refuse files that it would leave empty.

    A table for each case would bury the summary of the session, and the line of a case already has
    its speedup.

    Raises:
        pytest.UsageError: ``--benchmark-json`` or ``--benchmark-save`` is given with ``-n``.
    """
    if not config.pluginmanager.hasplugin("benchmark") or not judges_suites(config):
        return
    if not _asks_for_tables(config):
        config.option.benchmark_quiet = True
    if not config.getoption("benchmark_columns", None):
        config.option.benchmark_columns = [*_COLUMNS]
    is_worker = hasattr(config, "workerinput")
    if config.getoption("dist", "no") == "no" and not is_worker:
        return
    for option in ("json", "save", "autosave"):
        if config.getoption(f"benchmark_{option}", None):
            raise pytest.UsageError(
                f"--benchmark-{option} would write no benchmark with -n, because pytest-benchmark "
                "is disabled in xdist's workers: leave -n out"
            )
    # Otherwise pytest-benchmark warns that it measures nothing, as if no speed were judged.
    config.option.benchmark_disable = not config.getoption("benchmark_only", False)


def _asks_for_tables(config: pytest.Config) -> bool:
    given = {name: config.getoption(f"benchmark_{name}", None) for name in _ASKING}
    return any(value and value != _DEFAULTS.get(name) for name, value in given.items())
