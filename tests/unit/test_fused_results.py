"""Tests of fused results: what Inductor fuses is rounded to half precision once, at the end."""

import pytest
import torch
from torch import nn

from compilegate.observe import cache_folder
from compilegate.observe.compare.call_comparer import CallComparer
from compilegate.observe.model.fused_results import FusedProducts, FusedResults
from compilegate.observe.model.reference import Reference
from compilegate.observe.model.subject import Subject
from compilegate.observe.time_spent import TimeSpent
from compilegate.records.case import Case
from compilegate.zoo.example import Example
from compilegate.zoo.registry import Model
from tests.unit.subjects import call, plan

X = torch.linspace(-1.1, 1.7, 96).reshape(8, 12).bfloat16()
#: Seeds with which all results stay unrounded, and none of them all.
ALL, SOME = 0, 3


def fused(function, x=X, seed=ALL):
    with FusedResults(seed):
        return function(x)


def in_chunks(x):
    """Write to parts of a tensor in place, as eager's cell of a GRU does."""
    first, second = (x * 1.7).chunk(2, 1)
    first.sigmoid_()
    second.mul_(first)
    return second.tanh() + first


FUSED = {
    "pointwise": lambda x: (x * 0.3).exp() + x.sin(),
    "of two dtypes": lambda x: x.tanh() * torch.tensor(1.5, dtype=torch.float64),
    "transposed": lambda x: (x * 0.3).t().exp(),
    "in another shape": lambda x: (x * 0.3).view(2, -1)[:, ::3].exp(),
    "stored parts": in_chunks,
    "mean": lambda x: (x * 0.31).mean(1).exp() * 1.7,
    "softmax": lambda x: (x * 0.3).softmax(-1) * 3,
    "norm": lambda x: nn.functional.layer_norm(x * 0.3, (12,)) * 3,
    "joined": lambda x: torch.cat([x.exp(), x.sin()]) * 3,
    "without a tag": lambda x: nn.functional.hardswish(x * 0.3) * 3,
}


@pytest.mark.parametrize("function", FUSED.values(), ids=FUSED)
def test_operators_that_are_fused_round_once(function):
    made, plain = fused(function), function(X)
    assert made.dtype == plain.dtype == torch.bfloat16
    assert torch.equal(made, function(X.float()).bfloat16())
    assert not torch.equal(made, plain)


def test_a_result_in_single_precision_is_not_rounded():
    def double(x):
        return x.tanh().float() * 3

    assert torch.equal(fused(double), X.float().tanh() * 3)
    assert not torch.equal(fused(double), double(X))


def test_decisions_see_what_is_not_rounded():
    def above(x):
        return x.tanh() > 0.25

    x = torch.full((3,), 0.2559).bfloat16()
    assert not above(x).any()
    assert fused(above, x).all()


ROUNDED = {
    "product of matrices": lambda x: x.tanh() @ x.t(),
    "cast": lambda x: (x.float() * 1.01).bfloat16().float() * 3,
    "convolution": lambda x: nn.functional.conv1d(x.tanh()[None], x[:, :8, None]),
    "write": lambda x: torch.zeros_like(x).copy_(x.tanh()) * 2,
    "later write": lambda x: x.tanh().index_fill_(1, torch.arange(12), 0.3) * 1.3,
}


@pytest.mark.parametrize("function", ROUNDED.values(), ids=ROUNDED)
def test_other_operators_get_rounded_numbers(function):
    assert torch.equal(fused(function), function(X))


@torch.library.custom_op("compilegate_tests::sum_of_halves", mutates_args=())
def sum_of_halves(x: torch.Tensor) -> torch.Tensor:
    if x.dtype != torch.bfloat16:
        raise RuntimeError("half precision only")
    return x.sum(-1)


def test_an_operator_that_takes_half_precision_alone_gets_rounded_numbers():
    def function(x):
        return sum_of_halves(x.tanh() * 1.3)

    assert torch.equal(fused(function), sum_of_halves(fused(lambda x: x.tanh() * 1.3)))


def test_a_softmax_in_single_precision_gets_unrounded_numbers():
    def function(x):
        return torch.softmax(x.tanh() * 3, -1, dtype=torch.float32)

    assert torch.equal(fused(function), function(X.float()))
    assert not torch.equal(fused(function), function(X))


def test_single_precision_stays():
    def function(x):
        return nn.functional.gelu(x.float() * 0.3).mean(1).exp()

    assert torch.equal(fused(function), function(X))


def test_gradients_are_fused_too():
    def gradient(x):
        leaf = x.clone().requires_grad_()
        (leaf.tanh().mul(0.3).exp().sum() * 1.7).backward()
        return leaf.grad

    assert torch.equal(fused(gradient), gradient(X.float()).bfloat16())
    assert not torch.equal(fused(gradient), gradient(X))


