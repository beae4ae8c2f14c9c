"""Writes the run file from the reports of all workers, and knows what the session has come to."""

from __future__ import annotations

import datetime
import json
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from _pytest.junitxml import xml_key

from compilegate.judging.aspects import Aspect
from compilegate.judging.budgets import BudgetError
from compilegate.judging.budgets_update import add_exact_entries
from compilegate.layout import PACKAGE, SHIPPED_BUDGETS
from compilegate.records.case import Case, case_id_of, suite_of
from compilegate.records.environment import Environment
from compilegate.records.observation import Observation
from compilegate.records.pair import Pair
from compilegate.records.run import SCHEMA, Closing, Header, encode
from compilegate.records.verdict import Verdict
from compilegate.runs import files
from compilegate.runs.archive import Seen
from compilegate.session.baseline_run import BaselineRecord
from compilegate.session.plan import Gate
from compilegate.session.workers import count_of
from compilegate.upgrade.comparison import CaseComparison, Comparison, compare_unfinished
from compilegate.upgrade.decision import decide


class Recorder:
    """Plugin of the process that reports: the only one, or xdist's controller.

    Args:
        config: pytest's.
        gate: The plan.

    Attributes:
        gate: The plan.
        expected: How many tests a case has, by case id.
        verdicts: By case id.
        writer: Of the run file; None for a replay that is not saved.
        beside: The baseline's run file.
        comparison: The session held against an earlier run, once it is over.
        budget_changes: What ``--budgets-update`` did.
    """

    def __init__(self, config: pytest.Config, gate: Gate) -> None:
        self._config = config
        self.gate = gate
        self._started = time.monotonic()
        self.expected: Counter[str] = Counter()
        self._reported: Counter[str] = Counter()
        #: How many tests a case has that wait for all other cases; its line does not.
        self._last: Counter[str] = Counter()
        self._observations: dict[str, Observation] = {}
        self.verdicts: dict[str, list[Verdict]] = {}
        #: When the last test of each worker ended.
        self._ended: dict[str, float] = {}
        self._proposals: dict[Case, dict[str, Any]] = {}
        self.budget_changes: list[str] = []
        self._upgraded: set[str] = set()
        self._comparisons: dict[str, CaseComparison] = {}
        self.comparison: Comparison | None = None
        self.writer = self._open_writer()
        self.beside = BaselineRecord(gate.paired, self.writer)

    def _open_writer(self) -> files.Writer | None:
        options = self.gate.options
        if self.gate.replays and not options.save:
            return None
        if options.resume and self.gate.stored:
            return files.Writer(self.gate.stored.path, self.gate.stored)
        now = datetime.datetime.now().strftime("%Y-%m-%d-%H%M%S-%f")
        return files.Writer(options.runs / f"{options.save or now}.jsonl")

    # What is planned: known after collection here, after the first worker's under xdist.

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Learns the plan."""
        if session.items:
            self._plan([item.nodeid for item in session.items])
        aspects = ((item, Aspect.of(item)) for item in session.items)
        waiting = (item for item, aspect in aspects if aspect and self.gate.waits(aspect))
        self._last = Counter(case_id_of(item.nodeid) for item in waiting)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """Learns the plan from the first worker: all collect the same."""
        if not self.expected:
            self._plan(ids)

    @property
    def planned(self) -> list[str]:
        """The cases that can be observed here; the others are skipped, with the reason.

        Of a replayed run also those that it lacks, or it would seem whole; unless tests were picked
        in a way that cannot be applied to these.
        """
        gone = {case.id for case in self.gate.before.gone} if self.gate.before else set()
        here = [
            case_id
            for case_id in self.expected
            if case_id not in gone and not self.gate.lacks(Case.parse(case_id))
        ]
        config = self._config
        picked = config.getoption("keyword") or any("::" in argument for argument in config.args)
        return here if picked else [*here, *self.gate.unobserved]

    def _plan(self, nodeids: list[str]) -> None:
        ours = (nodeid for nodeid in nodeids if suite_of(nodeid))
        self.expected = Counter(filter(None, map(case_id_of, ours)))
        upgrade = (nodeid for nodeid in nodeids if suite_of(nodeid) == "upgrade")
        self._upgraded = set(filter(None, map(case_id_of, upgrade)))
        environment = self.gate.environment
        if not self.expected or environment is None or self.writer is None:
            return
        if not self.gate.options.resume:
            header = self._header(environment)
            self.writer.write(header)
            self.beside.begin(header)

    def _header(self, environment: Environment) -> Header:
        gate = self.gate
        return Header(
            schema=SCHEMA,
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            environment=environment,
            arguments=gate.options.arguments,
            revision=_revision(),
            seed=gate.options.seed,
            tier=gate.tier,
            backend=gate.options.backend,
            planned=tuple(self.planned),
            baseline=self.beside.name,
            tf32=gate.options.tf32,
        )

    # What happens.

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        """Writes the records that came with a report, before anything is told of it."""
        self._ended[getattr(report, "worker_id", "")] = time.monotonic()
        case_id = case_id_of(report.nodeid)
        if case_id not in self.expected:
            return
        if lines := getattr(report, "compilegate_records", None):
            self._observations[case_id], *_ = [self._record(line) for line in lines["candidate"]]
            self.beside.write(*lines["baseline"])
        if line := getattr(report, "compilegate_verdict", None):
            verdict = self._record(line)
            self.verdicts.setdefault(case_id, []).append(verdict)
            self.beside.write(report.compilegate_baseline_verdict)
            proposal = json.loads(report.compilegate_proposal)
            if proposal:
                self._proposals.setdefault(Case.parse(case_id), {}).update(proposal)
        if line := getattr(report, "compilegate_comparison", None):
            self._comparisons[case_id] = msgspec.json.decode(line, type=CaseComparison)
        self._reported[case_id] += report.when == "teardown"

    @pytest.hookimpl(tryfirst=True)
    def pytest_compilegate_pair(self, pair: Pair) -> None:
        """Writes down a fresh pair of a suspect, before anything is told of it."""
        self._record(encode(pair))

    def _record(self, line: str) -> Any:
        if self.writer is not None:
            self.writer.write(line)
        return files.decode(line)

    # What is known.

    def is_over(self, case_id: str) -> bool:
        """Whether all tests of a case have ended that do not wait for all others."""
        return self._reported[case_id] >= max(self.expected[case_id] - self._last[case_id], 1)

    @property
    def is_whole(self) -> bool:
        """Whether every planned case was observed."""
        return all(map(self.observation, self.planned))

    def observation(self, case_id: str) -> Observation | None:
        """What was observed of a case, here or in the stored run that the session goes on with."""
        stored = self.gate.stored
        if case_id not in self._observations and stored is not None:
            return stored.observations.get(case_id)
        return self._observations.get(case_id)

    @property
    def made(self) -> list[Observation]:
        """What was observed in this session, on either side."""
        if self.gate.replays:
            return []
        beside = self.gate.paired.observed.values() if self.gate.paired else ()
        return [*self._observations.values(), *beside]

    @property
    def fresh(self) -> int:
        """How many cases were observed in this session."""
        return 0 if self.gate.replays else len(self._observations)

    @property
    def wall_s(self) -> float:
        """Seconds since the session began."""
        return time.monotonic() - self._started

    @property
    def workers(self) -> int:
        """Processes that run tests."""
        return count_of(self._config)

    @property
    def unfinished_s(self) -> float:
        """Seconds of workers on what had not ended when the session was stopped."""
        if self.is_whole:
            return 0.0
        now = time.monotonic()
        in_their_first = self.workers - len(self._ended)
        ends = [*self._ended.values(), *[self._started] * in_their_first]
        return sum(now - end for end in ends)

    # What it comes to.

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Closes the run file; a run that compiled nothing is no success."""
        if self.writer is not None and self.expected:
            stored = self.gate.stored if self.gate.options.resume else None
            planned = stored.header.planned if stored else self.planned
            if all(self.observation(case_id) for case_id in planned):
                closing = Closing(cases=len(planned), wall_s=self.wall_s)
                self.writer.write(closing)
                self.beside.write(encode(closing))
            self.writer.close()
            self.beside.close()
        if self._config.getoption("budgets_update"):
            self.budget_changes = self._update_budgets()
        if exitstatus == 0 and self.expected and not self._compiled_anything():
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
        self.comparison = self._compare()
        junit = self._config.stash.get(xml_key, None)
        if self.comparison is not None and junit is not None:
            junit.add_global_property("compilegate", str(decide(self.comparison)))

    def _compiled_anything(self) -> bool:
        return any(v.outcome != "skipped" for some in self.verdicts.values() for v in some)

    def _update_budgets(self) -> list[str]:
        changes = []
        given = self.gate.options.budgets
        for device in self.gate.tier:
            updates = {c: v for c, v in self._proposals.items() if c.device == device}
            file = Path(given[-1]) if given else SHIPPED_BUDGETS / f"{device}.toml"
            if not updates:
                continue
            try:
                lines = add_exact_entries(file, updates, self.gate.hardware(device))
            except BudgetError as error:
                changes.append(f"budgets not updated: {error}")
            else:
                changes += [f"budget updated: {file}: {line}" for line in lines]
        return changes

    def _compare(self) -> Comparison | None:
        """The session held against an earlier run, if it was."""
        before, environment = self.gate.before, self.gate.environment
        if before is None or environment is None or not self._upgraded:
            return None
        asked = [case_id for case_id in self.expected if case_id in self._upgraded]
        found = dict(self._comparisons)
        for case_id in asked:
            observation = self.observation(case_id)
            if case_id not in found and observation is not None:
                now = Seen.of(observation, self.verdicts.get(case_id, ()))
                before_it = before.seen(Case.parse(case_id))
                found[case_id] = compare_unfinished(case_id, before_it, now)
        return before.compare(self._header(environment), asked, found)


def _revision() -> str:
    """The checkout's git revision, ``+`` for one with changes; empty outside of git."""
    command = ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=PACKAGE, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()
