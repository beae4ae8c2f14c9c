"""Tests of the signal treatment: what it changes, what it keeps, and that it never fails."""

import math

import pytest
import torch
from torch import nn

from compilegate.observe.conditioning import signal
from compilegate.observe.conditioning.visibility import measure_visibility
from compilegate.observe.model.calls import first_call
from compilegate.observe.model.float64 import Lifting
from compilegate.observe.model.subject import Subject
from compilegate.records.case import Case
from compilegate.zoo.example import Call, Example
from compilegate.zoo.registry import Model

TRAIN = Case.parse("m-cpu-train-f32-default-static")


def entry(module, **how):
    """Return a model that takes rows of eight numbers; ``module`` builds it."""
    how = {"inputs": lambda: (torch.randn(6, 8),), **how}
    return Model("m", "m", build=lambda: Example(module(), **how))


def treat(module, seed=0, **how):
    return signal.treat(entry(module, **how), "cpu", seed).state


def figures(module, state, **how):
    subject = Subject(entry(module, **how), TRAIN, 0, weights=state)
    return measure_visibility(subject, first_call({}))


def layers(*parts, spoil=lambda net: None):
    """Return a recipe of a sequence of layers."""

    def build():
        net = nn.Sequential(*(part() for part in parts))
        with torch.no_grad():
            spoil(net)
        return net

    return build


def linear(inputs=8, outputs=8, **how):
    return lambda: nn.Linear(inputs, outputs, **how)


HEALTHY = layers(linear(8, 16), nn.ReLU, linear(16, 4))


class Residual(nn.Module):
    """x + gamma · f(x), where gamma is a tiny layer scale that no submodule owns."""

    def __init__(self, gamma=1e-6):
        super().__init__()
        self.f = nn.Linear(8, 8)
        self.gamma = nn.Parameter(torch.full((8,), gamma))

    def forward(self, x):
        return x + self.gamma * self.f(x)


# Changes.


def test_a_head_of_zeros_gets_signal():
    build = layers(linear(), nn.Tanh, linear(), spoil=lambda net: zero(*net[2].parameters()))
    before, after = figures(build, {}), figures(build, treat(build))
    assert before.off_scale
    assert len(before.silent) == 2
    assert not after.off_scale
    assert not after.silent


def zero(*tensors):
    for tensor in tensors:
        tensor.zero_()


def test_a_vanishing_layer_scale_becomes_uneven_noise_around_one():
    state = treat(Residual)
    assert set(state) == {"gamma"}
    assert ((state["gamma"] - 1).abs() < 0.5).all()
    assert state["gamma"].unique().numel() == 8
    before, after = figures(Residual, {}), figures(Residual, state)
    assert after.gradients["f.weight"] > 1e5 * before.gradients["f.weight"]


def test_a_scalar_factor_of_zero_becomes_nonzero():
    class Gated(Residual):
        def __init__(self):
            super().__init__()
            self.gamma = nn.Parameter(torch.tensor(0.0))

    assert 0.5 < float(treat(Gated)["gamma"]) < 1.5


@pytest.mark.parametrize("start", [0.0, 1.0], ids=["zeros", "ones"])
def test_gains_become_uneven_around_one_and_biases_around_zero(start):
    build = layers(linear(), lambda: nn.LayerNorm(8), spoil=lambda net: net[1].weight.fill_(start))
    state = treat(build)
    assert set(state) == {"1.weight", "1.bias"}
    assert ((state["1.weight"] - 1).abs() < 0.5).all()
    assert state["1.bias"].abs().max() < 0.5
    assert all(value.unique().numel() == 8 for value in state.values())


def test_a_bias_of_zeros_gets_a_tenth_of_the_output_of_its_layer():
    build = layers(linear(), spoil=lambda net: (net[0].weight.mul_(0.5), zero(net[0].bias)))
    state = treat(build)
    assert set(state) == {"0.bias"}
    outputs = figures(build, {}).spreads["infer output"]
    assert float(state["0.bias"].std()) == pytest.approx(0.1 * outputs, rel=0.7)


def test_statistics_of_batch_norm_move_half_way_to_those_of_the_data():
    def spoil(net):
        net[0].weight.mul_(20)
        net[0].bias.fill_(4)

    build = layers(linear(), lambda: nn.BatchNorm1d(8), spoil=spoil)
    state = treat(build)
    assert state["1.running_mean"].mean() == pytest.approx(2, abs=2)
    assert 0.3 < figures(build, state).spreads["infer output"] < 3
    assert ((state["1.bias"].abs() - 1).abs() < 0.5).all()
    assert (state["1.bias"] < 0).tolist() == [True] + 7 * [False]


def test_the_bias_of_batch_norm_stays_small_after_an_activation():
    state = treat(layers(linear(), nn.ReLU, lambda: nn.BatchNorm1d(8)))
    assert state["2.bias"].abs().max() < 0.5


def test_statistics_that_are_already_set_stay():
    def spoil(net):
        net[0].running_mean.copy_(torch.linspace(-1, 1, 8))
        net[0].running_var.copy_(torch.linspace(0.5, 2, 8))

    assert set(treat(layers(lambda: nn.BatchNorm1d(8), spoil=spoil))) == {"0.weight", "0.bias"}


