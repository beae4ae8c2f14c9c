"""Rewrites of the practice ``twins``, in eager: which layers they change."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from compilegate.observe.practices.twins import REWRITES
from compilegate.observe.practices.unavailable import StepUnavailableError

SPLIT = REWRITES["layers split and joined"]


def split(*layers):
    module = nn.Sequential(*layers, nn.Identity())
    SPLIT(SimpleNamespace(module=module))
    return [len(layer._forward_hooks) for layer in module][:-1], module


@pytest.mark.parametrize(
    ("layer", "x"),
    [
        (nn.Conv2d(3, 4, 1), torch.randn(2, 3, 5, 5)),
        (nn.Conv2d(1, 4, 3), torch.randn(2, 1, 5, 5)),
        (nn.Linear(1, 3), torch.randn(2, 1)),
        (nn.Embedding(1, 3), torch.tensor([0, 0])),
    ],
    ids=["1x1 convolution", "convolution of one channel", "linear of one", "embedding of one"],
)
def test_a_layer_with_several_features_is_split(layer, x):
    whole = layer(x)
    hooks, module = split(layer)
    assert hooks == [1]
    torch.testing.assert_close(module(x), whole)


@pytest.mark.parametrize("layer", [nn.Linear(3, 1), nn.Embedding(3, 1), nn.Conv2d(4, 1, 3)])
def test_a_layer_with_one_feature_is_not_split(layer):
    hooks, _ = split(layer, nn.Linear(2, 2))
    assert hooks == [0, 1]
    with pytest.raises(StepUnavailableError, match="with several features"):
        split(layer)


@pytest.mark.parametrize(
    ("run", "dims", "args", "kwargs"),
    [
        (lambda x: x + 1, {0: {0: "n"}}, (torch.randn(5, 2),), {}),
        (lambda *, x: x + 1, {"x": {0: "n"}}, (), {"x": torch.randn(5, 2)}),
        (lambda given: given["x"] + 1, {(0, "x"): {0: "n"}}, ({"x": torch.randn(5, 2)},), {}),
        (lambda given: given[0] + 1, {(0, 0): {0: "n"}}, ([torch.randn(5, 2)],), {}),
    ],
    ids=["positional", "keyword", "in a dict", "in a list"],
)
def test_the_parts_of_a_batch_are_one_graph(run, dims, args, kwargs):
    subject = SimpleNamespace(run=run, example=SimpleNamespace(dims=dims))
    REWRITES["the batch in two parts, the last one first"](subject)
    compiled = torch.compile(subject.run, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(*args, **kwargs), run(*args, **kwargs))
