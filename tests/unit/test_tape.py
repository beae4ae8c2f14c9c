"""What one run drew is given to another, in another precision."""

import pytest
import torch
from torch.nn import functional

from compilegate.observe.model.float64 import Lifting
from compilegate.observe.model.random_draws import Tape, TapeError


def recorded(draw):
    torch.manual_seed(0)
    tape = Tape(is_needed=True)
    with tape.recording():
        return draw(torch.float32), tape


def played(draw, tape):
    torch.manual_seed(1)  # what is played must not be drawn
    lifting = Lifting()
    lifting.player = tape.player()
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
def test_a_run_in_float64_is_given_what_float32_drew(draw):
    ours, tape = recorded(draw)
    theirs = played(draw, tape)
    assert torch.allclose(ours.double(), theirs.double())
    assert theirs.dtype == (torch.float64 if ours.is_floating_point() else ours.dtype)


def test_without_a_tape_it_would_be_another():
    ours, _ = recorded(DRAWS["randn"])
    torch.manual_seed(1)
    assert not torch.allclose(ours.double(), DRAWS["randn"](torch.float64))


def test_another_operator_in_its_place_is_refused():
    _, tape = recorded(DRAWS["randn"])
    with pytest.raises(TapeError, match=r"aten\.rand.* draws where eager drew aten\.randn"):
        played(DRAWS["rand_like"], tape)


def test_more_than_was_drawn_is_refused():
    _, tape = recorded(lambda dtype: torch.ones(3))
    with pytest.raises(TapeError, match="draws where eager drew nothing"):
        played(DRAWS["randn"], tape)


def test_what_does_not_draw_is_left_alone():
    ours, tape = recorded(lambda dtype: torch.ones(3, dtype=dtype).sin())
    assert torch.allclose(
        played(lambda dtype: torch.ones(3, dtype=dtype).sin(), tape).float(), ours
    )
