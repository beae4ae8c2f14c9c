"""Makes the plan of a session from its options, the zoo and stored runs.

Every mistake of the user is one sentence and exit status 4, before anything is compiled.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from compilegate.culprits import known as known_culprits
from compilegate.judging import budgets_toml
from compilegate.layout import SHIPPED_BUDGETS
from compilegate.processes import cpp_compiler
from compilegate.processes.attempt import Progress, ignore_progress
from compilegate.processes.child_process import ObserverError
from compilegate.processes.import_folders import importable
from compilegate.processes.interpreter import check_interpreter
from compilegate.processes.machine_turns import MachineTurns
from compilegate.processes.observer import Observer
from compilegate.processes.server_process import Launch
from compilegate.processes.zoo_listing import list_models
from compilegate.records.case import Case
from compilegate.records.environment import Environment
from compilegate.records.wording import counted
from compilegate.runs import files
from compilegate.runs.archive import Archive
from compilegate.runs.reader import RunError
from compilegate.runs.writer import Writer
from compilegate.session import earlier
from compilegate.session.earlier import Earlier
from compilegate.session.markers import DEVICE_MARKERS, could_select
from compilegate.session.options import Options, check
from compilegate.session.plan import Plan, check_compiler
from compilegate.session.resume import (
    as_in,
    refuse_other_environment,
    refuse_other_pairing,
    refuse_unknown_models,
    resumable,
)
from compilegate.session.run_files import RunFiles
from compilegate.session.shards import Shard
from compilegate.session.workers import ALONE, Known
from compilegate.upgrade import paired_baseline
from compilegate.upgrade.baseline import Baseline, LiveBaseline, StoredBaseline
from compilegate.upgrade.paired_baseline import PairedBaseline
from compilegate.zoo import registry, selection, tiers
from compilegate.zoo.registry import Model


def make_plan(
    options: Options,
    *,
    needs_environment: bool,
    writes: bool = False,
    known: Known | None = None,
    progress: Progress = ignore_progress,
) -> Plan:
    """Plan a session.

    Args:
        options: The options of the session.
        needs_environment: Whether cases will be observed. If so, a child reports what it finds.
        writes: Whether this process writes a run file.
        known: What this process need not find out again.
        progress: Called while a child starts.

    Raises:
        pytest.UsageError: Something is wrong with the options, the zoo or the stored run.
    """
    share = known.share if known else ALONE
    if share.cores:
        os.sched_setaffinity(0, share.cores)  # children inherit it

    def observer(launch: Launch) -> Observer:
        turns = MachineTurns(Path(share.turns)) if share.turns else None
        if turns is not None:
            started.callback(turns.close)
        return Observer(launch, progress, turns)

    try:
        with contextlib.ExitStack() as started:
            plan = _make(
                *(options, started, known or Known(), observer),
                needs_environment=needs_environment,
                writes=writes,
            )
            plan.resources = started.pop_all()
            return plan
    except SyntaxError as error:
        raise pytest.UsageError(f"wrong expression -m {options.markers!r}: {error.msg}") from error
    except (ValueError, ObserverError) as error:
        raise pytest.UsageError(str(error)) from error


def _make(
    options: Options,
    started: contextlib.ExitStack,
    known: Known,
    start: Callable[[Launch], Observer],
    *,
    needs_environment: bool,
    writes: bool,
) -> Plan:
    if known.models is None:
        check(options)
    stored, run_files = _stored_and_written(options, started, writes=writes)
    if stored is not None:
        options = as_in(options, stored)
    if needs_environment and [*_tiers(options)] == ["cpu"]:
        cpp_compiler.require("cpu", options.backend)
    if options.candidates and known.models is None:
        check_interpreter(options.python, "--candidate")
    zoo = tuple(dict.fromkeys(os.path.abspath(file) for file in options.zoo))
    started.enter_context(importable(options.import_folders))
    launch = Launch(
        python=options.python,
        zoo=zoo,
        environment=known.share.environment(),
        root=str(options.root),
    )
    observer = start(launch)
    started.callback(observer.close)
    if zoo and known.models is None and needs_environment:
        observer.start()  # both import torch: the server, and the process that lists the models
    shipped = registry.load()
    models = {**shipped, **_users_models(options, zoo, known)}
    tier, cases = _cases(options, stored, models, shipped)
    plan = Plan(
        options=options,
        models=models,
        tier=tier,
        cases=cases,
        budgets=budgets_toml.read(
            [Path(file) for file in options.budgets], sorted(SHIPPED_BUDGETS.glob("*.toml"))
        ),
        observer=observer,
        stored=stored,
        environment=stored.header.environment if options.replay and stored else known.environment,
        share=known.share,
        run_files=run_files,
        known=known_culprits.read(options.known),
    )
    _select(plan)
    _plan_ahead(plan, known)
    if needs_environment and plan.writes_cpp:
        cpp_compiler.require("cpu", options.backend)
    observer.preload(_models_of(plan), cpp=plan.writes_cpp)
    plan.check_budgets()  # before a child is started, and again when the hardware is known
    if needs_environment and plan.environment is None:
        plan.environment = observer.environment()
        plan.check_budgets()
    if stored is not None and options.resume:
        refuse_other_environment(stored, plan.environment)
    plan.check_devices(plan.cases)
    check_compiler(plan)
    plan.paired = _paired(plan, launch, started, known.baseline)
    plan.before = _before(plan, started)
    return plan


def _stored_and_written(
    options: Options, started: contextlib.ExitStack, *, writes: bool
) -> tuple[files.Run | None, RunFiles | None]:
    """Return the run that is replayed or resumed, and the run files that the session writes.

    Raises:
        RunError: The run cannot be read, or a file cannot be written to.
        ValueError: The run cannot be resumed with these options.
    """
    if options.resume:
        return _resumed(options, options.resume, started, writes=writes)
    stored = files.read(files.find(options.replay, options.runs)) if options.replay else None
    if not writes:
        return stored, None
    paired = bool(stored.header.baseline if stored else options.baseline_python)
    written = RunFiles.create(options, paired=paired)
    started.callback(written.close)
    return stored, written


def _resumed(
    options: Options, name: str, started: contextlib.ExitStack, *, writes: bool
) -> tuple[files.Run, RunFiles | None]:
    """Return a run to continue, and its files. They are locked before they are read."""
    path = resumable(name, options.runs)
    written = RunFiles(Writer.resume(path)) if writes else None
    if written is not None:
        started.callback(written.close)
    stored = files.read(path)
    refuse_other_pairing(options, stored)
    if stored.header.baseline:
        baseline = resumable(stored.header.baseline, path.parent)
        if written is not None:
            written.baseline = Writer.resume(baseline)
    return stored, written


def _users_models(options: Options, zoo: Sequence[str], known: Known) -> dict[str, Model]:
    """Return the models of the user's zoo files. A replay needs none."""
    if known.models is not None:
        return {str(entry["name"]): Model(**entry) for entry in known.models}
    listed = [] if options.replay else list_models(options.python, zoo)
    return {model.name: model for model in listed}


