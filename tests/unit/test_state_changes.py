"""Probing calls with other integers, masks and zeros in parameters and buffers."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn

from compilegate.observe.model.integer_use import IndexUseError, WithinRange
from compilegate.observe.model.state_changes import change_others, swap_integers
from compilegate.suites import test_forward, test_gradients, test_recompiles, test_side_effects
from tests.unit.probed import WANTS, probed, verdict_of

INTEGERS, OTHERS = "other integers in buffers", "other masks and zeros in buffers"


class Reads(nn.Module):
    """A linear layer, next to a buffer that a function reads."""

    def __init__(self, state, read, *, is_parameter=False):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        if is_parameter:
            self.state = nn.Parameter(state, requires_grad=state.is_floating_point())
        else:
            self.register_buffer("state", state)
        self._read = [read]

    def forward(self, x):
        return self._read[0](self.linear(x), self.state)


def keeping_its_values(shape, dtype):
    """Return a compiler whose code keeps the first values of what has this shape and dtype."""

    def compiler(graph, inputs):
        kept = {}

        def run(*given):
            ours = [*given]
            for place, one in enumerate(given):
                if isinstance(one, torch.Tensor) and (one.shape, one.dtype) == (shape, dtype):
                    ours[place] = kept.setdefault(place, one.detach().clone())
            return graph(*ours)

        return run

    return compiler


STATE = {
    "token table": (INTEGERS, torch.tensor([2, 0, 3, 1]), lambda y, s: y[:, s]),
    "attention mask": (
        OTHERS,
        torch.ones(4, 4, dtype=torch.bool).tril(),
        lambda y, s: y.unsqueeze(1).masked_fill(~s[:3], -1e9).softmax(-1),
    ),
    "additive mask": (
        OTHERS,
        torch.full((3, 4), -torch.inf).triu(1),
        lambda y, s: (y.unsqueeze(1) + s).softmax(-1),
    ),
    "rows without a mask": (
        OTHERS,
        torch.zeros(2, 4, dtype=torch.bool),
        lambda y, s: y.masked_fill(s[0], 0.0),
    ),
    "zero table": (OTHERS, torch.zeros(1, 4), lambda y, s: y + s),
    "complex table": (
        OTHERS,
        torch.polar(torch.ones(2), torch.arange(2.0) + 1),
        lambda y, s: torch.view_as_real(torch.view_as_complex(y.unflatten(1, (2, 2))) * s),
    ),
}


@pytest.mark.parametrize("faulty", [True, False])
@pytest.mark.parametrize("phase", ["infer", "train"])
@pytest.mark.parametrize("name", STATE)
def test_code_that_keeps_the_values_of_a_buffer_shows(name, phase, faulty):
    probe, state, read = STATE[name]
    backend = keeping_its_values(state.shape, state.dtype) if faulty else "eager"
    seen = probed(lambda: Reads(state.clone(), read), phase, backend, WANTS[:3])
    assert probe in [one.probe for one in seen.probes], seen.unprobed
    found = verdict_of(seen)
    assert found.outcome == ("failed" if faulty else "passed"), found.details
    assert all(probe in line for line in found.details if faulty)
    for suite in () if faulty else (test_side_effects, test_recompiles):
        assert verdict_of(seen, suite).outcome == "passed"
    if phase == "train" and not faulty:
        assert verdict_of(seen, test_gradients).outcome == "passed"


@pytest.mark.parametrize("faulty", [True, False])
def test_code_that_keeps_a_floating_buffer_in_training_shows(faulty):
    state = torch.tensor([1.0, 2.0, 3.0, 4.0])
    backend = keeping_its_values(state.shape, state.dtype) if faulty else "eager"

    def build():
        model = Reads(state.clone(), lambda y, s: y * s)
        model.linear = nn.Linear(4, 4, bias=False)
        return model

    found = verdict_of(probed(build, "train", backend, WANTS[:3]))
    assert found.outcome == ("failed" if faulty else "passed"), found.details


def test_code_that_keeps_a_parameter_of_zeros_shows():
    state = torch.zeros(4, 1)
    for backend, outcome in (
        (keeping_its_values((4, 1), torch.float32), "failed"),
        ("eager", "passed"),
    ):
        seen = probed(
            lambda: Reads(state.clone(), lambda y, s: y + s[:, 0], is_parameter=True),
            backend=backend,
            wants=WANTS[:3],
        )
        assert verdict_of(seen, test_forward).outcome == outcome


SIZES = {
    "a size": lambda y, s: y[:, : s[0].item()],
    "an index that moves out of range": lambda y, s: y[:, s + torch.tensor([0, 2])],
}


@pytest.mark.parametrize("name", SIZES)
def test_integers_that_are_sizes_or_leave_their_range_stay(name):
    seen = probed(lambda: Reads(torch.tensor([3, 1]), SIZES[name]), wants=WANTS[:3])
    assert seen.status == "completed", seen.failure
    (line,) = [line for line in seen.unprobed if line.startswith(INTEGERS)]
    assert "takes integers as indices, sizes or shifts" in line


def test_a_mask_with_which_eager_returns_nan_stays():
    def read(y, s):
        return y.unsqueeze(1).masked_fill(s[:1], -torch.inf).softmax(-1)

    def built():
        return Reads(
            torch.tensor([[False, True, True, True], [True] * 4]),
            lambda y, s: read(y, s[1:] | s[:1]) if s[0, 0] else read(y, s),
        )

    seen = probed(built, wants=WANTS[:3])
    assert seen.status == "completed", seen.failure
    assert f"{OTHERS}: eager does not only return finite numbers" in seen.unprobed


def test_single_numbers_and_equal_integers_stay():
    alone, alike = torch.tensor(3), torch.zeros(1, 6, dtype=torch.int64)
    assert not swap_integers([alone, alike, alone.reshape(1, 1), torch.arange(4).float()])
    assert not change_others(
        [torch.tensor(True), torch.ones(4)], scales=False, device="cpu", seed=0
    )


def test_swaps_keep_the_values_of_each_row():
    table = torch.arange(12).view(3, 4)
    grid = torch.arange(3)[:, None].repeat(1, 4)
    shown = torch.arange(3)[:, None].expand(3, 4)
    assert swap_integers([table, table, grid, shown])
    assert table[:, :2].tolist() == [[1, 0], [5, 4], [9, 8]]
    assert grid[:, 0].tolist() == [1, 0, 2]
    assert shown[:, 0].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("look_up", "is_within"),
    [
        (lambda i: torch.embedding(torch.ones(4, 2), i), True),
        (lambda i: torch.embedding(torch.ones(3, 2), i), False),
        (lambda i: torch.embedding(torch.ones(4, 2), i - 1), False),
        (lambda i: torch.ones(2, 4).index_select(1, i), True),
        (lambda i: torch.ones(4, 2).index_select(1, i), False),
        (lambda i: torch.ones(1, 4).gather(1, i[None]), True),
        (lambda i: torch.ones(1, 3).gather(1, i[None]), False),
        (lambda i: torch.ones(2, 2, 4)[torch.ones(2, 2, dtype=torch.bool), i], True),
        (lambda i: torch.ones(4, 3)[:, i - 3], True),
        (lambda i: torch.ones(3)[i - 4], False),
        (lambda i: torch.ones(4)[i[:0]], True),
        (torch.bincount, False),
    ],
)
def test_indices_that_may_be_looked_up(look_up, is_within):
    refusing = pytest.raises(IndexUseError) if not is_within else nullcontext()
    with refusing, WithinRange():
        look_up(torch.arange(4))
