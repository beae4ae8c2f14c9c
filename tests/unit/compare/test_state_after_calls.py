"""Tests of the compared state after a call."""

import math
from collections import OrderedDict

import pytest
import torch
from torch import nn

from compilegate.judging.sentences import sentence
from compilegate.judging.tolerances import beyond
from compilegate.observe.compare.results import CallResults, compare_state
from compilegate.observe.model.result import OVERWRITTEN, Placed, Result
from tests.unit.compare.sides import (
    TRAIN,
    Compared,
    Net,
    complaints,
)


def error_lines(made):
    return [sentence(error, beyond(error, 0.0, 1.0)[0]) for error in made.state.errors]


def test_an_input_that_only_compiled_code_overwrites_is_found():
    made = Compared(lambda x: x * 2, lambda x: x.mul_(2).clone())
    assert complaints(made.outputs) == []
    (found,) = made.state.differences
    assert (found.where, found.what) == ("input[0]", "value")
    assert found.eager.startswith("leaves it ")
    assert "24 of 24 elements differ" in found.compiled


def test_a_tiny_change_of_an_input_is_found():
    made = Compared(lambda x: x * 2, lambda x: x.add_(1e-7).mul(2))
    (found,) = made.state.differences
    assert found.where == "input[0]"


def test_an_input_that_only_eager_overwrites_is_found():
    made = Compared(lambda x: x.mul_(2).clone(), lambda x: x * 2)
    assert len(complaints(made.state)) == 1
    (error,) = made.state.errors
    assert error.unwritten
    (said,) = error_lines(made)
    assert said.startswith("input[0] (float32): root mean square error is 0.5 of its scale")
    assert "; compiled code leaves it unchanged; worst at" in said


def test_an_input_that_compiled_code_overwrites_otherwise_is_written():
    made = Compared(lambda x: x.mul_(2).clone(), lambda x: x.mul_(3).clone())
    assert not made.state.errors[0].unwritten
    (said,) = error_lines(made)
    assert "leaves it unchanged" not in said


def test_an_input_that_both_sides_overwrite_is_compared():
    made = Compared(lambda x: x.mul_(2).clone(), lambda x: x.mul_(2).clone())
    assert [error.name for error in made.state.errors] == ["input[0]"]
    assert complaints(made.state) == []


