"""What a case that cannot be judged is said to fail from: the compiler, the model, the recipe."""

import itertools

import pytest
import torch
from torch import nn

from fixtures.budgets import Budget
from fixtures.judging import judge
from fixtures.observation import Request
from fixtures.observe.session import Session
from fixtures.zoo import Example, Model
from suites import test_forward


class Linear(nn.Module):
    """A linear layer whose output an action is given."""

    def __init__(self, action=lambda x, y: y):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.action = action

    def forward(self, x):
        return self.action(x, self.linear(x))


def verdict(module, phase="infer", backend="eager", **example):
    """The verdict on ``forward`` of a module, built anew each time."""
    example = {"inputs": lambda batch: (torch.randn(batch, 4),), **example}
    entry = Model("m", "m", {"batch": (8, 5)}, build=lambda: Example(module(), **example))
    request = Request(
        case=f"m-cpu-{phase}-f32-default-static", wants=("capture", "vary"), backend=backend
    )
    seen = Session({"m": entry}, lambda stage: None).observe(request)
    return judge(seen, Budget(), "forward", test_forward.rule, ("capture", "vary")).verdict


def fails_at_five(graph, inputs):
    """A compiler."""
    if any(given.shape == (5, 4) for given in inputs):
        raise ValueError("five")
    return graph


def overwritten(x, y):
    z = y.exp()
    result = z * z
    z.add_(1)
    return result


class Holder:
    def __init__(self, value):
        self.value = value


def test_a_healthy_module_passes():
    assert verdict(Linear).outcome == "passed"


def test_what_only_compiled_code_raises_is_told_with_its_call():
    assert verdict(Linear, backend=fails_at_five).summary == (
        "raised in stage 'vary', call 3 (batch=5), where eager returned: BackendCompilerFailed: "
        "backend='fails_at_five' raised: ValueError: five"
    )


def test_an_error_in_the_selector_is_the_recipes():
    found = verdict(Linear, output=lambda out: out.logits)
    assert found.outcome == "failed"
    assert found.summary == (
        "raised in stage 'eager': SelectorError: output=… of Example raised AttributeError: "
        "'Tensor' object has no attribute 'logits', given the Tensor that the model returned"
    )


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_model_whose_backward_raises_shows_its_error(backend):
    found = verdict(lambda: Linear(overwritten), "train", backend)
    assert "modified by an inplace operation" in found.summary


def test_a_model_whose_outputs_are_not_looked_into_fails():
    found = verdict(lambda: Linear(lambda x, y: Holder(y)))
    assert found.outcome == "failed"
    assert found.summary == (
        "nothing in the outputs is looked into: output (Holder); return its tensors, or pick "
        "them with Example.output"
    )


def test_a_builder_of_other_weights_each_time_is_told():
    seeds = itertools.count()

    def build():
        torch.manual_seed(next(seeds))
        return Linear()

    assert verdict(build, signal=False).summary == (
        "raised in stage 'build': ValueError: the builder gives other weights each time: "
        "parameter linear.weight differs between two builds under one seed"
    )


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (lambda batch: torch.randn(batch, 4), "what inputs of Example returns must be a tuple"),
        (torch.ones(8, 4), "inputs of Example must be a tuple of arguments, (x,), not a Tensor"),
    ],
)
def test_inputs_that_are_none_are_told(inputs, message):
    found = verdict(Linear, inputs=inputs)
    assert found.outcome == "failed"
    assert message in found.summary