def test_random_numbers_stay():
    def function(x):
        torch.manual_seed(0)
        return nn.functional.dropout(x.tanh(), 0.5) != 0

    assert torch.equal(fused(function), function(X))


def test_inference_mode_has_no_versions_and_needs_none():
    with torch.inference_mode():
        assert torch.equal(fused(FUSED["pointwise"], X.clone()), fused(FUSED["pointwise"]))


class Cell(nn.Module):
    """A cell of a GRU, and the scores that it gives."""

    def __init__(self):
        super().__init__()
        self.cell, self.scores = nn.GRUCell(12, 24), nn.Linear(24, 17)

    def forward(self, x):
        hidden = self.cell(x, x.repeat(1, 2))
        return hidden, self.scores(hidden).log_softmax(-1) + x[:, :1]


def test_inductor_rounds_so(monkeypatch):
    """The results of compiled code are predicted. Eager has other ones."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache_folder.in_use()))
    cache_folder.use_own()
    torch._dynamo.reset()
    torch.manual_seed(0)
    module, x = Cell(), torch.randn(9, 12)

    def run(function):
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            return torch.cat([part.float() for part in function(x)], 1)

    compiled = run(torch.compile(module, dynamic=False))
    predicted = (fused(lambda _: run(module)) - compiled).norm()
    assert 20 * predicted < (run(module) - compiled).norm()


def test_a_product_is_rounded_once_something_is_added():
    x, y = torch.linspace(0.7, 1.3, 90), torch.linspace(1.3, 0.7, 90)

    def spread(x):
        return x * x - (x * y) * 0.5, x.square().add(y), (x.pow(2) - 1.0).mean(), x * y

    with FusedProducts(ALL):
        first, second, third, fourth = spread(x)
    wide, other = x.double(), y.double()
    assert torch.equal(first, (wide * wide - wide * other * 0.5).float())
    assert torch.equal(second, (wide * wide + other).float())
    assert torch.equal(third, (wide * wide - 1.0).float().double().mean().float())
    assert torch.equal(fourth, spread(x)[3])
    assert not torch.equal(first, spread(x)[0])
    assert not torch.equal(second, spread(x)[1])


def test_a_product_that_something_else_takes_is_rounded():
    x = torch.linspace(0.7, 1.3, 90)

    def function(x):
        return (x * x).sqrt(), (x * x).view(9, 10) @ x.view(10, 9), (x * x).clone() + 1.0

    with FusedProducts(ALL):
        made = function(x)
    assert all(map(torch.equal, made, function(x)))


def levels(x):
    """Round means of rows to levels.

    The mean 0.2552 is 0.2559 in bfloat16, its ``tanh`` 0.25, and twice that is a tie. In single
    precision it is 0.5008, and without any rounding 0.4996.
    """
    return torch.round(x.mean(1).bfloat16().tanh() * 2).float() + x[:, 0].sin()


def unrounded(x):
    return torch.round(x.mean(1).bfloat16().float().tanh() * 2) + x[:, 0].sin()


def rows(mean):
    """Return rows of numbers that vary. Nudges of single numbers cancel in their means."""
    means = torch.linspace(-0.9, 0.9, 40)
    means[7] = mean
    return means[:, None] + torch.linspace(-1.0, 1.0, 101)


def checked(x, compiled):
    """Return what is found in the output of code that replaces a compiled ``levels``."""
    model = Model("m", "m", build=lambda: Example(levels, inputs=(x.clone(),)))
    case = Case.parse("m-cpu-infer-bf16-default-static")

    def build(**how):
        return Subject(model, case, 0, **how)

    eager, theirs = build(), build()
    theirs.run = compiled
    reference = Reference(lambda lifting: build(lifting=lifting))
    comparer = CallComparer(eager, theirs, reference, build, TimeSpent(), half=True)
    outputs, *_ = comparer.of_call(plan(), call(eager, plan()), call(theirs, plan()))
    (error,) = outputs.errors
    return error


@pytest.mark.parametrize(("mean", "is_tie"), [(0.2552, True), (0.4, False)])
def test_a_tie_that_only_rounding_makes_may_be_decided_otherwise(mean, is_tie):
    error = checked(rows(mean), unrounded)
    assert (error.compiled_rms > 0.01) is is_tie  # else this shows nothing
    assert error.compiled_rms <= 1.001 * error.eager_rms


@pytest.mark.parametrize("mean", [0.2552, 0.4])
def test_another_decision_is_wrong(mean):
    def wrong(x):
        return unrounded(x).index_add(0, torch.tensor([30]), torch.ones(1))

    error = checked(rows(mean), wrong)
    assert error.compiled_rms > 10 * error.eager_rms
