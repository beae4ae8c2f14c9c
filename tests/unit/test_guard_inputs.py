"""Signatures of calls differ in what a guard may depend on, and in nothing else."""

import enum

import pytest
import torch

from compilegate.observe.capture import guard_inputs
from compilegate.suites.test_recompiles import allowed_by_setting
from compilegate.zoo.example import Call
from tests.unit.making import make_call


def of(*args, before=None, index=0, state=None, **kwargs):
    return guard_inputs.of(Call(args, kwargs, before=before), index, state or {})


def test_numbers_are_sizes_and_python_numbers_by_place():
    seen = of(torch.zeros(4, 8), 3, mask=torch.zeros(5), scale=0.5)
    assert sorted(seen.numbers.values()) == [0.5, 3, 4, 5, 8]
    assert sum(" dim " in name for name in seen.numbers) == 3


def test_an_action_that_changes_weights_justifies_no_recompilation():
    swapping = Call((X,), before=list)
    signatures = [
        guard_inputs.of(swapping, index, {}, swaps_weights=index > 0) for index in range(3)
    ]
    assert signatures[1] == signatures[2] == of(X)
    assert signatures[0] != of(X)


def test_values_do_not_matter():
    assert of(torch.zeros(4, 8)) == of(torch.ones(4, 8))


def test_sizes_and_numbers_are_not_part_of_the_rest():
    one, other = of(torch.zeros(4, 8), 3), of(torch.zeros(2, 8), 5)
    assert one.rest == other.rest
    assert one.numbers.keys() == other.numbers.keys()
    assert one.numbers != other.numbers


def test_a_scalar_tensor_has_no_numbers():
    assert of(torch.tensor(3)).numbers == {}


def test_the_ragged_size_of_a_jagged_tensor_is_no_number():
    rows = [torch.zeros(3, 4), torch.zeros(2, 4)]
    jagged = torch.nested.nested_tensor(rows, layout=torch.jagged)
    assert sorted(of(jagged).numbers.values()) == [2, 4]


class Mode(enum.Enum):
    SUM = 1
    MEAN = 2


X = torch.zeros(2, 3)
Y = torch.ones(2, 3)
SQUARE = torch.zeros(3, 3)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(of(X), of(X.double()), id="dtype"),
        pytest.param(of(X), of(X.clone().requires_grad_()), id="requires_grad"),
        pytest.param(of(X), of(X.to_sparse()), id="layout"),
        pytest.param(of(X), of([X]), id="nesting"),
        pytest.param(of(X), of(X, Y), id="one more"),
        pytest.param(of(X, Y), of(X, X), id="the same tensor twice"),
        pytest.param(of(X, Y), of(X, X[:]), id="a view of another"),
        pytest.param(of(X, flag=True), of(X, flag=False), id="a boolean"),
        pytest.param(of(X, "mean"), of(X, "sum"), id="a string"),
        pytest.param(of(X, None), of(X, 1), id="None or a number"),
        pytest.param(of(X, 1), of(X, 1.0), id="int or float"),
        pytest.param(of(X, a=X), of(X, b=X), id="another keyword"),
        pytest.param(of(X), of(x=X), id="by keyword"),
        pytest.param(of(X, torch.float32), of(X, torch.float64), id="a dtype"),
        pytest.param(of(X, Mode.SUM), of(X, Mode.MEAN), id="a member of an enum"),
        pytest.param(of(X, slice(1)), of(X, slice(2)), id="a slice"),
        pytest.param(of(X, {1, 2}), of(X, {1, 3}), id="a set"),
        pytest.param(of(X), of(X, before=list), id="an action before"),
        pytest.param(of(X, before=list, index=1), of(X, before=list, index=2), id="two actions"),
        pytest.param(of(SQUARE), of(SQUARE.t()), id="strides"),
    ],
)
def test_what_justifies_a_recompilation_differs(one, other):
    assert one.rest != other.rest


@pytest.mark.parametrize("dynamic", ["static", "auto", "dynamic", "marked"])
def test_another_rank_justifies_a_recompilation_under_every_setting(dynamic):
    calls = [make_call(numbers=s.numbers, rest=s.rest) for s in (of(SQUARE), of(SQUARE[0]))]
    assert allowed_by_setting(dynamic, calls) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(of(X), of(Y), id="another tensor"),
        pytest.param(of(X, Y), of(Y, X), id="swapped"),
        pytest.param(of(X, X), of(Y, Y), id="shared alike"),
        pytest.param(of(X, index=0), of(X, index=5), id="another call"),
        pytest.param(of(X, {"a", "b"}), of(X, {"b", "a"}), id="the same set"),
    ],
)
def test_what_no_guard_reads_is_alike(one, other):
    assert one == other


class Cache:
    """A Python object that has no value to compare."""


def test_objects_of_one_class_are_equal():
    """Their address does not justify a recompilation."""
    kept = [Cache(), Cache()]
    assert of(X, kept[0]).rest == of(X, kept[1]).rest


@pytest.mark.parametrize(
    ("name", "values", "is_alike"),
    [
        ("attribute layer.is_first", (True, False), False),
        ("closure mode", ("sum", "mean"), False),
        ("attribute steps", (1, 2), True),  # a recompilation for a counter must be reported
        ("buffer steps", (torch.zeros(1), torch.ones(1)), True),
    ],
)
def test_flags_that_a_model_keeps_may_be_compiled_for(name, values, is_alike):
    one, other = (of(X, state={name: value}) for value in values)
    assert (one == other) is is_alike


class Batch:
    """An object among the arguments, which counts."""

    def __init__(self, rows, *, seen=0):
        self.held, self.seen = {"x": torch.zeros(rows, 3)}, seen


def test_sizes_of_tensors_in_objects_matter_and_counters_do_not():
    assert of(Batch(4)).numbers != of(Batch(5)).numbers
    assert of(Batch(4)) == of(Batch(4, seen=1))