def _cases(
    options: Options,
    stored: files.Run | None,
    models: Mapping[str, Model],
    shipped: Iterable[str],
) -> tuple[dict[str, str], list[Case]]:
    """Return the tier of each device, and the cases before markers select among them."""
    if stored is not None:
        cases = _stored_cases(options, stored)
        if options.resume:
            refuse_unknown_models(stored, cases, models)
        return dict(stored.header.tier), cases
    tier = _tiers(options)
    cases = selection.select(
        list(models.values()),
        tier,
        shipped,
        model_globs=options.models,
        case_globs=options.cases,
    )
    return tier, cases


def _stored_cases(options: Options, stored: files.Run) -> list[Case]:
    """Return the selected cases of a stored run. A replay also judges unplanned observations."""
    planned = stored.header.planned
    if options.replay:
        if not stored.observations:
            raise ValueError(
                f"{stored.path} holds no observation: there is nothing to judge; --resume "
                f"{files.name_of(stored.path)} observes its {counted(len(planned), 'planned case')}"
            )
        planned = tuple(dict.fromkeys([*planned, *stored.observations]))
    return selection.narrow(map(Case.parse, planned), options.models, options.cases)


def _tiers(options: Options) -> dict[str, str]:
    """Return the tier of each device that markers may select cases of."""
    return {
        device: options.tier or tiers.DEFAULT_TIER[device]
        for device, marker in DEVICE_MARKERS.items()
        if could_select(options.markers, (marker,))
        or could_select(options.markers, (marker, "slow"))
    }


