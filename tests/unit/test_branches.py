"""Branches of activations, clamps, masks and pools: which of them the calls of a model reach."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from compilegate.observe.conditioning.branches import Branches
from tests.unit.probed import probed, replacing, verdict_of


def missing(function, *inputs):
    followed = Branches()
    with followed, torch.no_grad():
        function(*inputs)
    assert followed.seen
    return followed.missing


BOTH = torch.tensor([-2.0, -0.1, 0.1, 2.0])


@pytest.mark.parametrize(
    ("function", "hidden", "branch"),
    [
        (functional.relu, BOTH.abs(), "relu 1: negative"),
        (functional.relu_, -BOTH.abs(), "relu 1: positive"),
        (functional.leaky_relu, BOTH.abs(), "leaky_relu 1: negative"),
        (functional.elu, BOTH.abs(), "elu 1: negative"),
        (functional.hardswish, 2 * BOTH.clamp(max=0.1), "hardswish 1: above"),
        (lambda x: x.clamp(-1, 1), BOTH.clamp(max=0.5), "clamp 1: above"),
        (lambda x: x.clamp(min=0), BOTH.abs(), "clamp 1: below"),
        (functional.relu6, 4 * BOTH.clamp(max=1), "hardtanh 1: above"),
        (lambda x: x.masked_fill(x > 0, 0), -BOTH.abs(), "masked_fill 1: true"),
        (lambda x: torch.where(x > 0, x, 2 * x), BOTH.abs(), "where 1: false"),
        (lambda x: torch.maximum(x, torch.zeros(4)), BOTH.abs(), "maximum 1: second larger"),
    ],
)
def test_a_branch_that_no_number_reaches_is_named(function, hidden, branch):
    assert missing(function, hidden.clone()) == [branch]
    assert not missing(function, 4 * BOTH)


def test_an_end_that_only_keeps_zero_away_is_no_branch():
    assert not missing(lambda x: functional.normalize(x, dim=1), BOTH.view(2, 2))


def test_the_corners_of_a_pool_are_named():
    def pool(x):
        return functional.max_pool2d(x, 3, 2, 1)

    rising = torch.arange(64.0).view(1, 1, 8, 8) - 100
    assert missing(pool, rising) == [
        "max_pool2d_with_indices 1: largest in the first row",
        "max_pool2d_with_indices 1: largest in the first column",
    ]
    assert missing(pool, rising + 200)[-1] == "max_pool2d_with_indices 1: nothing positive"
    assert not missing(pool, torch.randn(2, 3, 16, 16) - 1)


def test_an_attention_mask_that_hides_nothing_is_named():
    q = torch.randn(2, 1, 4, 8)
    shown = torch.ones(4, 4, dtype=torch.bool)

    def attend(mask):
        return functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)

    assert missing(attend, shown)[-1].endswith(": hidden")
    assert not missing(attend, shown.tril())


def pooled():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        nn.Flatten(),
        nn.Linear(256, 5),
    )


@pytest.mark.parametrize("phase", ["infer", "train"])
def test_a_relu_that_leaks_before_a_max_pool_shows(phase):
    def of(backend):
        def inputs(batch):
            return (torch.randn(batch, 3, 8, 8),)

        seen = probed(pooled, phase, backend, ("capture", "vary"), inputs=inputs, signal=True)
        return verdict_of(seen)

    sound = of("eager")
    assert sound.outcome == "passed", sound.details
    leaking = replacing("relu", lambda x, inplace: functional.leaky_relu(x, 1e-4))
    found = of(leaking)
    assert found.outcome == "failed"
    assert found.summary.startswith("call 1 (batch=8): output (float32): ")
