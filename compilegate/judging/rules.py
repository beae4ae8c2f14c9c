"""The rules of all suites, found by the names of their aspects.

A suite is the module ``suites/test_NAME.py`` of its aspect, and its rule is its function ``rule``.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from compilegate.judging.aspects import ASPECTS, Aspect
from compilegate.judging.budget import Budget
from compilegate.judging.judge import Rule, judge, says_that_nothing_compiled
from compilegate.records.case import Case
from compilegate.records.observation import Observation
from compilegate.records.verdict import Verdict


def rules() -> Iterator[tuple[Aspect, Rule]]:
    """Every aspect that one observation alone can be judged by, and its rule."""
    for aspect in ASPECTS.values():
        if aspect.change != "itself" or not aspect.needs:
            suite = importlib.import_module(f"compilegate.suites.test_{aspect.name}")
            yield aspect, suite.rule


def verdicts(observation: Observation, budget: Budget) -> Iterator[Verdict]:
    """The verdicts of all suites on a case."""
    case = Case.parse(observation.case)
    said_by = ""
    for aspect, rule in rules():
        is_sampled = aspect.sampled or aspect.practice is not None
        is_left_out = is_sampled and not {*aspect.wants} <= {*observation.wants}
        if aspect.applies(case) and (observation.cold or not aspect.cold) and not is_left_out:
            made = judge(observation, budget, aspect.name, rule, aspect.wants, said_by=said_by)
            if says_that_nothing_compiled(made, observation):
                said_by = aspect.name
            yield made.verdict
