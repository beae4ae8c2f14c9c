"""pytest hooks: options, markers, parametrization, and what a session opens and closes.

https://docs.pytest.org/en/stable/reference/reference.html#hooks

The work is done elsewhere: ``session/plan`` plans, ``session/xdist_hooks`` spreads the plan over
workers, ``processes/observer`` observes, ``session/suite_fixtures`` serves the suites,
``session/recording`` writes the run file, ``reports/terminal`` prints.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, cast

import pytest

from compilegate.judging.aspects import Aspect
from compilegate.records.case import Case, case_id_of, model_of
from compilegate.reports import comparison_text
from compilegate.reports.terminal import Teller
from compilegate.session import hookspecs
from compilegate.session.markers import selects
from compilegate.session.options import Options, add_options, judges_suites
from compilegate.session.plan import GATE
from compilegate.session.planning import open_gate
from compilegate.session.recording import Recorder
from compilegate.session.workers import (
    ALONE,
    ENVIRONMENT,
    WORKERS,
    Workers,
    count_of,
    refuse_other_ways,
    told,
)

pytest_plugins = ("compilegate.session.xdist_hooks", "compilegate.session.suite_fixtures")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Adds the hooks of our own."""
    pluginmanager.add_hookspecs(hookspecs)


def pytest_configure(config: pytest.Config) -> None:
    """Registers the markers."""
    for line in (
        "cpu: cases on the processor",
        "gpu: cases on a CUDA GPU",
        "slow: autotuning modes, and models that declare it",
        "aspect(name, **fields): the aspect that a suite judges, and what differs for this test",
    ):
        config.addinivalue_line("markers", line)
    if config.getoption("budgets_update") and os.environ.get("CI"):
        raise pytest.UsageError(
            "--budgets-update is refused under CI: budgets are changed by people"
        )


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Opens the gate before xdist starts its workers: what is wrong is said once."""
    config = session.config
    if not judges_suites(config):
        return
    refuse_other_ways(config)
    given = told(config)
    observes = not (config.getoption("collectonly") or config.getoption("replay"))
    known = config.stash.get(ENVIRONMENT, None) if observes else None
    gate = config.stash[GATE] = open_gate(
        Options.of(config),
        needs_environment=observes,
        known_models=given.models if given else None,
        known_environment=given.environment if given else known,
        share=given.share if given else ALONE,
    )
    if given is None:
        workers = Workers(count_of(config), gate.environment)
        if not gate.replays and any(case.device == "cuda" for case in gate.cases):
            workers.refuse_unlike_gpus()
        config.stash[WORKERS] = workers
    if given is None and not config.getoption("collectonly"):
        recorder = Recorder(config, gate)
        config.pluginmanager.register(recorder, "compilegate-recorder")
        config.pluginmanager.register(Teller(config, recorder), "compilegate-teller")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends what was started, also after Ctrl-C."""
    if gate := config.stash.get(GATE, None):
        gate.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrizes by case, pruned by ``-m``: a deselected item costs as much as a selected one."""
    aspect = Aspect.of(metafunc.definition)
    if aspect is None:
        return
    gate = metafunc.config.stash[GATE]
    own = {mark.name for mark in metafunc.definition.iter_markers()}
    selected = selects(gate.options.markers)
    parameters = [
        pytest.param(case, id=case.id, marks=[getattr(pytest.mark, mark) for mark in marks])
        for case in gate.cases_of(aspect)
        if selected(own | set(marks := gate.marks(case)))
    ]
    metafunc.parametrize("case", parameters, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps the cases of a model together, so that it needs one child.

    What is judged from pairs comes last, when all cases have been screened. A suite none of whose
    cases are selected is dropped: pytest would show it as skipped.
    """
    gate = config.stash.get(GATE, None)
    if gate is None:
        return
    position = {model: index for index, model in enumerate(gate.models)}
    aspects = {item: Aspect.of(item) for item in items}

    def place(item: pytest.Item) -> tuple[bool, int]:
        aspect = aspects[item]
        last = aspect is not None and gate.waits(aspect)
        return last, position.get(model_of(case_id_of(item.nodeid)), 0)

    kept = [item for item in items if "[NOTSET]" not in item.name or aspects[item] is None]
    items[:] = sorted(kept, key=place)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Learns what the selected tests want to know of each case."""
    gate = session.config.stash.get(GATE, None)
    if gate is None or session.config.getoption("collectonly"):
        return
    wants: dict[str, set[Any]] = {}
    cases: dict[Case, None] = {}
    for item in session.items:
        aspect = Aspect.of(item)
        if aspect is None or aspect.gone:
            continue  # what is gone cannot be observed
        if isinstance(item, pytest.Function):
            case = cast("Case", item.callspec.params["case"])
            cases[case] = None
            wants.setdefault(case.id, set()).update(aspect.wants)
    gate.want(wants)
    gate.check_devices(cases)


def pytest_report_header(config: pytest.Config) -> Sequence[str]:
    """Says what is observed where, and which stored run is used."""
    gate = config.stash.get(GATE, None)
    return [comparison_text.plain(line) for line in gate.describe()] if gate is not None else []
