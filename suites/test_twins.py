"""The same computation, written in another way, gives the same answers in compiled code.

The twin of a model reverses the batch and puts the outputs back, splits layers and joins them, or
adds views, masks and padding that change nothing. A twin that eager itself answers differently is
left out. https://doi.org/10.1145/2594291.2594334
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.judging.practices import judge_steps
from compilegate.judging.tensors import examine_groups
from compilegate.records.observation import Observation
from compilegate.records.practice import Step

#: How the name of a step ends that shows a twin in eager.
_EAGER = ", in eager"


def rule(observation: Observation, budget: Budget) -> Finding:
    """Each twin that eager agrees with is right in compiled code, too."""
    practice = observation.practices.get("twins")
    if practice is None:
        return judge_steps(observation, "twins")
    judged = replace(practice, steps=tuple(_judged(observation, practice.steps)))
    practices = {**observation.practices, "twins": judged}
    return judge_steps(replace(observation, practices=practices), "twins")


def _judged(observation: Observation, steps: tuple[Step, ...]) -> Iterator[Step]:
    """Yield the steps of compiled code, and the reason for each twin that is left out."""
    left_out = {}
    for step in steps:
        name = step.name.removesuffix(_EAGER)
        if name != step.name:
            if reason := _disagreement(observation, step):
                left_out[name] = reason
                yield Step(name=name, unavailable=reason)
        elif name not in left_out:
            yield step


def _disagreement(observation: Observation, step: Step) -> str:
    """Return why a twin is none in eager; empty if it is one."""
    if step.unavailable:
        return step.unavailable
    if step.raised:
        return "eager raises"
    compared = [("in eager", checked) for checked in (step.outputs, step.gradients, step.state)]
    complaints = examine_groups(observation, compared).complaints
    if not complaints:
        return ""
    where, _, text = complaints[0].partition(": ")
    for side, program in (("compiled", "the twin"), ("eager", "the model")):
        text = re.sub(rf"\b{side} (?=\S)", f"{program} ", text)
    return f"{where}, {text}"


@pytest.mark.aspect("twins")
def test_a_program_written_in_another_way_gives_the_same_answers(judge: Judge) -> None:
    judge(rule)
