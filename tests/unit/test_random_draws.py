"""Tests of replaying random draws in a run in another precision."""

import pytest
import torch
from torch.nn import functional

from compilegate.observe.model.float64 import Lifting
from compilegate.observe.model.random_draws import DrawRecording, ReplayError, draws


def recorded(draw):
    torch.manual_seed(0)
    recording = DrawRecording(is_needed=True)
    with recording.active():
        return draw(torch.float32), recording


def played(draw, recording):
    torch.manual_seed(1)  # what is played must not be drawn
    lifting = Lifting()
    lifting.replay = recording.replay()
    with lifting.active():
        return draw(torch.float64)


DRAWS = {
    "dropout": lambda dtype: torch.ops.aten.native_dropout(torch.ones(99, dtype=dtype), 0.3, True)[
        0
    ],
    "bernoulli_": lambda dtype: torch.empty(99, dtype=dtype).bernoulli_(0.5),
    "rand_like": lambda dtype: torch.rand_like(torch.ones(9, dtype=dtype)),
    "randn": lambda dtype: torch.randn(9, dtype=dtype),
    "randperm": lambda dtype: torch.randperm(9),
    "functional": lambda dtype: functional.dropout(torch.ones(99, dtype=dtype), 0.5),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_run_in_float64_gets_the_numbers_that_float32_drew(draw):
    ours, recording = recorded(draw)
    theirs = played(draw, recording)
    assert torch.allclose(ours.double(), theirs.double())
    assert theirs.dtype == (torch.float64 if ours.is_floating_point() else ours.dtype)


def test_without_a_recording_the_numbers_differ():
    ours, _ = recorded(DRAWS["randn"])
    torch.manual_seed(1)
    assert not torch.allclose(ours.double(), DRAWS["randn"](torch.float64))


def test_a_replay_refuses_another_operator():
    _, recording = recorded(DRAWS["randn"])
    with pytest.raises(ReplayError, match=r"aten\.rand.* draws where eager drew aten\.randn"):
        played(DRAWS["rand_like"], recording)


def test_a_replay_refuses_more_draws_than_were_recorded():
    _, recording = recorded(lambda dtype: torch.ones(3))
    with pytest.raises(ReplayError, match="draws where eager drew nothing"):
        played(DRAWS["randn"], recording)


def test_operators_that_do_not_draw_run_unchanged():
    ours, recording = recorded(lambda dtype: torch.ones(3, dtype=dtype).sin())
    assert torch.allclose(
        played(lambda dtype: torch.ones(3, dtype=dtype).sin(), recording).float(), ours
    )


def arguments(operator, **given):
    """Return positional arguments of an operator; those that are not given are None."""
    return tuple(given.get(argument.name) for argument in operator._schema.arguments)


@pytest.mark.parametrize(
    ("dropout", "train", "expected"), [(0.2, True, True), (0.0, True, False), (0.2, False, False)]
)
def test_a_recurrent_layer_of_cudnn_draws_for_its_dropout_in_training_only(
    dropout, train, expected
):
    layer = torch.ops.aten._cudnn_rnn.default
    assert draws(layer, arguments(layer, dropout=dropout, train=train), {}) is expected


@pytest.mark.parametrize(("given", "expected"), [({"dropout_p": 0.1}, True), ({}, False)])
def test_attention_draws_if_it_has_dropout(given, expected):
    attention = torch.ops.aten._scaled_dot_product_efficient_attention.default
    assert draws(attention, (), given) is expected


@pytest.mark.parametrize("kernel", ["cudnn", "efficient", "flash"])
def test_the_backward_of_attention_does_not_draw(kernel):
    name = f"_scaled_dot_product_{kernel}_attention_backward"
    assert not draws(getattr(torch.ops.aten, name).default, (), {"dropout_p": 0.1})


@pytest.mark.parametrize(("train", "expected"), [(None, True), (True, True), (False, False)])
def test_dropout_draws_unless_it_is_not_training(train, expected):
    dropout = torch.ops.aten.native_dropout.default
    assert draws(dropout, (torch.ones(3), 0.5, train), {}) is expected
