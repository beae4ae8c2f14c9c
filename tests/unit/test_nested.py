"""Tests of nested values: leaves have names, and moved tensors still share memory."""

import collections
import dataclasses
import gc
import weakref
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import torch

from compilegate.observe.nested import Recast, leaves, storage_key, structure, tensors


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Record:
    logits: Any
    hidden: Any = None


class ModelOutput(collections.OrderedDict):
    """Like ModelOutput of transformers: a dict and, in its subclasses, a dataclass."""

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if getattr(self, field.name) is not None:
                self[field.name] = getattr(self, field.name)


@dataclasses.dataclass
class ClassifierOutput(ModelOutput):
    logits: Any = None
    hidden: Any = None


X, Y = torch.zeros(2), torch.ones(3)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (X, {"output": X}),
        ((X, Y), {"output[0]": X, "output[1]": Y}),
        ([X, (Y,)], {"output[0]": X, "output[1][0]": Y}),
        ({"a": X, "b": {"c": Y}}, {"output.a": X, "output.b.c": Y}),
        (Pair(X, [Y]), {"output[0]": X, "output[1][0]": Y}),
        (Record(X), {"output.logits": X, "output.hidden": None}),
        (Record(X, {"a": (Y,)}), {"output.logits": X, "output.hidden.a[0]": Y}),
        (ClassifierOutput(logits=X), {"output.logits": X}),
        (MappingProxyType({"a": X}), {"output.a": X}),
        (
            [Record(Record(X), Y)],
            {
                "output[0].logits.logits": X,
                "output[0].logits.hidden": None,
                "output[0].hidden": Y,
            },
        ),
        (
            (1, None, "a", 2.5),
            {"output[0]": 1, "output[1]": None, "output[2]": "a", "output[3]": 2.5},
        ),
        ((), {}),
    ],
)
def test_leaves_are_named_by_their_path(value, expected):
    seen = dict(leaves(value, "output"))
    assert seen.keys() == expected.keys()
    assert all(seen[path] is leaf for path, leaf in expected.items())


def test_a_dataclass_type_is_a_leaf():
    assert list(leaves(Record, "output")) == [("output", Record)]


def test_fields_that_are_none_are_no_leaves():
    """transformers leaves out fields that are None."""
    assert structure(ClassifierOutput(logits=X)) == "ClassifierOutput(logits=Tensor)"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (X, "Tensor"),
        (3, "int"),
        (None, "NoneType"),
        ((X, [Y, 1]), "tuple([0]=Tensor, [1]=list([0]=Tensor, [1]=int))"),
        ({"a": X}, "dict(a=Tensor)"),
        (Pair(X, Y), "Pair([0]=Tensor, [1]=Tensor)"),
        (Record(X), "Record(logits=Tensor, hidden=NoneType)"),
        ((), "tuple()"),
    ],
)
def test_the_structure_of_a_value_is_text(value, text):
    assert structure(value) == text


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ((X,), [X]),
        ((X,), X),
        ({"a": X}, {"b": X}),
        ({"a": X, "b": Y}, {"b": Y, "a": X}),
        (Pair(X, Y), (X, Y)),
        (Record(X), ClassifierOutput(X)),
        ((X, 1), (X, 1.0)),
        ((X, None), (X,)),
    ],
)
def test_different_structures_have_different_texts(ours, theirs):
    assert structure(ours) != structure(theirs)


def test_tensors_returns_the_leaves_that_are_tensors():
    parameter = torch.nn.Parameter(X)
    assert list(tensors([X, 1, {"p": parameter}, None], "input")) == ["input[0]", "input[2].p"]


# Memory.


def test_views_share_a_storage_key_and_copies_do_not():
    x = torch.zeros(4, 4)
    assert storage_key(x) == storage_key(x[1:]) == storage_key(x.t()) == storage_key(x.detach())
    assert storage_key(x) != storage_key(x.clone())


@pytest.mark.parametrize(
    "tensor",
    [torch.empty(0), torch.zeros(3).to_sparse(), torch.zeros(3, device="meta")],
    ids=["empty", "sparse", "meta"],
)
def test_tensors_without_memory_have_no_storage_key(tensor):
    assert storage_key(tensor) is None


# Recast.

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")),
]
targets = pytest.mark.parametrize("device", DEVICES)


