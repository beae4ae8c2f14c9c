"""Collects the tests of a plan: a parameter for each case, in an order that shares children."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn, cast

import pytest

from compilegate.judging.aspects import Aspect
from compilegate.layout import SUITES
from compilegate.records.case import Case, case_id_of, model_of
from compilegate.session.markers import selects
from compilegate.session.observations import Observations
from compilegate.session.plan import Plan


def suite_outside(path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Return the module of a suite outside of pytest's root directory; None for any other file.

    pytest leaves the file out of an id if it is outside and an argument. The aspect is in its name.
    """
    if path.is_relative_to(parent.config.rootpath) or path.resolve().parent != SUITES:
        return None
    return pytest.Module.from_parent(parent, path=path, nodeid=path.name)


def parametrize(metafunc: pytest.Metafunc, aspect: Aspect, plan: Plan) -> None:
    """Parametrize a test by the cases that ``-m`` selects.

    Selecting here is much faster than deselecting later, because pytest makes no item for the rest.
    """
    own = {mark.name for mark in metafunc.definition.iter_markers()}
    selected = selects(plan.options.markers)
    parameters = [
        pytest.param(case, id=case.id, marks=[getattr(pytest.mark, mark) for mark in marks])
        for case in plan.cases_of(aspect)
        if selected(own | set(marks := plan.marks(case)))
    ]
    metafunc.parametrize("case", parameters, scope="session")


def refuse(metafunc: pytest.Metafunc) -> NoReturn:
    """Refuse a test of a suite that the session does not know, and say where its suites are.

    Raises:
        pytest.Collector.CollectError: Always.
    """
    raise pytest.Collector.CollectError(
        f"{metafunc.definition.path} is a copy of a suite. Run those of the package that Python "
        f"imports: pytest {SUITES}, or pytest --pyargs compilegate.suites"
    )


def with_cases(made: list[Any]) -> list[Any]:
    """Return what pytest made of a function, without the item that stands for no parameters.

    pytest would show it as skipped.
    """
    return [one for one in made if "[NOTSET]" not in one.name or Aspect.of(one) is None]


def order(items: list[pytest.Item], plan: Plan) -> None:
    """Group the tests by model, so that one child serves all cases of a model.

    Tests that pairs of processes decide come last, when all cases have been observed once.
    """
    position = {model: index for index, model in enumerate(plan.models)}
    aspects = {item: Aspect.of(item) for item in items}

    def place(item: pytest.Item) -> tuple[bool, int]:
        aspect = aspects[item]
        last = aspect is not None and plan.waits(aspect)
        return last, position.get(model_of(case_id_of(item.nodeid)), 0)

    items.sort(key=place)


def note_wants(items: list[pytest.Item], plan: Plan, observations: Observations) -> None:
    """Note which measurements the selected tests need, by case.

    Raises:
        pytest.UsageError: This machine can run none of the selected cases.
    """
    wants: dict[str, set[Any]] = {}
    cases: dict[Case, None] = {}
    for item in items:
        aspect = Aspect.of(item)
        if aspect is None or aspect.gone:
            continue  # a case that is gone cannot be observed
        if isinstance(item, pytest.Function):
            case = cast("Case", item.callspec.params["case"])
            cases[case] = None
            wants.setdefault(case.id, set()).update(plan.wants_of(aspect, case))
    observations.want(wants)
    plan.check_devices(cases)
