"""Tests of nudged results: what operators round moves by one unit in the last place."""

import copy

import pytest
import torch
from torch import nn

from compilegate.observe.compare.call_comparer import CallComparer
from compilegate.observe.model.nudged_results import (
    NudgedResults,
    NudgedResultsOfFixedPoint,
    NudgedSums,
)
from compilegate.observe.model.nudging import is_fixed_point
from compilegate.observe.model.reference import Reference
from compilegate.observe.model.subject import Subject
from compilegate.observe.time_spent import TimeSpent
from compilegate.zoo.example import Example
from compilegate.zoo.registry import Model
from tests.unit.excess import exceeds
from tests.unit.subjects import INFER, call, plan

EPS = torch.finfo(torch.float32).eps
X = torch.linspace(-1.0, 1.7, 60).reshape(6, 10)


def moved(function, *args, seed=0):
    """Return a result without nudges, and the same one with them."""
    plain = function(*args)
    with NudgedResults(seed):
        return plain, function(*args)


ROUNDING = {
    "round to decimals": lambda x: torch.round(x, decimals=1),
    "multiply": lambda x: x * 0.3,
    "multiply in place": lambda x: x.clone().mul_(0.3),
    "exponential": torch.exp,
    "mean": lambda x: x.mean(0),
    "pool": lambda x: nn.functional.avg_pool1d(x, 3),
    "matrix product": lambda x: x @ x.T,
    "norm": lambda x: nn.functional.layer_norm(x, (10,)),
    "double precision": lambda x: x.double().sin(),
    "half precision": lambda x: x.bfloat16().sin(),
    "without a tag": nn.functional.hardswish,
    "half of the operand": nn.functional.glu,
    "broadcast": lambda x: x * torch.full((10,), 0.3),
    "in place without a tag": lambda x: nn.functional.mish(x.clone(), inplace=True),
}


@pytest.mark.parametrize("function", ROUNDING.values(), ids=ROUNDING)
def test_rounded_results_move_by_a_unit(function):
    plain, nudged = moved(function, X)
    eps = torch.finfo(plain.dtype).eps
    off = (plain - nudged).abs()
    assert off.ne(0).double().mean() > 0.5
    assert bool((off <= eps * plain.abs()).all())
    assert torch.equal(moved(function, X)[1], nudged)
    assert not torch.equal(moved(function, X, seed=1)[1], nudged)


@pytest.mark.parametrize(
    ("function", "near"), [(nn.functional.mish, X.abs() + 16), (torch.tanh, X * 1e-5)]
)
def test_results_that_equal_an_operand_by_rounding_move(function, near):
    plain, nudged = moved(function, near)
    equal = plain == near
    assert equal.any()
    assert (nudged != near)[equal].any()


EXACT = {
    "floor": torch.floor,
    "round": torch.round,
    "sign": torch.sign,
    "rectify": torch.relu,
    "rectify in place": lambda x: x.clone().relu_(),
    "rectify with slopes": lambda x: nn.functional.prelu(x.abs(), torch.full((1,), 0.3)),
    "clamp": lambda x: x.clamp(-0.3, 0.7),
    "negate": torch.neg,
    "maximum": lambda x: torch.maximum(x, x.flip(0)),
    "largest": lambda x: x.amax(0),
    "select": lambda x: torch.where(x > 0.3, x, 0.1),
    "fill in place": lambda x: x.clone().masked_fill_(x > 0.3, 0.1),
    "largest pool": lambda x: nn.functional.max_pool1d(x, 3),
    "gather": lambda x: x[:, [3, 1]],
    "join": lambda x: torch.cat([x, x.T.reshape(6, 10)]),
    "times one": lambda x: x * 1.0,
    "half numbers": lambda x: torch.round(2.0 * x) / 4,
    "integers": lambda x: (x > 0).sum(0),
}


@pytest.mark.parametrize("function", EXACT.values(), ids=EXACT)
def test_exact_results_stay(function):
    plain, nudged = moved(function, X)
    assert torch.equal(plain, nudged)


def test_equal_results_move_alike():
    _, nudged = moved(lambda x: torch.stack([x.sin(), (x + 0).sin()]), X)
    assert torch.equal(nudged[0], nudged[1])


def test_gradients_move_too():
    def gradient(x):
        x = x.clone().requires_grad_()
        (x.sin() * 0.3).sum().backward()
        return x.grad

    plain, nudged = moved(gradient, X)
    assert 0 < float((plain - nudged).abs().max()) < 1e-6


def shifted(x):
    """Round numbers, and move those after a mean that is above zero.

    The mean of 0.3, −0.7 and 0.4 is zero but for rounding, and ``round`` absorbs nudges of them.
    In single and in double precision, it happens to be above zero.
    """
    rounded = torch.round(x, decimals=1)
    return rounded.masked_scatter(rounded.mean(1, keepdim=True) > 0, rounded.flip(0))