def test_recast_copies_nothing_without_need():
    x, y = torch.randn(3), torch.arange(3)
    there = Recast("cpu", None)((x, {"a": [y]}))
    assert there[0] is x
    assert there[1]["a"][0] is y


@targets
def test_recast_casts_floating_tensors_and_only_moves_others(device):
    x, n, b = torch.randn(3), torch.arange(3), torch.tensor([True])
    there = Recast(device, torch.float64)([x, (n, {"b": b}), 5, None, "text"])
    assert [t.dtype for t in (there[0], there[1][0], there[1][1]["b"])] == [
        torch.float64,
        torch.int64,
        torch.bool,
    ]
    assert {t.device.type for t in (there[0], there[1][0], there[1][1]["b"])} == {device}
    assert there[0].tolist() == x.tolist()
    assert there[2:] == [5, None, "text"]


@targets
def test_shared_memory_stays_shared(device):
    base = torch.randn(4, 6)
    there = Recast(device, torch.float64)((base, base[1:3], base.t()))
    assert len({storage_key(t) for t in there}) == 1
    there[0][1, 2] = 7.0
    assert there[1][0, 2] == there[2][2, 1] == 7.0


@targets
def test_shared_memory_stays_shared_across_calls(device):
    recast = Recast(device, torch.float64)
    base = torch.randn(4)
    (first,), second = recast((base,)), recast({"view": base[2:]})
    first[3] = 9.0
    assert second["view"][1] == 9.0


@targets
def test_what_was_moved_is_freed_with_its_original(device):
    """A loop over fresh inputs must not fill the memory."""
    recast = Recast(device, torch.float64)
    kept = torch.randn(2)
    (there,) = recast((kept,))
    freed = [weakref.ref(recast((torch.randn(4),))[0]) for _ in range(3)]
    gc.collect()
    assert [ref() for ref in freed] == [None] * 3
    assert recast((kept,))[0] is there


@targets
def test_the_same_tensor_stays_the_same(device):
    x = torch.randn(3)
    there = Recast(device, torch.float64)((x, [x]))
    assert there[0] is there[1][0]


@targets
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(3, 4).t(),
        lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        lambda: torch.randn(10)[::2],
        lambda: torch.randn(1).expand(3, 4),
        lambda: torch.randn(8)[3:],
        lambda: torch.tensor(2.0),
    ],
    ids=["transposed", "channels_last", "strided", "expanded", "offset", "scalar"],
)
def test_recast_keeps_strides_offsets_and_values(device, make):
    x = make()
    (there,) = Recast(device, torch.float64)((x,))
    assert (there.shape, there.stride()) == (x.shape, x.stride())
    assert there.storage_offset() == x.storage_offset()
    assert there.tolist() == x.tolist()


@targets
def test_separate_memory_stays_separate(device):
    x, y = torch.randn(3), torch.randn(3)
    there = Recast(device, torch.float64)((x, y))
    assert storage_key(there[0]) != storage_key(there[1])


def test_recast_does_not_write_to_the_original():
    x = torch.randn(3)
    before = x.clone()
    (there,) = Recast("cpu", torch.float64)((x,))
    there.zero_()
    assert torch.equal(x, before)


def test_recast_keeps_requires_grad_of_a_leaf():
    x, y = torch.randn(3, requires_grad=True), torch.randn(3)
    there = Recast("cpu", torch.float64)((x, y))
    assert [t.requires_grad for t in there] == [True, False]
    assert there[0].is_leaf


def test_recast_moves_tensors_without_memory():
    sparse, empty = torch.eye(3).to_sparse(), torch.empty(0, 4)
    there = Recast("cpu", torch.float64)((sparse, empty))
    assert [t.dtype for t in there] == [torch.float64] * 2
    assert there[0].layout is torch.sparse_coo
    assert there[1].shape == (0, 4)


@pytest.mark.parametrize(
    "value",
    [
        Pair(X, Y),
        Record(X, [Y]),
        collections.OrderedDict(a=X),
        ClassifierOutput(logits=X),
        MappingProxyType({"a": X}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_recast_moves_every_tensor_leaf(value):
    """Every named input takes part in the call, so it must be in float64, too."""
    there = Recast("cpu", torch.float64)(value)
    assert type(there) is type(value)
    found = tensors(there, "input")
    assert found.keys() == tensors(value, "input").keys()
    assert {t.dtype for t in found.values()} == {torch.float64}
