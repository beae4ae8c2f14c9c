"""Tests of replaying random draws in a run in another precision."""

import pytest
import torch
from torch.nn import functional

from compilegate.observe.model.float64 import Lifting
from compilegate.observe.model.random_draws import DrawRecording, ReplayError


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