class Tallying(nn.Module):
    """A module that writes to a buffer in place."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(3, 2))

    def forward(self, x):
        self.count.add_(1)
        return x * 2


def in_new_memory(module, x):
    module.count.data = module.count + 1
    return x * 2


def another_object(module, x):
    module.count = module.count + 1
    return x * 2


def requiring_a_gradient(module, x):
    module.count.add_(1)
    return x.requires_grad_().detach() * 2


@pytest.mark.parametrize(
    ("theirs", "found"),
    [
        (Tallying.forward, []),
        (in_new_memory, [("buffer count", "memory")]),
        (another_object, [("buffer count", "memory")]),
        (requiring_a_gradient, [("input[0]", "requires_grad")]),
    ],
)
def test_a_buffer_that_eager_leaves_in_place_must_stay_there(theirs, found):
    made = Compared(Tallying, theirs)
    assert [(d.where, d.what) for d in made.state.differences] == found


def test_a_buffer_of_another_dtype_is_named_by_its_dtype():
    class Leaving(Tallying):
        def forward(self, x):
            return x * 2

    def cast(module, x):
        module.count = module.count.double()
        return x * 2

    found = [(d.what, d.eager, d.compiled) for d in Compared(Leaving, cast).state.differences]
    assert ("dtype", "leaves it float32", "makes it float64") in found
    assert not any("elements differ" in compiled for _, _, compiled in found)


@pytest.mark.parametrize(
    ("theirs", "found"),
    [
        (in_new_memory, []),
        (another_object, []),
        (Tallying.forward, [("buffer count", "memory")]),  # a holder of the old one sees the write
    ],
)
def test_a_buffer_that_eager_moves_must_move(theirs, found):
    class Moving(Tallying):
        forward = another_object

    made = Compared(Moving, theirs)
    assert [(d.where, d.what) for d in made.state.differences] == found


def test_strides_that_are_changed_in_place_are_found():
    made = Compared(lambda x: x * 2, lambda x: x.t_().t_() * 2)
    assert {found.what for found in made.state.differences} == {"version"}
    made = Compared(lambda x: x.sum(), lambda x: x.as_strided_((6, 4), (1, 6)).sum())
    assert "stride" in {found.what for found in made.state.differences}


@pytest.mark.parametrize(
    ("name", "changes"), [("kept output[0]", []), ("attribute cache", ["value", "memory"])]
)
def test_a_cuda_graph_may_overwrite_only_outputs(name, changes):
    before = {name: torch.ones(3)}
    eager = Result(before=before, state={name: torch.ones(3)}, stayed=frozenset({name}))
    moved = dict.fromkeys([name][: len(changes)], "memory")
    compiled = Result(before=before, state={name: OVERWRITTEN}, moved=moved)
    differences = compare_state(CallResults(eager, compiled)).differences
    assert [(found.where, found.what) for found in differences] == [
        (name, what) for what in changes
    ]
    assert all("overwritten by a later replay" in found.compiled for found in differences[:1])


def test_a_tensor_without_a_known_address_has_not_moved():
    tensor = torch.ones(3)
    before, after = Placed({"x": tensor}), Placed({"x": tensor})
    after._places["x"]["memory"] = None
    assert before.until(after) == (frozenset({"x"}), {})


def test_state_that_no_side_changed_is_only_counted():
    made = Compared(lambda x: x * 2, lambda x: x * 2)
    assert (made.state.tensors, made.state.errors, made.state.differences) == (1, (), ())


def with_nan():
    x = torch.randn(6, 4)
    x[0, 0] = math.nan
    return x


def test_a_nan_that_only_compiled_code_overwrites_is_found():
    made = Compared(lambda x: x * 2, lambda x: x * (2 + x.nan_to_num_()[0, 0]), inputs=with_nan)
    (found,) = made.state.differences
    assert (found.where, found.eager) == ("input[0]", "leaves it nan at [0, 0]")


def test_an_unchanged_nan_passes():
    made = Compared(lambda x: x * 2, lambda x: x * 2, inputs=with_nan)
    assert (made.state.tensors, made.state.errors, made.state.differences) == (1, (), ())


def test_integer_inputs_that_stay_are_no_change():
    made = Compared(lambda n: n * 2, lambda n: n * 2, inputs=lambda: torch.arange(3))
    assert made.state.differences == ()


def test_a_changed_integer_input_is_found():
    made = Compared(lambda n: n * 2, lambda n: n.add_(1) * 2 - 2, inputs=lambda: torch.arange(3))
    (found,) = made.state.differences
    assert (found.where, found.what) == ("input[0]", "value")


def test_a_lost_running_statistic_is_found():
    def theirs(module, x):
        norm, y = module.norm, module.linear(x)
        kept = norm.running_mean.clone(), norm.running_var.clone()
        y = nn.functional.batch_norm(y, *kept, norm.weight, norm.bias, training=True).tanh()
        return {"y": y, "argmax": y.argmax(), "view": x[1:], "scale": 0.5, "none": None}

    made = Compared(Net, theirs, case=TRAIN)
    assert made.outputs.differences == ()
    assert complaints(made.outputs) == []
    assert {error.name for error in made.state.errors} >= {"buffer norm.running_mean"}
    assert any("buffer norm.running_mean" in text for text in complaints(made.state))
    assert [d.where for d in made.state.differences] == ["buffer norm.num_batches_tracked"]


class Counting(nn.Module):
    """A module that assigns a new tensor to its buffer in each call."""

    dtype = torch.float32
    size = 3

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        self.seen = torch.ones(self.size, dtype=self.dtype)
        return x * 2


@pytest.mark.parametrize(
    ("attribute", "value", "what"), [("dtype", torch.bfloat16, "dtype"), ("size", 2, "shape")]
)
def test_a_buffer_of_another_dtype_or_shape_is_found(attribute, value, what):
    def theirs(module, x):
        setattr(module, attribute, value)
        return module(x)

    found = Compared(Counting, theirs).state.differences
    assert ("buffer seen", what) in [(difference.where, difference.what) for difference in found]


def test_a_buffer_that_both_sides_replace_passes():
    made = Compared(Counting, lambda module, x: module(x))
    assert made.state.differences == ()
    assert complaints(made.state) == []


def test_a_buffer_that_is_missing_on_one_side_is_found():
    def theirs(module, x):
        del module.seen
        return x * 2

    (found,) = Compared(Counting, theirs).state.differences
    assert found.where == "buffer seen"


class Logs(nn.Module):
    """A module with public and private containers."""

    def __init__(self):
        super().__init__()
        self.pending = {"a": 1.0}
        self._log = []

    def forward(self, x):
        self.pending.clear()
        self._log.append(x.shape[0])
        self._last = 3.0
        return x * 2


@pytest.mark.parametrize("lost", ["pending.a", "_log[0]", "_last"])
def test_a_lost_change_is_found(lost):
    def theirs(module, x):
        if lost != "pending.a":
            module.pending.clear()
        if lost != "_log[0]":
            module._log.append(x.shape[0])
        if lost != "_last":
            module._last = 3.0
        return x * 2

    (found,) = Compared(Logs, theirs).state.differences
    assert (found.where, found.what) == (f"attribute {lost}", "value")


def test_private_attributes_that_torch_compile_adds_are_no_difference():
    def theirs(module, x):
        module._compiled_code = 7
        return module(x)

    assert Compared(Logs, theirs).state.differences == ()


class Recent(nn.Module):
    """A cache that moves used entries to its end: gh198189."""

    def __init__(self):
        super().__init__()
        self.entries = OrderedDict(a=torch.ones(3), b=torch.zeros(3))

    def forward(self, x):
        self.entries.move_to_end("a")
        return x + self.entries["a"].sum()


def test_the_order_of_keys_is_state():
    assert Compared(Recent, lambda module, x: module(x)).state.differences == ()
    (found,) = Compared(Recent, lambda module, x: x + 3).state.differences
    assert found.where == "attribute entries (structure)"
    assert found.eager == "'OrderedDict(b=Tensor, a=Tensor)'"