TIED = torch.tensor([[0.31, -0.69, 0.41], [0.91, 0.42, -0.52], [-0.29, 0.71, 0.12]])
CLEAR = torch.tensor([[0.31, -0.49, 0.41], [0.91, 0.42, -0.52], [-0.29, 0.71, 0.12]])


def complaint(inputs, compiled):
    """Return the complaint about code that replaces a compiled ``shifted``."""
    (error,) = checked_outputs(shifted, inputs, compiled).errors
    return exceeds(error, 0.0)


def other_side(x):
    """Decide the first row as the other order of its sum does."""
    rounded = torch.round(x, decimals=1)
    chosen = rounded.mean(1, keepdim=True) > 0
    chosen[0] = ~chosen[0]
    return rounded.masked_scatter(chosen, rounded.flip(0))


def test_a_decision_that_rounding_inside_makes_may_be_another_one():
    assert complaint(TIED, other_side) == ""
    assert complaint(TIED, shifted) == ""


def test_a_decision_that_rounding_does_not_make_may_not():
    assert "root mean square error" in complaint(CLEAR, other_side)
    assert complaint(CLEAR, shifted) == ""


def test_a_slightly_wrong_factor_does_not_pass_as_rounding():
    assert complaint(TIED, lambda x: shifted(x) * (1 + 1e-5)) != ""
    assert complaint(CLEAR, lambda x: shifted(x) * (1 + 1e-5)) != ""


def checked_outputs(function, inputs, compiled):
    """Return what is found in the outputs of code that replaces a compiled function."""
    model = Model("m", "m", build=lambda: Example(function, inputs=(inputs.clone(),)))

    def build():
        return Subject(model, INFER, 0)

    eager, theirs = build(), build()
    theirs.run = compiled
    reference = Reference(lambda lifting: Subject(model, INFER, 0, lifting=lifting))
    comparer = CallComparer(eager, theirs, reference, build, TimeSpent(), half=False)
    planned = plan()
    checked, *_ = comparer.of_call(planned, call(eager, planned), call(theirs, planned))
    return checked


def positive(x):
    """Whether a mean is above zero, which only rounding makes it in the first row of TIED."""
    return (torch.round(x, decimals=1).mean(1) > 0).long()


def other_answer(x):
    return positive(x) * torch.tensor([0, 1, 1])


def test_an_exact_answer_that_rounding_inside_makes_is_a_tie():
    checked = checked_outputs(positive, TIED, other_answer)
    assert not checked.differences
    (decision,) = checked.decisions
    assert (decision.elements, decision.answered) == (1, 1)


def test_an_exact_answer_that_rounding_does_not_make_is_wrong():
    checked = checked_outputs(positive, CLEAR, other_answer)
    assert [one.what for one in checked.differences] == ["elements"]


def negative(x):
    return torch.signbit(x.sin())


def otherwise_of_nan(x):
    return torch.signbit(torch.where(x.isnan(), -x, x).sin())


NANS = torch.tensor([[0.3, -0.2], [float("nan"), 0.5]])


def test_the_sign_of_nan_may_be_another_one():
    checked = checked_outputs(negative, NANS, otherwise_of_nan)
    assert not checked.differences
    assert not checked_outputs(negative, NANS, negative).decisions


def test_the_sign_of_a_number_may_not():
    checked = checked_outputs(negative, NANS, lambda x: torch.signbit(-x.sin()))
    assert [one.what for one in checked.differences] == ["elements"]


def test_sums_move_as_far_as_their_order_moves_them():
    x = torch.rand(64, 100, 100)
    with NudgedSums(3):
        moved = x.sum((1, 2))
    apart = ((moved - x.sum((1, 2))) / moved).abs()
    assert 2 < float(apart.max()) / EPS < 70  # the root of 10,000 numbers is 100


def test_products_of_matrices_and_elementwise_results_stay():
    x = torch.rand(64, 64)
    with NudgedSums(3):
        made = (x @ x, x.sin(), x.max(1).values)
    assert all(
        ours.equal(theirs)
        for ours, theirs in zip(made, (x @ x, x.sin(), x.max(1).values), strict=True)
    )


@pytest.mark.parametrize("training", [True, False])
def test_running_statistics_move_where_they_are_written(training):
    norm = nn.BatchNorm2d(4).train(training)
    twin = copy.deepcopy(norm)
    x = torch.randn(8, 4, 9, 9)
    with NudgedSums(3):
        norm(x)
    twin(x)
    assert norm.running_mean.equal(twin.running_mean) is not training
    torch.testing.assert_close(norm.running_mean, twin.running_mean)


