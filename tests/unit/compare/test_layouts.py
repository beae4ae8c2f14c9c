"""Tests of compared structures, shapes, dtypes, strides and aliases."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from compilegate.observe.compare.parameters import compare_parameters
from compilegate.observe.compare.results import (
    CallResults,
    compare_gradients,
    compare_outputs,
    compare_state,
)
from compilegate.observe.model.float64 import Lifting
from compilegate.observe.model.result import KNOWS_IDENTITIES
from compilegate.observe.model.subject import Subject
from compilegate.records.rounding import is_blind
from compilegate.zoo.example import Example
from compilegate.zoo.registry import Model
from tests.unit.compare.sides import (
    INFER,
    PLANNED,
    TRAIN,
    Compared,
    Net,
    complaints,
    differences,
    make_input,
)


@pytest.mark.parametrize("setting", [INFER, TRAIN], ids=["infer", "train"])
def test_a_correct_side_shows_no_difference(setting):
    model = Model("m", "m", build=lambda: Example(Net(), inputs=(make_input(),)))
    eager, compiled = Subject(model, setting, 0), Subject(model, setting, 0)
    reference = Subject(model, setting, 0, lifting=Lifting())
    ours, theirs, known = (s.call(s.prepare(PLANNED), 0) for s in (eager, compiled, reference))
    results = CallResults(ours, theirs, [known])
    checks = [compare_outputs(results), compare_gradients(results), compare_state(results)]
    for checked in checks:
        assert checked.differences == ()
        assert complaints(checked) == []
        assert not any(
            is_blind(error) for error in checked.errors if error.name != "gradient linear.bias"
        )
    sides = (eager.parameters(), compiled.parameters())
    assert compare_parameters(Subject(model, setting, 0).parameters(), *sides, {}).errors == ()
    assert checks[0].tensors == 5
    assert {error.name for error in checks[0].errors} == {
        "output.y",
        "output.view",
    }
    assert bool(checks[1].errors) == (setting is TRAIN)


def test_another_order_of_summation_passes():
    def summed(x):
        return torch.stack([x[:, i] for i in reversed(range(4))]).sum(0)

    checked = Compared(lambda x: x.sum(1), summed).outputs
    assert checked.differences == ()
    assert complaints(checked) == []


def test_a_shape_that_would_broadcast_is_found():
    found = differences(lambda x: x[0, :3] * 1, lambda x: x[:1, :3] * 1)
    assert found[0] == ("output", "shape", "(3,)", "(1, 3)")


def test_another_shape_is_reported_once():
    found = differences(lambda x: x.sum(1), lambda x: x.sum(1)[:3])
    assert [what for _, what, _, _ in found] == ["shape"]


@pytest.mark.parametrize(
    ("theirs", "dtype"),
    [
        (lambda x: x.double(), "float64"),
        (lambda x: x.bfloat16(), "bfloat16"),
        (lambda x: x.to(torch.complex64), "complex64"),
        (lambda x: x.int(), "int32"),
    ],
)
def test_another_dtype_is_found(theirs, dtype):
    assert ("output", "dtype", "float32", dtype) in differences(lambda x: x * 1, theirs)


def test_a_real_tensor_in_place_of_a_complex_one_is_found():
    def ours(x):
        return torch.complex(x, x)

    assert ("output", "dtype", "complex64", "float32") in differences(ours, lambda x: x * 1)


def test_another_integer_width_is_found():
    assert differences(lambda x: x.argmax(1), lambda x: x.argmax(1).int()) == [
        ("output", "dtype", "int64", "int32")
    ]


def test_other_strides_are_found():
    assert differences(lambda x: x * 1, lambda x: x.t().contiguous().t()) == [
        ("output", "stride", "(4, 1)", "(1, 6)")
    ]


@pytest.mark.parametrize(
    ("shape", "strides"),
    [((1, 4), (99, 1)), ((4, 1), (1, 99)), ((1, 1), (7, 3)), ((2, 1, 3), (3, 50, 1))],
)
def test_strides_of_dimensions_of_size_one_are_not_compared(shape, strides):
    def theirs(x):
        base = torch.zeros(200)
        return base.as_strided(shape, strides).copy_(x.reshape(-1)[: math.prod(shape)].view(shape))

    found = differences(lambda x: x.reshape(-1)[: math.prod(shape)].view(shape) * 1, theirs)
    assert found == []


def test_strides_of_an_empty_tensor_are_not_compared():
    found = differences(lambda x: x.new_empty(0, 5), lambda x: torch.empty(5, 0).t())
    assert found == []


def as_complex(x):
    return torch.complex(x, x)


def negative(x):
    return as_complex(x).conj().imag


@pytest.mark.parametrize(
    ("lazy", "resolved", "bit"),
    [
        (
            lambda x: as_complex(x).conj(),
            lambda x: as_complex(x).conj().resolve_conj(),
            "conjugate",
        ),
        (negative, lambda x: negative(x).clone(), "negative"),
    ],
)
def test_numbers_that_only_compiled_code_leaves_to_be_conjugated_are_found(lazy, resolved, bit):
    gained = ("output", "conjugate or negative bit", "none", bit)
    assert gained in differences(resolved, lazy)
    assert not any("bit" in what for _, what, _, _ in differences(lazy, resolved))
    assert differences(lazy, lazy) == []


def test_a_lost_requires_grad_is_found():
    found = differences(lambda x: (x * 2, x * 3), lambda x: (x * 2, (x * 3).detach()), case=TRAIN)
    assert found == [("output[1]", "requires_grad", "True", "False")]


def test_a_subclass_in_place_of_a_tensor_is_found():
    class Wrapped(torch.Tensor):
        pass

    found = differences(lambda x: x * 1, lambda x: (x * 1).as_subclass(Wrapped))
    assert ("output", "type", "Tensor", "Wrapped") in found


def test_a_parameter_may_replace_a_tensor():
    found = differences(lambda x: x * 1, lambda x: nn.Parameter(x * 1, requires_grad=False))
    assert found == []


def test_lost_aliasing_is_found():
    assert differences(lambda x: x.view(-1), lambda x: x.reshape(-1).clone()) == [
        ("output", "aliasing", "input[0] = output", "no shared memory")
    ]


def test_gained_aliasing_is_found():
    assert differences(lambda x: x + 0, lambda x: x) == [
        ("output", "aliasing", "no shared memory", "input[0] = output")
    ]


def test_aliasing_between_outputs_is_found():
    def ours(x):
        y = x * 2
        return y, y[0]

    def theirs(x):
        return x * 2, x[0] * 2

    assert differences(ours, theirs) == [
        ("output", "aliasing", "output[0] = output[1]", "no shared memory")
    ]


class Cache:
    """What a model fills, and returns."""

    def __init__(self):
        self.layers = []


def made_cache():
    return Cache(), make_input()


compares_identities = pytest.mark.skipif(not KNOWS_IDENTITIES, reason="identities are not compared")


def given_back(given):
    cache, x = given
    cache.layers.append(x + 1)
    return x * 2, cache


def copied_back(given):
    cache, x = given
    cache.layers.append(x + 1)
    return x * 2, copy.copy(cache)


@compares_identities
def test_a_copy_of_an_object_that_eager_gives_back_is_found():
    assert differences(given_back, given_back, inputs=made_cache) == []
    assert differences(given_back, copied_back, inputs=made_cache) == [
        ("output", "identity", "input[0][0] is output[1]", "another object")
    ]


@compares_identities
def test_one_list_in_two_places_is_no_copy():
    def once(x):
        made = [x * 2]
        return made, {"again": made}

    def twice(x):
        made = [x * 2]
        return made, {"again": [*made]}

    assert differences(once, once) == []
    assert differences(once, twice) == [
        ("output", "identity", "output[0] is output[1].again", "another object")
    ]
    assert differences(twice, once) == [
        ("output", "identity", "another object", "output[0] is output[1].again")
    ]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (lambda x: (x * 1,), lambda x: [x * 1]),
        (lambda x: {"a": x * 1}, lambda x: {"b": x * 1}),
        (lambda x: (x * 1, x * 2), lambda x: (x * 1,)),
        (lambda x: (x * 1,), lambda x: (x * 1, x * 2)),
        (lambda x: (x * 1, None), lambda x: (x * 1, x * 2)),
    ],
)
def test_another_structure_is_found(ours, theirs):
    found = differences(ours, theirs)
    assert found[0][:2] == ("output", "structure")


def first(numbers):
    """Return a model that returns the first numbers of its input, as ``unique_consecutive`` may."""
    return lambda x: x.reshape(-1)[:numbers].clone()


@pytest.mark.parametrize(("of_the_reference", "fails"), [(20, True), (21, False)])
def test_a_shape_that_rounding_decides_is_a_tie(of_the_reference, fails):
    sides = Compared(first(20), first(19))
    reference = Compared(first(of_the_reference), first(19)).eager
    found = compare_outputs(replace(sides.results, references=[reference]))
    assert [one.what for one in found.differences] == (["shape"] if fails else [])
    ties = [(one.where, one.eager, one.compiled) for one in found.decisions]
    assert ties == ([] if fails else [("output, shape", "(20,), another run (21,)", "(19,)")])