def test_layers_out_of_the_band_are_rescaled_by_powers_of_two():
    build = layers(
        linear(), nn.ReLU, linear(), spoil=lambda net: [p.mul_(1e-2) for p in net.parameters()]
    )
    state = treat(build)
    assert set(state) == {"0.weight", "2.weight"}
    original = Subject(entry(build), TRAIN, 0).parameters()
    for name, value in state.items():
        factors = (value / original[name].detach()).unique()
        assert factors.numel() == 1
        assert math.log2(float(factors)) % 1 == 0
    assert not figures(build, state).off_scale


def test_a_layer_that_normalises_its_weight_is_not_rescaled():
    class Standardised(nn.Linear):
        def forward(self, x):
            return 1e-3 * nn.functional.linear(x, self.weight / self.weight.std())

    assert treat(lambda: Standardised(8, 8, bias=False)) == {}


# No changes.


@pytest.mark.parametrize(
    "build",
    [HEALTHY, nn.PReLU, lambda: nn.LSTM(8, 4), lambda: nn.GRU(8, 8)],
    ids=["linear", "prelu", "lstm", "gru"],
)
def test_a_healthy_module_is_unchanged(build):
    assert treat(build) == {}


def test_an_example_with_signal_false_keeps_its_weights():
    assert treat(Residual, signal=False) == {}


def test_frozen_parameters_keep_their_values():
    assert (
        treat(layers(linear(), spoil=lambda net: zero(*net[0].requires_grad_(False).parameters())))
        == {}
    )


def test_treatment_does_not_change_the_random_inputs_of_a_call():
    model = entry(Residual)
    expected = Subject(model, TRAIN, 0).prepare(first_call({}))
    state = signal.treat(model, "cpu", 0).state
    subject = Subject(model, TRAIN, 0, weights=state)
    assert torch.equal(subject.prepare(first_call({})).args[0], expected.args[0])


# Reliability.


@pytest.mark.parametrize("build", [HEALTHY, Residual], ids=["healthy", "residual"])
def test_one_seed_gives_the_same_values_twice_and_another_seed_other_noise(build):
    one, other = treat(build), treat(build)
    assert one.keys() == other.keys()
    assert all(torch.equal(value, other[name]) for name, value in one.items())
    if one:
        assert not torch.equal(one["gamma"], treat(build, seed=1)["gamma"])


def test_values_load_into_the_float64_reference_exactly():
    state = treat(Residual)
    reference = Subject(entry(Residual), TRAIN, 0, lifting=Lifting(), weights=state)
    assert torch.equal(reference.parameters()["gamma"], state["gamma"].double())


def test_tied_weights_stay_tied_and_keep_one_scale():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(10, 8)
            self.head = nn.Linear(8, 10)
            self.head.weight = self.embed.weight
            zero_bias(self.head)

        def forward(self, text):
            return self.head(self.embed(text))

    how = {"inputs": lambda: (torch.randint(10, (6, 4)),)}
    state = treat(Tied, **how)
    assert set(state) == {"head.bias"}
    subject = Subject(entry(Tied, **how), TRAIN, 0, weights=state)
    assert subject.module.head.weight is subject.module.embed.weight


def zero_bias(layer):
    nn.init.zeros_(layer.bias)


class Raises(Residual):
    def forward(self, x):
        raise RuntimeError("not today")


class Lazy(Residual):
    def __init__(self):
        super().__init__()
        self.f = nn.LazyLinear(8)


class Integers(Residual):
    def forward(self, x):
        return super().forward(x).argmax(-1)


class Explodes(Residual):
    def forward(self, x):
        return (super().forward(x) * 1e30) ** 2


class Mutates(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Linear(8, 8)

    def forward(self, x):
        return [self.f(x.mul_(2)), "text", None]


@pytest.mark.parametrize("build", [Raises, Explodes, Mutates, lambda: torch.sin])
def test_a_model_that_cannot_be_treated_is_unchanged(build):
    assert treat(build) == {}


@pytest.mark.parametrize("build", [Integers, Lazy])
def test_modules_of_unusual_kinds_are_treated(build):
    assert set(treat(build)) == {"gamma"}


def test_a_recipe_that_raises_changes_nothing():
    def build():
        raise RuntimeError("no such weights")

    assert not signal.treat(Model("m", "m", build=build), "cpu", 0).state


def test_listed_calls_are_treated_with_the_first_call():
    calls = [Call((torch.randn(6, 8),)), Call((torch.randn(6, 3),))]
    assert set(treat(Residual, calls=calls)) == {"gamma"}


@pytest.mark.parametrize(
    "wrap",
    [
        nn.utils.parametrizations.weight_norm,
        nn.utils.parametrizations.spectral_norm,
        lambda layer: torch.jit.trace(layer, torch.randn(2, 8)),
    ],
    ids=["weight_norm", "spectral_norm", "traced"],
)
def test_wrapped_layers_are_treated_without_error(wrap):
    build = layers(lambda: wrap(nn.Linear(8, 8)), lambda: nn.LayerNorm(8))
    state = treat(build)
    assert {"1.weight", "1.bias"} <= set(state)
    assert not figures(build, state).silent


def test_hooks_of_the_model_still_run():
    class Hooked(Residual):
        def __init__(self):
            super().__init__()
            self.f.register_forward_hook(lambda part, args, output: output * 0)

    assert set(treat(Hooked)) == {"gamma"}
