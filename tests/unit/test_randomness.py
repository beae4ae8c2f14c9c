"""Tests of the statistics of random draws, which must be alike on both sides."""

import math

import pytest
import torch
from torch.nn import functional

from compilegate.judging.budget import Budget
from compilegate.observe import threads
from compilegate.observe.compare import randomness
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.subject import Subject
from compilegate.records.case import Case
from compilegate.suites import test_randomness
from compilegate.zoo.example import Example
from compilegate.zoo.registry import Model
from tests.unit.making import make_observation

TRAIN = Case.parse("m-cpu-train-f32-default-static")
INFER = Case.parse("m-cpu-infer-f32-default-static")
WEIGHTS = torch.linspace(-1, 1, 64).view(8, 8)


@pytest.fixture(autouse=True)
def one_thread():
    with threads.one_thread():
        yield


def sampled(x, rounding=1.0, temperature=1.0):
    """Return logits and samples from them."""
    logits = x @ WEIGHTS * rounding
    return {"logits": logits, "ids": torch.multinomial((logits * temperature).softmax(-1), 1)}


def judged(ours, theirs, case=INFER):
    def build(function):
        return lambda: Example(function, inputs=lambda: (torch.randn(16, 8),), signal=False)

    eager, compiled = (
        Subject(Model("m", "m", build=build(side)), case, 0) for side in (ours, theirs)
    )
    seen = randomness.observe(eager, compiled, PlannedCall(0, {}))
    observation = make_observation(case=str(case), draws=True, randomness=seen)
    return seen, test_randomness.rule(observation, Budget())


def test_outputs_that_do_not_depend_on_draws_may_round_differently():
    seen, finding = judged(sampled, lambda x: sampled(x, rounding=1 + 2**-22))
    assert math.isfinite(seen.mean_gap)
    assert finding.outcome == "passed", finding.summary


@pytest.mark.parametrize(("temperature", "outcome"), [(1.0, "passed"), (-3.0, "failed")])
def test_integers_are_compared_if_the_model_returns_nothing_else(temperature, outcome):
    _, finding = judged(
        lambda x: sampled(x)["ids"], lambda x: sampled(x, temperature=temperature)["ids"]
    )
    assert finding.outcome == outcome, finding.summary


def test_without_a_tensor_there_are_no_statistics():
    seen, finding = judged(lambda x: float(torch.rand(())), lambda x: float(torch.rand(())))
    assert seen is None
    assert finding.outcome == "passed"


def test_another_dtype_from_inductors_generator_is_found():
    """Normal(half, float).sample() is wrong only with the generator of Inductor."""

    def draw(x, dtype):
        return torch.randn(x.shape).to(dtype)

    _, finding = judged(lambda x: draw(x, torch.float16), lambda x: draw(x, torch.float16).float())
    assert finding.outcome == "failed"
    assert finding.summary == "output: dtype differs: eager float16, compiled float32"
    _, finding = judged(lambda x: draw(x, torch.float16), lambda x: draw(x, torch.float16))
    assert finding.outcome == "passed", finding.summary


def thinned(shared=lambda mask: mask):
    def draw(x):
        mask = shared((torch.rand(x.shape[0], 2 * x.shape[1]) > 0.5).float())
        return x.repeat(1, 2) * mask * 2

    return draw


@pytest.mark.parametrize(
    "shared",
    [
        lambda mask: mask[:, :8].repeat(1, 2),
        lambda mask: mask[:, ::2].repeat_interleave(2, 1),
        lambda mask: mask[:1].expand_as(mask),
    ],
    ids=["layers", "neighbours", "rows"],
)
def test_masks_that_elements_share_are_found(shared):
    _, finding = judged(thinned(), thinned(shared))
    assert finding.outcome == "failed"
    assert any("similarity of two calls" in line for line in finding.details), finding.details
    for alike in (thinned(), thinned(shared)):
        _, finding = judged(alike, alike)
        assert finding.outcome == "passed", finding.summary


def normal(x):
    return x + torch.randn(x.shape)


def uniform(x):
    return x + (torch.rand(x.shape) - 0.5) * math.sqrt(12)


