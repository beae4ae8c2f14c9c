"""Passes what one worker observes to the controller, and to the worker that judges pairs.

The controller writes the run file from the reports of tests. The worker that judges by the pairs of
all cases reads there what the others have observed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from compilegate.judging.aspects import Aspect
from compilegate.records.observation import Observation
from compilegate.records.pair import Pair
from compilegate.records.run import encode
from compilegate.records.verdict import Verdict
from compilegate.runs import files
from compilegate.session.observations import Observations
from compilegate.session.plan import Plan
from compilegate.upgrade import paired_baseline
from compilegate.upgrade.paired_baseline import PairedBaseline


def note(paired: PairedBaseline | None, *records: Any) -> None:
    """Note what another process of the session has found out.

    Args:
        paired: The version in use; None in a session of one version.
        records: Pairs, and observations and verdicts of the version in use. Others are left out.
    """
    if paired is None:
        return
    for record in records:
        match record:
            case Observation():
                paired.observed[record.case] = record
            case Verdict():
                paired.verdicts[record.case, record.aspect] = record
            case Pair():
                paired.pairs[record.case, record.number] = record


def waiting(run: Path) -> Path:
    """Return the file of the pairs that a worker has timed and not reported yet."""
    return run.with_suffix(".pairs")


def take_waiting(run: Path) -> list[str]:
    """Return the pairs of a worker that was stopped before its report, and remove their file.

    Args:
        run: The run that the controller writes.
    """
    try:
        text = waiting(run).read_text(encoding="utf-8")
        waiting(run).unlink()
    except OSError:
        return []
    *whole, _ = text.split("\n")  # JSON may hold other ends of lines
    return [f"{line}\n" for line in whole]


class Forwarder:
    """Plugin of a worker whose session observes every case under two versions.

    A test that waits for all cases may time pairs for minutes before its report. They are also kept
    in a file until then, so that Ctrl-C loses none.

    Args:
        plan: The plan of the session.
        observations: What this worker has observed.
        run: The run that the controller writes.
    """

    def __init__(self, plan: Plan, observations: Observations, run: Path) -> None:
        self._plan, self._observations = plan, observations
        self._run: Path | None = run
        self._waiting = waiting(run)
        self._records: list[Mapping[str, Sequence[str]]] = []
        self._pairs: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Read what the others have observed, before the first test that waits for it.

        https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_runtest_setup
        """
        aspect = Aspect.of(item)
        if self._run is None or aspect is None or not self._plan.waits(aspect):
            return
        run, self._run = files.read(self._run), None
        theirs = paired_baseline.stored(run)
        assert theirs is not None
        for some in (theirs.observed, theirs.verdicts, theirs.pairs):
            note(self._plan.paired, *some.values())
        self._observations.add(run.observations)

    def pytest_compilegate_observed(self, records: Mapping[str, Sequence[str]]) -> None:
        """Keep the records of a case for the report."""
        self._records.append(records)

    def pytest_compilegate_pair(self, pair: Pair) -> None:
        """Keep a fresh pair of a suspect for the report."""
        self._pairs.append(encode(pair))
        with contextlib.suppress(OSError), self._waiting.open("a", encoding="utf-8") as file:
            file.write(f"{encode(pair)}\n")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Attach the records to the report, which xdist sends to the controller.

        https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_runtest_makereport
        """
        report = yield
        extra: Any = report
        if call.when == "setup" and (self._records or self._pairs):
            extra.compilegate_forwarded = {"observed": self._records, "pairs": self._pairs}
            self._records, self._pairs = [], []
            with contextlib.suppress(OSError):
                self._waiting.unlink(missing_ok=True)
        return report
