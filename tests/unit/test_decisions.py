"""Results that eager and float64 decide alike, exactly, and compiled code decides otherwise."""

import pytest
import torch
from torch import nn

from compilegate.observe.compare import decisions
from compilegate.observe.compare.errors import tensor_errors
from compilegate.observe.compare.nearest_reference import Sides
from compilegate.zoo.example import Call
from tests.unit.observed import verdict

UNIT = 2.0**-23


def deciding(eager, compiled):
    """Return a module that computes something else in compiled code."""

    class Decides(nn.Module):
        def forward(self, *args):
            return compiled(*args) if torch.compiler.is_compiling() else eager(*args)

    return Decides


def given(how, *args):
    """Return inputs as an example takes them: by a function, or in listed calls."""
    if how == "made":
        return {"inputs": lambda: tuple(arg.clone() for arg in args)}
    return {"calls": [Call(args), Call(args)]}


def floor_divided(x, y):
    return x // y


NO_TIE = "no rounding error in eager's inputs gives this answer"
TENTHS = (torch.ones(1), torch.full((1,), 0.1))
HALVES = torch.tensor([0.5, 1.5, 2.5, 3.5])
MIXED = torch.tensor([0.5, 1.5, 2.5, 3.5, 1.2])
TIE = torch.tensor([[1.0, 1.0, 0.0], [0.0, 1.0, 3.0]])
NEAR_TIE = torch.tensor([[1.0, 1.0 + UNIT, 0.0], [0.0, 1.0, 3.0]])


def away_from_zero(x):
    return (x + 0.5).floor()


def first_argmax(x):
    return x.argmax(1)


def last_argmax(x):
    return x.shape[1] - 1 - x.flip(1).argmax(1)


def swapped_argmax(x):
    return torch.stack([1 - x[0].argmax(), x[1].argmax()])


@pytest.mark.parametrize("how", ["made", "listed"])
@pytest.mark.parametrize(
    ("sides", "args", "outcome", "says"),
    [
        pytest.param((floor_divided,) * 2, TENTHS, "passed", "", id="same division"),
        pytest.param(
            (floor_divided, lambda x, y: (x / y).floor()),
            TENTHS,
            "inconclusive",
            "eager and the reference decide on 9 at [0], compiled code on 10",
            id="quotient next to an integer",
        ),
        pytest.param(
            (floor_divided, lambda x, y: (x / y).floor() + 1),
            TENTHS,
            "failed",
            NO_TIE,
            id="quotient off by two",
        ),
        pytest.param((torch.round,) * 2, (HALVES,), "passed", "", id="same rounding"),
        pytest.param(
            (torch.round, away_from_zero),
            (MIXED,),
            "inconclusive",
            "eager and the reference decide on 0 at [0], compiled code on 1",
            id="rounded away from zero",
        ),
        pytest.param(
            (torch.round, lambda x: x.round() + 2),
            (MIXED,),
            "failed",
            NO_TIE,
            id="rounded off by two",
        ),
        pytest.param((first_argmax,) * 2, (TIE,), "passed", "", id="same index"),
        pytest.param(
            (first_argmax, last_argmax),
            (TIE,),
            "failed",
            "elements differ",
            id="last index of an exact tie",
        ),
        pytest.param(
            (first_argmax, swapped_argmax),
            (NEAR_TIE,),
            "inconclusive",
            "eager and the reference decide on 1 at [0], compiled code on 0",
            id="index of a near tie",
        ),
    ],
)
def test_a_decision_against_eager_and_float64_needs_a_tie(how, sides, args, outcome, says):
    found = verdict(deciding(*sides), **given(how, *args))
    assert (found.outcome, says in found.summary) == (outcome, True), found.summary


def test_a_failure_shows_an_element_that_is_no_tie():
    found = verdict(
        deciding(torch.round, lambda x: away_from_zero(x) + (x == MIXED[-1])),
        **given("made", MIXED),
    )
    assert found.outcome == "failed"
    assert "decide on 1 at [4], compiled code on 2" in found.summary, found.summary