def test_another_distribution_with_the_same_spread_is_found():
    _, finding = judged(normal, uniform)
    assert finding.outcome == "failed"
    assert "kurtosis of the outputs' elements is 1.8" in finding.summary
    for same in (normal, uniform):
        assert judged(same, same)[1].outcome == "passed"


def frozen_ids(x):
    ids = sampled(x)["ids"]
    return {"logits": x @ WEIGHTS, "ids": torch.ones_like(ids)}


def dropped(x):
    return x * torch.bernoulli(torch.full_like(x, 0.5))


def without_advancing(x):
    state = torch.get_rng_state()
    kept = dropped(x)
    torch.set_rng_state(state)
    return kept


def deaf_to_the_seed():
    own = torch.Generator().manual_seed(7)
    return lambda x: x * torch.bernoulli(torch.full_like(x, 0.5), generator=own)


@pytest.mark.parametrize(
    ("theirs", "complaint"),
    [
        (dropped, None),
        (without_advancing, "compiled calls repeat each other"),
        (deaf_to_the_seed(), "compiled code ignores the seed"),
    ],
)
def test_calls_must_advance_the_generator_and_depend_on_the_seed(theirs, complaint):
    _, finding = judged(dropped, theirs)
    assert (finding.outcome == "failed") is (complaint is not None), finding.summary
    assert (complaint or "calls vary by") in finding.summary


def test_a_model_that_ignores_the_seed_in_eager_passes():
    _, finding = judged(deaf_to_the_seed(), deaf_to_the_seed())
    assert finding.outcome == "passed", finding.summary


def test_drawn_integers_next_to_floating_outputs_are_compared():
    _, finding = judged(sampled, frozen_ids)
    assert finding.outcome == "failed", finding.summary


def test_integers_that_are_not_drawn_are_not_compared():
    def chosen(flip):
        def draw(x):
            best = (x @ WEIGHTS).argmax(1) * 1000
            return {"noisy": x + torch.randn(x.shape), "best": best + flip}

        return draw

    assert judged(chosen(0), chosen(1000))[1].outcome == "passed"


@pytest.mark.parametrize(("rate", "outcome"), [(0.5, "passed"), (0.35, "failed")])
def test_infinity_in_a_drawn_output_hides_no_other_difference(rate, outcome):
    def draw(x, rate):
        kept = torch.rand(x.shape) > rate
        return torch.cat([x.masked_fill(~kept, -torch.inf), x * kept], -1)

    _, finding = judged(lambda x: draw(x, 0.5), lambda x: draw(x, rate))
    assert finding.outcome == outcome, finding.summary


def drawn(function):
    return lambda x: function(x.shape)


def shared_by_few(shared):
    def draw(x):
        first, second = torch.rand(4), torch.rand(4)
        return torch.cat([first, first if shared else second, torch.rand(200)])

    return draw


@pytest.mark.parametrize(
    ("ours", "theirs", "complaint"),
    [
        (
            drawn(lambda shape: torch.randint(100, shape)),
            drawn(lambda shape: torch.randint(99, shape)),
            "in eager 0.99",
        ),
        (
            drawn(lambda shape: torch.randint(100, shape)),
            drawn(lambda shape: torch.randint(1, 100, shape)),
            "0 of the elements are below 0, in eager",
        ),
        (
            normal,
            lambda x: x + torch.randn(x.shape).clamp(-2.5, 2.5),
            "of the elements are below a number of their own",
        ),
        (
            drawn(torch.rand),
            drawn(lambda shape: 0.99 * torch.rand(shape)),
            "of the elements are below 0.98",
        ),
        (
            drawn(lambda shape: torch.empty(shape).exponential_(1.0)),
            drawn(lambda shape: torch.empty(shape).exponential_(1.05)),
            "of the elements are below",
        ),
        (
            drawn(lambda shape: torch.bernoulli(torch.full(shape, 0.1))),
            drawn(lambda shape: torch.bernoulli(torch.full(shape, 0.11))),
            "of the elements are below 0, in eager 0.89",
        ),
        (
            lambda x: functional.dropout(x, 0.1, True),
            lambda x: functional.dropout(x, 0.1, True) * 0.99,
            "of the elements are below",
        ),
        (
            drawn(lambda shape: torch.randperm(64)),
            drawn(lambda shape: torch.randint(64, (64,))),
            "of the elements equal another element of their row or column, in eager 0 ",
        ),
        (
            drawn(lambda shape: torch.multinomial(torch.ones(16), 8)),
            drawn(lambda shape: torch.multinomial(torch.ones(16), 8, replacement=True)),
            "of the elements equal another element of their row or column, in eager 0 ",
        ),
        (
            shared_by_few(False),
            shared_by_few(True),
            "pairs of elements draw the same random numbers in compiled code alone",
        ),
    ],
    ids=[
        *("bound", "lowest", "cut off", "range", "rate", "share", "scale"),
        *("permutation", "replacement", "few that share"),
    ],
)
def test_another_distribution_of_drawn_numbers_is_found(ours, theirs, complaint):
    _, finding = judged(ours, theirs)
    assert finding.outcome == "failed"
    assert any(complaint in line for line in finding.details), finding.details
    for same in (ours, theirs):
        _, finding = judged(same, of_another_generator(same))
        assert finding.outcome == "passed", finding.details