NORMS = {
    "batch": (nn.BatchNorm2d(6), 200),
    "plain batch": (nn.BatchNorm1d(6, affine=False), 200),
    "layer": (nn.LayerNorm((5, 5)), 25),
    "group": (nn.GroupNorm(3, 6), 50),
    "instance": (nn.InstanceNorm2d(6), 25),
}


@pytest.mark.parametrize("kind", NORMS)
def test_normalised_numbers_move_as_far_as_their_mean_does(kind):
    """The mean is a thousand times the deviation: one unit of it is a thousand units of theirs."""
    norm, numbers = NORMS[kind]
    x = torch.randn(8, 6, 25) if kind == "plain batch" else torch.randn(8, 6, 5, 5)
    with NudgedSums(3):
        moved = norm(x + 1000.0)
    apart = float((moved - norm(x + 1000.0)).abs().max()) / EPS
    assert 200 < apart < 5 * 1000 * numbers**0.5
    with NudgedSums(3):
        moved = norm(x)
    assert float((moved - norm(x)).abs().max()) < 5 * numbers**0.5 * EPS


def test_a_batch_norm_in_evaluation_sums_nothing():
    norm = nn.BatchNorm2d(6).eval()
    x = 1000.0 + torch.randn(8, 6, 5, 5)
    with NudgedSums(3):
        moved = norm(x)
    torch.testing.assert_close(moved, norm(x), rtol=3 * EPS, atol=0)


@pytest.mark.parametrize(("training", "affine"), [(True, True), (True, False), (False, True)])
def test_the_gradient_of_a_batch_norm_moves_as_its_sums_do(training, affine):
    """A channel shares what its sums err; in evaluation, and without weights, nothing is summed."""
    norm = nn.BatchNorm2d(6, affine=affine).train(training)
    x = torch.randn(8, 6, 16, 16, requires_grad=True)
    cotangent = 1 + torch.randn(8, 6, 16, 16)
    output, sources = norm(x), (x, *norm.parameters())
    plain, *_ = torch.autograd.grad(output, sources, cotangent, retain_graph=True)
    with NudgedSums(3):
        moved, *_ = torch.autograd.grad(output, sources, cotangent)
    shared = (moved - plain).mean((0, 2, 3)).abs().max() / EPS
    assert (3 < shared < 200) if training and affine else shared < 1


WHOLE = torch.arange(64.0).view(8, 8)


@pytest.mark.parametrize(
    ("tensor", "is_one"),
    [
        (WHOLE, True),
        (-WHOLE.double(), True),
        (torch.where(WHOLE == 5, torch.nan, WHOLE), True),
        (torch.where(WHOLE == 5, 0.5, WHOLE), True),
        (WHOLE[:1].expand(4, 8), True),
        (WHOLE.bfloat16(), True),
        (WHOLE / 4, True),
        (WHOLE / 8, False),
        (WHOLE.bfloat16() / 4, True),
        (WHOLE.clamp(max=1), False),
        (X, False),
        (X * 2.0**30, False),
        (X.bfloat16() * 1000, False),
        (WHOLE.long(), False),
        (torch.zeros(0), False),
    ],
)
def test_numbers_in_fixed_point_are_whole_halves_and_quarters(tensor, is_one):
    assert is_fixed_point(tensor) is is_one


def moves_of_whole(function, device, seed):
    """Whether a result moves if it is nudged as those of whole inputs are."""
    with NudgedResultsOfFixedPoint(seed, device=device):
        nudged = function(WHOLE + 0.0)
    return not torch.equal(function(WHOLE), nudged)


@pytest.mark.parametrize(
    ("function", "on_cpu", "on_gpu"),
    [
        pytest.param(torch.floor, False, False, id="floor"),
        pytest.param(lambda x: x * 3 + 1, False, False, id="arithmetic"),
        pytest.param(lambda x: x // 4, False, True, id="quotient"),
        pytest.param(lambda x: x // (x.flip(0) + 1), False, True, id="quotient by a tensor"),
        pytest.param(lambda x: torch.div(x, 4, rounding_mode="trunc"), False, True, id="trunc"),
        pytest.param(lambda x: x // 0.1, True, True, id="by a tenth"),
        pytest.param(lambda x: (x / 4).floor(), True, True, id="floor of a quotient"),
        pytest.param(lambda x: x.exp2().floor(), True, True, id="power"),
        pytest.param(lambda x: (x * 0).exp(), False, False, id="one"),
    ],
)
def test_results_of_whole_numbers_move_where_compiled_code_approximates(function, on_cpu, on_gpu):
    for device, moves in (("cpu", on_cpu), ("cuda", on_gpu)):
        assert any(moves_of_whole(function, device, seed) for seed in range(4)) is moves


def test_sums_of_whole_numbers_stay():
    with NudgedSums(1):
        assert torch.equal(WHOLE.sum(1), torch.arange(8.0) * 64 + 28)