def test_ordinary_rounding_decides_nothing():
    """Eager happens to be exact, and compiled code is off by rounding."""
    found = verdict(
        deciding(lambda x: x * 0.5, lambda x: x * 0.5 * (1 + 2 * UNIT)),
        inputs=lambda: (torch.rand(50) + 1,),
    )
    assert found.outcome == "passed", found.summary


@pytest.mark.parametrize("how", ["made", "listed"])
@pytest.mark.parametrize("is_right", [True, False])
def test_a_coarse_input_hides_no_wrong_result(how, is_right):
    """A unit of bfloat16 is 0.004, and eager errs by 4e-8."""

    def rounded(x):
        return x.float().sin() if is_right else x.float().sin().bfloat16().float()

    x = torch.linspace(0.5, 1.5, 200).bfloat16()
    found = verdict(deciding(lambda x: x.float().sin(), rounded), **given(how, x))
    assert found.outcome == ("passed" if is_right else "failed"), found.summary


COUNTS = torch.arange(64.0).view(8, 8)


def one_less(function):
    """Return compiled code whose result is one too small for every number above three."""
    return lambda x: torch.where(x > 3, function(x) - 1, function(x))


@pytest.mark.parametrize(
    ("eager", "compiled", "outcome"),
    [
        pytest.param(torch.floor, one_less(torch.floor), "failed", id="floor"),
        pytest.param(torch.round, one_less(torch.round), "failed", id="round"),
        pytest.param(lambda x: x // 4, one_less(lambda x: x // 4), "failed", id="quotient"),
        pytest.param(
            lambda x: x.sum(1).floor(), lambda x: x.sum(1).floor() - 1, "failed", id="sum"
        ),
        pytest.param(torch.floor, torch.floor, "passed", id="same floor"),
        pytest.param(torch.round, torch.round, "passed", id="same round"),
        pytest.param(lambda x: x // 4, lambda x: x // 4, "passed", id="same quotient"),
        pytest.param(lambda x: (x * 0.37).sin(), lambda x: (x * 0.37).sin(), "passed", id="sine"),
        pytest.param(
            lambda x: (x * 0.37).softmax(1),
            lambda x: (x * 0.37).exp() / (x * 0.37).exp().sum(1, keepdim=True),
            "passed",
            id="softmax",
        ),
        pytest.param(
            lambda x: x // 0.1, lambda x: (x / 0.1).floor(), "inconclusive", id="by a tenth"
        ),
        pytest.param(
            lambda x: (x + 1).log2().floor(),
            lambda x: ((x + 1).log() * 1.4426949).floor(),
            "inconclusive",
            id="logarithm",
        ),
    ],
)
def test_a_whole_number_is_no_tie(eager, compiled, outcome):
    found = verdict(deciding(eager, compiled), inputs=lambda: (COUNTS.clone(),))
    assert found.outcome == outcome, found.summary


@pytest.mark.parametrize(
    ("compiled", "outcome"), [(torch.round, "passed"), (away_from_zero, "failed")]
)
def test_a_half_is_no_tie_also_where_a_product_mixes_what_was_rounded(compiled, outcome):
    torch.manual_seed(0)
    weight, halves = torch.randn(16, 16), torch.randint(-8, 9, (32, 16)) / 2
    found = verdict(
        deciding(lambda x: x.round() @ weight, lambda x: compiled(x) @ weight),
        inputs=lambda: (halves.clone(),),
    )
    assert found.outcome == outcome, found.summary


@pytest.mark.parametrize(("units", "decides"), [(8, False), (100, True)])
def test_what_a_case_in_half_precision_computes_in_single_decides_as_in_single(units, decides):
    """A gradient of five numbers that eager computed exactly, by chance."""
    eager = torch.tensor([-2e-6, 0.05, -0.02, 0.04, -0.1])
    compiled = eager.clone()
    compiled[0] += units * 2.0**-23 * eager.square().mean().sqrt()
    sides = Sides("gradient end", eager, compiled, [eager.double()], half=True)
    (error,) = tensor_errors([sides])
    assert (decisions.of_floats(sides, error) is not None) is decides