def of_another_generator(function):
    """Draw with the same distribution, but other numbers, as Inductor's generator does."""

    def draw(x):
        seed = int(torch.randint(2**62, ()))
        state = torch.get_rng_state()
        torch.manual_seed(seed ^ 0x5555)
        result = function(x)
        torch.set_rng_state(state)
        return result

    return draw


@pytest.mark.parametrize("draw", [torch.rand, torch.randn])
def test_inductors_finer_numbers_in_half_precision_pass(draw):
    """Eager draws one of 256 numbers in bfloat16. Inductor rounds a number in float32."""
    eager = drawn(lambda shape: draw(shape, dtype=torch.bfloat16))
    inductors = drawn(lambda shape: draw(shape).to(torch.bfloat16))
    half = Case.parse("m-cpu-infer-bf16-default-static")
    _, finding = judged(eager, of_another_generator(inductors), case=half)
    assert finding.outcome == "passed", finding.details


def affine_in_half(x):
    return (torch.randn(16, 64).bfloat16() * 0.37 + 0.7) * 1.3


def affine_in_single(x):
    return ((torch.randn(16, 64).bfloat16().float() * 0.37 + 0.7) * 1.3).bfloat16()


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (
            lambda x: torch.rand(32, 64, dtype=torch.bfloat16),
            lambda x: torch.rand(32, 64).bfloat16(),
        ),
        (affine_in_half, affine_in_single),
        (affine_in_single, affine_in_half),
    ],
    ids=["rounded up to one", "rounded once", "rounded more often"],
)
def test_rounding_of_draws_to_half_precision_is_no_other_distribution(ours, theirs):
    _, finding = judged(ours, theirs)
    assert finding.outcome == "passed", finding.summary


class Kinked(torch.nn.Module):
    """Numbers just above a kink, and dropout whose backward may draw a mask of its own."""

    def __init__(self, own_mask=False):
        super().__init__()
        self.near = torch.nn.Parameter(torch.linspace(1e-3, 4e-3, 256))
        self.own_mask = own_mask

    def forward(self, x):
        dropped = functional.dropout(x, 0.5)
        if self.own_mask:
            dropped = dropped.detach() + (y := functional.dropout(x, 0.5)) - y.detach()
        return dropped, self.near.abs()


@pytest.mark.parametrize(("own_mask", "outcome"), [(False, "passed"), (True, "failed")])
def test_a_kink_within_the_step_does_not_change_the_slope(own_mask, outcome):
    seen, finding = judged(Kinked(), Kinked(own_mask), case=TRAIN)
    assert abs(seen.eager.slope - 1) < 1e-3
    assert finding.outcome == outcome, finding.summary
    assert ("backward and forward use different" in finding.summary) is own_mask


def with_layer_drop(rate):
    return lambda x: x + (torch.rand(()) > rate) * x.tanh()


@pytest.mark.parametrize(("rate", "outcome"), [(0.1, "passed"), (0.0, "failed"), (0.3, "failed")])
def test_calls_without_a_rare_event_are_no_other_spread(rate, outcome, monkeypatch):
    monkeypatch.setattr(randomness, "MOST", 24)
    _, finding = judged(with_layer_drop(0.1), of_another_generator(with_layer_drop(rate)))
    assert finding.outcome == outcome, finding.details
