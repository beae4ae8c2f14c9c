"""The hooks that spread a session over xdist's workers.

https://pytest-xdist.readthedocs.io/en/stable/distribution.html
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from compilegate.judging.aspects import ASPECTS
from compilegate.records.case import suite_of
from compilegate.session import planning, start
from compilegate.session.observations import OBSERVATIONS
from compilegate.session.options import judges_suites
from compilegate.session.plan import PLAN
from compilegate.session.workers import WORKERS, Known, fitting


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Read what the cases took in an earlier run: by it, memory and the order are planned."""
    if (plan := config.stash.get(PLAN, None)) is not None:
        planning.use_earlier_run(plan)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Pass a worker what it need not find out again."""
    plan = node.config.stash.get(PLAN, None)
    if plan is None:
        return
    shipped = {name for name, model in plan.models.items() if model.build is not None}
    others = [model.to_dict() for name, model in plan.models.items() if name not in shipped]
    share = node.config.stash[WORKERS].share(node.workerinput["workerid"])
    known = Known(
        models=others,
        environment=plan.environment,
        baseline=plan.paired.environment if plan.paired else None,
        share=share,
        earlier_run=str(plan.earlier_run or ""),
        run=str(plan.run_files.candidate.path) if plan.run_files else "",
        ends_at=node.config.stash[OBSERVATIONS].ends_at,
    )
    node.workerinput["compilegate"] = msgspec.to_builtins(known)
    plan.observer.close()  # the controller observes nothing
    if plan.paired is not None:
        plan.paired.close()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Free the GPU of a worker that ended."""
    if (workers := node.config.stash.get(WORKERS, None)) is not None:
        workers.ended(node.workerinput["workerid"])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Start as many workers as the machine has room for, and the plan has models."""
    if not judges_suites(config):
        return None
    plan = start.plan_of(config)
    if plan.replays or plan.environment is None:
        return 1
    return fitting(plan.cases, plan.environment)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Send cases to workers: those of a model to the same, as long as others have work."""
    if not judges_suites(config) or config.getvalue("dist") != "load":
        return None
    from compilegate.session.scheduling import CaseScheduling  # noqa: PLC0415 (xdist is optional)

    plan = start.plan_of(config)

    def waits(nodeid: str) -> bool:
        aspect = ASPECTS.get(suite_of(nodeid))
        return aspect is not None and plan.waits(aspect)

    return CaseScheduling(config, log, plan.earlier.seconds, waits)
