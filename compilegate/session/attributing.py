"""Attributes what is worse in a session to the distributions that changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from compilegate.judging.rules import verdicts
from compilegate.processes.child_process import ObserverError
from compilegate.records import environment_changes
from compilegate.records.attribution import Attribution, Cause
from compilegate.records.case import Case
from compilegate.records.environment import Environment
from compilegate.runs.archive import CaseRecord
from compilegate.session.observations import OBSERVATIONS
from compilegate.session.plan import Plan
from compilegate.session.results import RESULTS, Results
from compilegate.upgrade.attribution import distributions
from compilegate.upgrade.attribution.attribute import Tried
from compilegate.upgrade.attribution.attribute import attribute as attributions
from compilegate.upgrade.attribution.environments import Environments
from compilegate.upgrade.attribution.groups import groups_of
from compilegate.upgrade.attribution.observing import RedCase, Trials
from compilegate.upgrade.attribution.search import as_causes
from compilegate.upgrade.attribution.symptoms import Symptom
from compilegate.upgrade.case_comparison import WORSE, CaseComparison
from compilegate.upgrade.comparison import Comparison, attributed

#: Where environments are kept, next to the folder of runs.
FOLDER = ".environments"
#: How many causes, or other differences, a line names.
_SHOWN = 3


def attribute(config: pytest.Config, plan: Plan, comparison: Comparison) -> Comparison:
    """Return the comparison with what makes each case worse, as far as it can be found.

    Ctrl-C ends it early; what was found by then counts.
    """
    red = [item for item in comparison.of(*WORSE) if not _is_explained(item)]
    found: dict[str, Attribution] = {}
    try:
        for attribution in _found(config, plan, red):
            found[attribution.case] = attribution
    except (ObserverError, KeyboardInterrupt) as error:
        why = str(error) or "interrupted"
        for item in red:
            found.setdefault(item.case, _unexplained(item, why))
    return replace(comparison, cases=tuple(attributed(comparison.cases, found)))


def _is_explained(item: CaseComparison) -> bool:
    """Whether the resumed run has found what makes a case worse."""
    return item.attribution is not None and bool(item.attribution.causes)


def _unexplained(item: CaseComparison, why: str) -> Attribution:
    aspect = item.decisive.aspect if item.decisive else ""
    return Attribution(case=item.case, kind=item.kind, aspect=aspect, why=why)


def _found(
    config: pytest.Config, plan: Plan, red: Sequence[CaseComparison]
) -> Iterator[Attribution]:
    paired, results = plan.paired, config.stash[RESULTS]
    if not red or paired is None or paired.live is None or plan.environment is None:
        return
    paired.live.close()  # its children hold memory that the next ones need
    before = distributions.installed(paired.live.baseline.launch.python)
    now = distributions.installed(plan.observer.launch.python)
    changes = distributions.changes(before, now)
    environments = Environments(plan.options.runs.parent / FOLDER, before, now, changes)
    fixed = {name: why for name in changes if (why := environments.obstacle(name))}
    trials = Trials(
        environments=environments,
        red={item.case: _red_case(plan, results, item) for item in red},
        launch=plan.observer.launch,
        paired=paired,
        models=[plan.models[Case.parse(item.case).model] for item in red],
        ask=config.stash[OBSERVATIONS].ask,
        budget_of=plan.budget_of,
        writes_cpp=plan.writes_cpp,
    )
    groups = groups_of(before.distributions, now.distributions, changes.keys() - fixed.keys())

    def try_(names: frozenset[str], cases: Sequence[str]) -> Tried:
        causes = [
            str(Cause(changes=tuple(changes[name] for name in some)))
            for some in as_causes(names, groups)
        ]
        more = f" and {len(causes) - _SHOWN} more" if len(causes) > _SHOWN else ""
        text = " together with ".join(causes[:_SHOWN]) + more or "a copy of the version in use"
        config.hook.pytest_compilegate_trial(changes=text, cases=cases)
        return trials(names, cases)

    others = [f"{changes[name]}, which cannot be exchanged: {why}" for name, why in fixed.items()]
    others += filter(None, [_otherwise(paired.environment, plan.environment)])
    otherwise = "; ".join(others[:_SHOWN])
    yield from attributions(red, groups, changes, try_, otherwise=otherwise)


def _red_case(plan: Plan, results: Results, item: CaseComparison) -> RedCase:
    case, made = Case.parse(item.case), results.observation(item.case)
    assert made is not None
    assert plan.paired is not None
    theirs = plan.paired.observed[item.case]
    before = CaseRecord.of(theirs, verdicts(theirs, plan.budget_before(case)))
    symptom = Symptom.of(item, CaseRecord.of(made, ()))
    return RedCase(case, symptom, before, made.wants)


def _otherwise(before: Environment, now: Environment) -> str:
    """Return what decides and is no distribution."""
    found = [
        change
        for change in environment_changes.deciding(before, now)
        if change.group in ("variables", "configuration")
        or change.name in ("python", "compiler", "driver", "glibc", "allocator")
    ]
    return environment_changes.headline(found)
