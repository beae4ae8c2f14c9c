"""Dimensions of tensors in a dict, a list or a dataclass, which a path names."""

from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch
from torch import nn

from compilegate.judging.budget import Budget
from compilegate.observe.model_session import ModelSession
from compilegate.records.request import Request
from compilegate.suites import test_recompiles
from compilegate.zoo.example import Example, argument_of, check_dims
from compilegate.zoo.registry import Model


class Pair(NamedTuple):
    image: object


@dataclass
class Batch:
    image: object


X = torch.ones(2, 3)
GIVEN = {
    "dict": ((0, "image"), {"image": X}),
    "list": ((0, 1), [None, X]),
    "dict in a list": ((0, 1, "image"), [None, {"image": X}]),
    "named tuple": ((0, "image"), Pair(X)),
    "dataclass": ((0, "image"), Batch(X)),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_a_path_names_a_tensor(kind):
    path, given = GIVEN[kind]
    assert argument_of(path, [given], {}) is X
    assert argument_of(("batch", *path[1:]), [], {"batch": given}) is X
    check_dims({path: {1: "n"}}, [given], {})
    for wrong in ((0, "mask"), (0, 7), (0, "image", "image"), (1, "image")):
        with pytest.raises(ValueError, match="which is not given"):
            check_dims({wrong: {0: "n"}}, [given], {})


def test_a_dict_without_a_path_is_refused_with_the_way_out():
    with pytest.raises(ValueError, match=r"as in \{\(0, 'image'\): \{1: 'n'\}\}"):
        check_dims({0: {1: "n"}}, [{"image": X}], {})


class Nested(nn.Module):
    """Takes a dict of a picture and of a list of numbers."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, batch):
        return self.linear(batch["image"]) + batch["more"][0].sum()


NAMED = {(0, "image"): {0: "batch"}, (0, "more", 0): {0: "length"}}


def example(dims):
    return Example(
        Nested(),
        lambda batch, length: ({"image": torch.randn(batch, 4), "more": [torch.randn(length)]},),
        dims=dims,
    )


@pytest.mark.parametrize(
    ("dims", "outcome"), [(NAMED, "passed"), ({(0, "image"): {0: "batch"}}, "failed")]
)
def test_a_marked_tensor_in_a_dict_needs_no_recompilation(dims, outcome):
    entry = Model("m", "m", {"batch": (8, 5, 6), "length": (7, 9, 10)}, build=lambda: example(dims))
    request = Request(
        case="m-cpu-infer-f32-default-marked", wants=("capture", "vary"), backend="eager"
    )
    seen = ModelSession({"m": entry}, lambda stage: None).observe(request)
    found = test_recompiles.rule(seen, Budget())
    assert found.outcome == outcome, found
    assert outcome == "passed" or any("of batch['more'][0] varies" in one for one in found.details)


@pytest.mark.parametrize(
    ("practice", "step"),
    [
        ("twins", "the batch in two parts, the last one first"),
        ("dynamic_strategies", "pad batch=5 to batch=8, length=7"),
        ("export", "torch.export.export and torch.export.save"),
    ],
)
def test_practices_find_a_tensor_in_a_dict(practice, step):
    entry = Model(
        "m", "m", {"batch": (8, 5, 6), "length": (7, 9, 10)}, build=lambda: example(NAMED)
    )
    request = Request(
        case="m-cpu-infer-f32-default-static", wants=("capture", practice), backend="aot_eager"
    )
    seen = ModelSession({"m": entry}, lambda stage: None).observe(request)
    steps = {one.name: one for one in seen.practices[practice].steps}
    assert step in steps, list(steps)
    assert not steps[step].raised
    assert not steps[step].unavailable