def _select(plan: Plan) -> None:
    """Keep the cases that markers may select and, in a replay, that the run has observed."""
    plan.cases = [c for c in plan.cases if could_select(plan.options.markers, plan.marks(c))]
    if plan.replays and plan.stored is not None:
        observed = plan.stored.observations
        plan.unobserved = [case.id for case in plan.cases if case.id not in observed]
        plan.cases = [case for case in plan.cases if case.id in observed]
        if not plan.cases:
            raise ValueError(f"{plan.stored.path} holds no observation of the selected cases")


def _plan_ahead(plan: Plan, known: Known) -> None:
    """Read what cases took in an earlier run, where that matters, and keep those of a shard.

    Raises:
        RunError: The run that the user names cannot be read.
    """
    options = plan.options
    if known.earlier_run:
        plan.earlier_run = Path(known.earlier_run)
    elif options.shard_by:
        plan.earlier_run = files.find(options.shard_by, options.runs)
    elif options.shard and known.models is None:
        plan.earlier_run = earlier.newest(options.runs, plan.cases, whole=True)
    taken = {}
    if plan.earlier_run is not None:
        # A damaged run that nobody has named only makes estimates worse.
        with contextlib.suppress(*() if options.shard_by else (RunError,)):
            taken = earlier.read(plan.earlier_run)
    plan.earlier = Earlier(
        family=lambda name: plan.models[name].family if name in plan.models else name,
        is_slow=lambda name: name in plan.models and plan.models[name].slow,
        taken=taken,
    )
    if options.shard:
        plan.shard = Shard.parse(options.shard)
        everything = {case.id for case in plan.cases}
        plan.cases = plan.shard.of(plan.cases, plan.earlier.seconds)
        plan.elsewhere = everything.difference(case.id for case in plan.cases)


def use_earlier_run(plan: Plan) -> None:
    """Plan by the newest run that observed some of the cases, if no run is known.

    Args:
        plan: The plan of a session that several workers share.
    """
    if plan.replays or plan.earlier_run is not None:
        return
    plan.earlier_run = earlier.newest(plan.options.runs, plan.cases)
    if plan.earlier_run is not None:
        with contextlib.suppress(RunError):  # it is damaged
            plan.earlier = replace(plan.earlier, taken=earlier.read(plan.earlier_run))


def _models_of(plan: Plan) -> list[Model]:
    return [plan.models[case.model] for case in plan.cases if case.model in plan.models]


def _paired(
    plan: Plan, launch: Launch, started: contextlib.ExitStack, environment: Environment | None
) -> PairedBaseline | None:
    """Return the PyTorch in use: that of an interpreter, or that of a stored paired run."""
    options = plan.options
    known = paired_baseline.stored(plan.stored) if plan.stored else None
    if options.baseline_python is None or plan.environment is None:
        return known
    theirs = replace(launch, python=options.baseline_python)
    made = paired_baseline.started(theirs, plan.observer, known, options.pairs, environment)
    started.callback(made.close)
    if made.run is not None:
        refuse_other_environment(made.run, made.environment)
    made.compare_with(plan.environment)
    made.preload(_models_of(plan), cpp=plan.writes_cpp)
    return made


def _before(plan: Plan, started: contextlib.ExitStack) -> Baseline | None:
    """Return the earlier results that the session is compared with, if there are any."""
    options = plan.options
    if options.baseline_run is None:
        return LiveBaseline(plan.paired) if plan.paired else None
    archive = started.enter_context(Archive(files.find(options.baseline_run, options.runs)))

    def select(cases: Iterable[Case]) -> list[Case]:
        narrowed = selection.matching(cases, options.models, options.cases)
        found = [case for case in narrowed if could_select(options.markers, plan.marks(case))]
        if plan.shard is not None:  # what no shard has, since it is gone, belongs to the first one
            found = [c for c in found if c.id not in plan.elsewhere] if plan.shard.is_first else []
        return found

    return StoredBaseline(archive, plan.cases, select, plan.tier)
