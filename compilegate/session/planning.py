"""Opens the gate: reads the options, the zoo and stored runs, and plans the session.

Whatever is wrong is one sentence and exit status 4, before anything is compiled.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from compilegate.judging import budgets_toml
from compilegate.layout import SHIPPED_BUDGETS
from compilegate.processes.child_process import ObserverError
from compilegate.processes.observer import Launch, Observer
from compilegate.records.case import Case
from compilegate.records.environment import Environment
from compilegate.runs import files
from compilegate.runs.archive import Archive
from compilegate.session.markers import DEVICE_MARKERS, could_select
from compilegate.session.options import Options, check
from compilegate.session.plan import Gate
from compilegate.session.resume import (
    as_in,
    refuse_compressed,
    refuse_other_environment,
    refuse_other_pairing,
    refuse_unknown_models,
    stored_run,
)
from compilegate.session.workers import ALONE, Share
from compilegate.upgrade import paired_baseline
from compilegate.upgrade.baseline import Before, LiveBaseline, StoredBaseline
from compilegate.upgrade.paired_baseline import PairedBaseline
from compilegate.zoo import registry, tiers
from compilegate.zoo.registry import Model


def open_gate(
    options: Options,
    *,
    needs_environment: bool,
    known_models: Sequence[Mapping[str, Any]] | None = None,
    known_environment: Environment | None = None,
    share: Share = ALONE,
) -> Gate:
    """Plan a session.

    Args:
        options: The command line.
        needs_environment: Whether cases will be observed, so that a child is asked what it has.
        known_models: The user's models, where another process has listed them already: xdist's
            controller, which has checked the options, too.
        known_environment: The environment, where it was asked for already.
        share: What children may use.

    Raises:
        pytest.UsageError: Anything that is wrong with the options.
    """
    try:
        with contextlib.ExitStack() as started:
            gate = _open(
                options,
                started,
                needs_environment=needs_environment,
                known_models=known_models,
                known_environment=known_environment,
                share=share,
            )
            gate.resources = started.pop_all()
            return gate
    except SyntaxError as error:
        raise pytest.UsageError(f"wrong expression -m {options.markers!r}: {error.msg}") from error
    except (ValueError, ObserverError) as error:
        raise pytest.UsageError(str(error)) from error


def _open(
    options: Options,
    started: contextlib.ExitStack,
    *,
    needs_environment: bool,
    known_models: Sequence[Mapping[str, Any]] | None,
    known_environment: Environment | None,
    share: Share,
) -> Gate:
    if known_models is None:
        check(options)
    stored = stored_run(options)
    if stored is not None and options.resume:
        options = as_in(options, stored)
        refuse_other_pairing(options, stored)
    shipped = registry.load()
    models = dict(shipped)
    files = tuple(os.path.abspath(file) for file in options.zoo)
    variables = share.environment()
    observer = Observer(Launch(zoo=files, environment=variables))
    started.callback(observer.close)
    if known_models is not None:
        models |= {str(entry["name"]): Model(**entry) for entry in known_models}
    elif not options.replay:
        listed = [model for file in files for model in observer.models(file)]
        models |= {model.name: model for model in listed}
    tier = _tiers(options, models) if stored is None else dict(stored.header.tier)
    if stored is None:
        cases = tiers.select(
            list(models.values()),
            tier,
            shipped,
            model_globs=options.models,
            case_globs=options.cases,
        )
    else:
        cases = _stored_cases(options, stored)
        if options.resume:
            refuse_unknown_models(stored, cases, models)
    known = [models[case.model] for case in cases if case.model in models]
    observer.preload(known, cpp=_writes_cpp(options, cases))
    gate = Gate(
        options=options,
        models=models,
        tier=tier,
        cases=cases,
        budgets=budgets_toml.read(
            [Path(file) for file in options.budgets], sorted(SHIPPED_BUDGETS.glob("*.toml"))
        ),
        observer=observer,
        stored=stored,
        environment=stored.header.environment if options.replay and stored else known_environment,
        share=share,
    )
    gate.cases = [case for case in cases if could_select(options.markers, gate.marks(case))]
    if stored is not None and options.replay:
        gate.unobserved = [case.id for case in gate.cases if case.id not in stored.observations]
        gate.cases = [case for case in gate.cases if case.id in stored.observations]
        if not gate.cases:
            raise ValueError(f"{stored.path} holds no observation of what is selected")
    gate.check_budgets()  # before a child is started, and again when the hardware is known
    if needs_environment and gate.environment is None:
        gate.environment = gate.observer.environment()
        gate.check_budgets()
    if stored is not None and options.resume:
        refuse_other_environment(stored, gate.environment)
    gate.check_devices(gate.cases)
    gate.paired = _paired(options, gate, files, variables, started)
    gate.before = _before(options, gate, started)
    return gate


def _stored_cases(options: Options, stored: files.Run) -> list[Case]:
    """The selected cases of a stored run; of a replayed one also what was not planned there."""
    planned = stored.header.planned
    if options.replay:
        if not stored.observations:
            raise ValueError(f"{stored.path} holds no observation: there is nothing to judge")
        planned = tuple(dict.fromkeys([*planned, *stored.observations]))
    return tiers.narrow(map(Case.parse, planned), options.models, options.cases)


def _before(options: Options, gate: Gate, started: contextlib.ExitStack) -> Before | None:
    """What the session is held against, if anything."""
    if options.baseline_run is None:
        return LiveBaseline(gate.paired) if gate.paired else None
    archive = started.enter_context(Archive(files.find(options.baseline_run, options.runs)))

    def select(cases: Iterable[Case]) -> list[Case]:
        narrowed = tiers.matching(cases, options.models, options.cases)
        return [case for case in narrowed if could_select(options.markers, gate.marks(case))]

    return StoredBaseline(archive, gate.cases, select, gate.tier)


def _paired(
    options: Options,
    gate: Gate,
    files: tuple[str, ...],
    variables: Mapping[str, str],
    started: contextlib.ExitStack,
) -> PairedBaseline | None:
    """The PyTorch that the candidate is held against, if any is given or the stored run has one."""
    known = paired_baseline.stored(gate.stored) if gate.stored else None
    if options.resume and known is not None and known.run is not None:
        refuse_compressed(known.run.path)
    if options.baseline_python is None or gate.environment is None:
        return known
    launch = Launch(options.baseline_python, zoo=files, environment=variables)
    made = paired_baseline.started(launch, gate.observer, known, options.pairs)
    started.callback(made.close)
    if made.run is not None:
        refuse_other_environment(made.run, made.environment)
    made.is_candidate = made.environment.versions == gate.environment.versions
    models = [gate.models[case.model] for case in gate.cases if case.model in gate.models]
    made.preload(models, cpp=_writes_cpp(options, gate.cases))
    return made


def _writes_cpp(options: Options, cases: Iterable[Case]) -> bool:
    """Whether Inductor compiles some of the cases to C++."""
    return options.backend == "inductor" and any(case.device == "cpu" for case in cases)


def _tiers(options: Options, models: Mapping[str, Model]) -> dict[str, str]:
    """The tier of each device of which anything may be selected by marker."""
    return {
        device: options.tier or tiers.DEFAULT_TIER[device]
        for device, marker in DEVICE_MARKERS.items()
        if could_select(options.markers, (marker,))
        or could_select(options.markers, (marker, "slow"))
    }
