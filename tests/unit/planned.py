"""Options, and a plan whose observer starts no child."""

import dataclasses
from pathlib import Path

from compilegate.judging.budgets import Budgets
from compilegate.records.case import Case
from compilegate.runs.writer import Writer
from compilegate.session.options import Options
from compilegate.session.plan import Plan
from compilegate.zoo.registry import Model
from tests.unit.making import make_environment, make_observation, make_timing

CPU = Case.parse("tiny-cpu-infer-f32-default-static")
GPU = Case.parse("tiny-cuda-infer-f32-default-static")


def make_options(runs: Path, **changed) -> Options:
    options = Options(
        tier=None,
        models=(),
        cases=(),
        zoo=(),
        budgets=(),
        seed=0,
        backend="inductor",
        tf32=False,
        case_timeout=None,
        save=None,
        resume=None,
        replay=None,
        runs=runs,
        markers="",
        filtered=False,
        arguments=(),
    )
    return dataclasses.replace(options, **changed)


class FakeObserver:
    """Returns an observation at once, and reports progress first."""

    timing, turns = make_timing(), None

    def observe(self, request, **_):
        self.asked = request
        self.progress(request.case, "compile", 1.5, "2 cc1plus")
        return make_observation(case=request.case, wants=request.wants, timing=self.timing)


def make_plan_of(options: Options, **changed) -> Plan:
    fields = {
        "models": {"tiny": Model("tiny", "tiny"), "large": Model("large", "tiny", slow=True)},
        "tier": {"cpu": "smoke", "cuda": "standard"},
        "cases": [CPU, GPU],
        "budgets": Budgets([]),
        "observer": FakeObserver(),
        "environment": make_environment(),
    }
    return Plan(options=options, **fields | changed)


def write_run(path: Path, *records) -> None:
    writer = Writer.create(path)
    for record in records:
        writer.write(record)
    writer.close()
