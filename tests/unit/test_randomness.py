"""Statistics of what both sides draw: alike where they draw alike, whatever else they return."""

import math

import pytest
import torch

from fixtures.budgets import Budget
from fixtures.cases import Case
from fixtures.observe import randomness
from fixtures.observe.calls import PlannedCall
from fixtures.observe.subject import Subject
from fixtures.zoo import Example, Model
from suites import test_randomness
from tests.unit.making import make_observation

INFER = Case.parse("m-cpu-infer-f32-default-static")
WEIGHTS = torch.linspace(-1, 1, 64).view(8, 8)


def sampled(x, rounding=1.0, temperature=1.0):
    """Logits, and what is drawn from them."""
    logits = x @ WEIGHTS * rounding
    return {"logits": logits, "ids": torch.multinomial((logits * temperature).softmax(-1), 1)}


def judged(ours, theirs):
    def build(function):
        return lambda: Example(function, inputs=lambda: (torch.randn(16, 8),))

    eager, compiled = (
        Subject(Model("m", "m", build=build(side)), INFER, 0) for side in (ours, theirs)
    )
    seen = randomness.observe(eager, compiled, PlannedCall(0, {}))
    observation = make_observation(draws=True, randomness=seen)
    return seen, test_randomness.rule(observation, Budget())


def test_outputs_that_do_not_depend_on_the_draw_may_be_rounded_otherwise():
    seen, finding = judged(sampled, lambda x: sampled(x, rounding=1 + 2**-22))
    assert math.isfinite(seen.mean_gap)
    assert finding.outcome == "passed", finding.summary


@pytest.mark.parametrize(("temperature", "outcome"), [(1.0, "passed"), (-3.0, "failed")])
def test_integers_are_looked_at_where_nothing_else_is_returned(temperature, outcome):
    _, finding = judged(
        lambda x: sampled(x)["ids"], lambda x: sampled(x, temperature=temperature)["ids"]
    )
    assert finding.outcome == outcome, finding.summary


def test_without_a_tensor_there_is_nothing_to_look_at():
    seen, finding = judged(lambda x: float(torch.rand(())), lambda x: float(torch.rand(())))
    assert seen is None
    assert finding.outcome == "passed"


def test_another_dtype_of_compiled_codes_own_numbers_is_told():
    """As of Normal(half, float).sample(), which only the generator's own path gets wrong."""

    def draw(x, dtype):
        return torch.randn(x.shape).to(dtype)

    _, finding = judged(lambda x: draw(x, torch.float16), lambda x: draw(x, torch.float16).float())
    assert finding.outcome == "failed"
    assert finding.summary == "output: dtype differs: eager float16, compiled float32"
    _, finding = judged(lambda x: draw(x, torch.float16), lambda x: draw(x, torch.float16))
    assert finding.outcome == "passed", finding.summary
