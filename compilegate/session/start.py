"""Starts a session: makes its plan, and registers the plugins that record and show it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from compilegate.processes.attempt import Progress
from compilegate.records.observation import Stage
from compilegate.session.forwarding import Forwarder
from compilegate.session.observations import OBSERVATIONS, Observations
from compilegate.session.options import Options
from compilegate.session.plan import PLAN, Plan
from compilegate.session.planning import make_plan
from compilegate.session.recording import Recorder
from compilegate.session.results import RESULTS, Results
from compilegate.session.workers import (
    WORKERS,
    Workers,
    count_of,
    from_controller,
    refuse_other_distributions,
)


def add_markers(config: pytest.Config) -> None:
    """Declare the markers of cases and suites."""
    for line in (
        "cpu: cases on the processor",
        "gpu: cases on a CUDA GPU",
        "slow: autotuning modes, and models that declare it",
        "aspect(name, **fields): the aspect that a suite judges, and what differs for this test",
    ):
        config.addinivalue_line("markers", line)


def refuse_update_under_ci(config: pytest.Config) -> None:
    """Refuse ``--budgets-update`` under CI.

    Raises:
        pytest.UsageError: The environment has the variable ``CI``.
    """
    if config.getoption("budgets_update") and os.environ.get("CI"):
        raise pytest.UsageError(
            "--budgets-update is refused under CI: a person must decide about budgets"
        )


def start(config: pytest.Config) -> None:
    """Make the plan of a session that collects the suites.

    Raises:
        pytest.UsageError: Something is wrong with the options, the zoo or the stored run.
    """
    plan, known = plan_of(config), from_controller(config)
    ends_at = known.ends_at if known is not None else _ends_at(plan.options)
    config.stash[OBSERVATIONS] = Observations(plan, progress_of(config), ends_at)
    if known is not None:
        if plan.paired is not None and plan.paired.live is not None:
            forwarder = Forwarder(plan, config.stash[OBSERVATIONS], Path(known.run))
            config.pluginmanager.register(forwarder, "compilegate-forwarder")
        return
    workers = Workers.of(plan.cases, count_of(config), plan.environment)
    config.stash[WORKERS] = workers
    plan.resources.callback(workers.close)
    if not plan.replays and any(case.device == "cuda" for case in plan.cases):
        workers.refuse_unlike_gpus()
    if not config.getoption("collectonly"):
        _record(config, plan)


def _ends_at(options: Options) -> float:
    """Return when no case is begun any more, in seconds since the epoch; 0 for never."""
    return time.time() + 60 * options.stop_after if options.stop_after else 0.0


def plan_of(config: pytest.Config) -> Plan:
    """Return the plan of the session, which the first call makes.

    With ``-n auto``, xdist's controller needs it earlier than the session, to count the workers.

    Raises:
        pytest.UsageError: Something is wrong with the options, the zoo or the stored run.
    """
    if (plan := config.stash.get(PLAN, None)) is None:
        refuse_other_distributions(config)
        runs, known = not config.getoption("collectonly"), from_controller(config)
        options = Options.of(config)
        plan = config.stash[PLAN] = make_plan(
            options,
            needs_environment=runs and not options.replay,
            writes=runs and known is None and bool(options.save or not options.replay),
            known=known,
            progress=progress_of(config),
        )
    return plan


def progress_of(config: pytest.Config) -> Progress:
    """Return a function that reports progress to the hooks."""

    def report(case_id: str, stage: Stage, elapsed_s: float, at_work: str) -> None:
        config.hook.pytest_compilegate_progress(
            case_id=case_id, stage=stage, elapsed_s=elapsed_s, at_work=at_work
        )

    return report


def _record(config: pytest.Config, plan: Plan) -> None:
    results = config.stash[RESULTS] = Results(config, plan)
    config.pluginmanager.register(Recorder(config, results), "compilegate-recorder")
