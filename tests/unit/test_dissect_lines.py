"""The first line of a model whose result in a graph is not the one that it should be."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from compilegate.observe.dissect import lines
from compilegate.observe.dissect.graph import Frame
from compilegate.observe.dissect.line_results import LineResults, differs_from_dynamo
from compilegate.observe.model.calls import PlannedCall
from compilegate.zoo.example import Call, Example
from tests.unit.subjects import INFER, TRAIN, subject


def while_compiling(wrong, right):
    """Return another value to Dynamo than to eager."""
    return wrong if torch.compiler.is_compiling() else right


def scaled(x, factor):
    y = x + 1
    y = y * while_compiling(factor, 2.0)
    return y.relu()


def branching(x, skips):
    y = x + 1
    if while_compiling(skips, False):
        y = y.sigmoid()
    if not while_compiling(skips, False):
        y = y.tanh()
    return y * 2


def skipping(x, skips):
    y = x + 1
    if not while_compiling(skips, False):
        y = y.tanh()
    return y * 2


def detached(x, detaches):
    y = x * 2
    y = y.detach() if while_compiling(detaches, False) else y
    return y + 1


def of_numpy(x, factor):
    return torch.from_numpy(x.numpy() * np.float32(factor))


def dropped(x, factor):
    y = torch.empty(3) * 0
    return torch.nn.functional.dropout(x, 0.5) * while_compiling(factor, 2.0) + y.nan_to_num()


def first(function, argument, *, case=INFER, backend="eager"):
    """Return the first line of a function that differs."""

    def build():
        return Example(lambda x: function(x, argument), inputs=lambda: (torch.randn(8, 3),))

    return lines.first_difference(lambda: subject(build, case), [PlannedCall(0, {})], backend)


@pytest.mark.parametrize(
    ("function", "wrong", "right", "code"),
    [
        (scaled, 3.0, 2.0, "y = y * while_compiling(factor, 2.0)"),
        (branching, True, False, "y = y.sigmoid()"),
        (skipping, True, False, "return y * 2"),
        (dropped, 3.0, 2.0, "return torch.nn.functional.dropout(x, 0.5)"),
    ],
)
def test_the_line_is_named_and_none_of_a_healthy_twin(function, wrong, right, code):
    found = first(function, wrong)
    assert found.code.startswith(code)
    assert found.source.startswith("test_dissect_lines.py:")
    assert found.right != found.wrong
    assert first(function, right).source == ""


def test_lines_that_no_graph_has_are_named():
    for function in (branching, skipping):
        (line,) = first(function, True).left_out
        assert line.endswith(": y = y.tanh()")
    assert first(branching, True).right == ""  # eager does not reach the line


def halved(y):
    return y / 2


def choosing(x, skips):
    y = x + 1
    if not while_compiling(skips, False):
        y = halved(y)
    return y * 2


def test_the_caller_of_a_line_that_no_graph_has_is_named():
    found = first(choosing, True)
    assert found.left_out[0].endswith(": return y / 2")
    assert found.left_out_at.endswith(": y = halved(y)")
    assert first(branching, True).left_out_at == ""  # that is in the function of the wrong line


def test_a_loop_that_eager_runs_once_more_is_named():
    def looping(x, misses):
        y = x + 1
        for _ in range(while_compiling(2 - misses, 2)):
            y = y.sin()
        return y * 2

    (line,) = first(looping, 1).left_out
    assert line.endswith(": y = y.sin()")
    assert first(looping, 0).source == ""


def test_a_gradient_that_is_lost_is_named():
    found = first(detached, True, case=TRAIN)
    assert found.code == "return y + 1"
    assert found.unseen[0].endswith(": y = y.detach() if while_compiling(detaches, False) else y")
    assert (found.right, found.wrong) == (
        "a tensor that requires a gradient",
        "a tensor that requires no gradient",
    )
    assert first(detached, False, case=TRAIN).source == ""


def test_the_line_that_calls_its_function_is_named():
    found = first(lambda x, factor: scaled(x.exp(), factor), 3.0)
    assert found.caller.endswith(": found = first(lambda x, factor: scaled(x.exp(), factor), 3.0)")


class Sloped(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x):
        return x.tanh() * self.slope


class Ordered(nn.Module):
    def __init__(self, wrong):
        super().__init__()
        self.wrong = wrong
        self.layers = nn.ModuleList([Sloped(2.0), nn.Sequential(Sloped(3.0)), Sloped(0.5)])

    def forward(self, x):
        x = self.layers[0](x)
        for layer in self.layers[:0:-1] if while_compiling(self.wrong, False) else self.layers[1:]:
            x = layer(x)
        return x


@pytest.mark.parametrize(("wrong", "modules"), [(True, ("layers.1.0", "layers.2")), (False, ())])
def test_submodules_that_run_in_another_order_are_named(wrong, modules):
    def build():
        return Example(Ordered(wrong), inputs=lambda: (torch.randn(8, 3),))

    found = lines.first_difference(lambda: subject(build, INFER), [PlannedCall(0, {})], "eager")
    assert found.modules == modules
    assert bool(found.code) == wrong


def test_lines_that_write_are_named_where_all_results_are_right():
    def writing(x, _):
        y = x + 1
        y[0] = 0
        y += x
        return y.mul_(2) / 2

    found = first(writing, None, backend="aot_eager")
    assert (found.source, found.compared) == ("", 4)
    assert [line.partition(": ")[2] for line in found.writes] == [
        "y[0] = 0",
        "y += x",
        "return y.mul_(2) / 2",
    ]


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.register_buffer("shift", torch.ones(3))

    def forward(self, x):
        y = x * self.scale
        y += self.shift
        return {"half": y[:2], "same": x, "sum": self.scale.sum()}


def test_what_each_output_is_made_by_and_what_is_read_where_is_known():
    def build():
        return Example(Shared(), inputs=lambda: (torch.randn(8, 3),))

    found = lines.first_difference(lambda: subject(build, TRAIN), [PlannedCall(0, {})], "aot_eager")
    touched = {name: line.partition(": ")[2] for name, line in found.touched.items()}
    returned = 'return {"half": y[:2], "same": x, "sum": self.scale.sum()}'
    assert touched == {
        "input[0]": "y = x * self.scale",
        "scale": "y = x * self.scale",
        "buffer shift": "y += self.shift",
        "output.half": returned,
        "output.sum": returned,
    }


def test_what_numpy_computes_is_not_compared():
    found = first(of_numpy, 3.0)
    assert found.source == ""
    (line,) = found.unseen
    assert line.endswith(": return torch.from_numpy(x.numpy() * np.float32(factor))")


def test_the_last_of_the_calls_is_compared():
    def growing(x):
        growing.calls += 1
        return x * (5 if growing.calls == 2 and torch.compiler.is_compiling() else 2)

    def build():
        growing.calls = 0
        return Example(growing, calls=[Call((torch.ones(n),)) for n in (3, 4)])

    planned = [PlannedCall(index, {}) for index in range(2)]
    found = [
        lines.first_difference(lambda: subject(build, INFER), planned[:n], "eager") for n in (1, 2)
    ]
    assert [each.wrong for each in found] == ["", "5, 5, 5, 5"]


def test_graphs_of_aot_autograd_compute_what_those_of_dynamo_do():
    for case in (INFER, TRAIN):
        found = first(scaled, 3.0, case=case, backend="aot_eager")
        assert (found.source, found.compared) == ("", 3)


@pytest.mark.parametrize(
    ("value", "source"), [([1.0, 2.0], ""), ([1.0, 2.5], "net.py:2"), (None, "")]
)
def test_a_wrong_value_in_a_graph_of_aot_autograd_is_named(value, source, tmp_path):
    dynamo, graph = LineResults(), LineResults()
    file = str(tmp_path / "net.py")
    frames = [(Frame(file, line, "forward", f"line {line}"),) for line in (1, 2)]
    with dynamo.kept(), graph.kept():
        for results in (dynamo, graph):
            results.add(frames[0], torch.tensor([3.0]))
        dynamo.add(frames[1], torch.tensor([1.0, 2.0]))
        if value is not None:  # a graph may leave out what nothing reads
            graph.add(frames[1], torch.tensor(value))
    found = differs_from_dynamo(graph, dynamo)
    assert found.source == source
    if source:
        assert (found.code, found.right, found.wrong) == ("line 2", "1, 2", "1, 2.5")


STATE = SimpleNamespace(order=[3, 1, 2], counts={"calls": [0]}, name="")


def shuffling(x, factor):
    order = list(STATE.order)
    STATE.order.reverse()
    STATE.counts["calls"][0] += len(order)
    setattr(STATE, "name", "a")  # noqa: B010
    STATE.order.index(1)
    return x * factor


def test_the_lines_that_change_a_state_of_python_are_known():
    changed = first(shuffling, 2.0).changed
    texts = {name: [line.partition(": ")[2] for line in some] for name, some in changed.items()}
    assert texts["order"] == ["order = list(STATE.order)"]
    assert texts[".order"] == ["STATE.order.reverse()"]
    assert texts[".counts"] == ['STATE.counts["calls"][0] += len(order)']
    assert texts[".name"] == ['setattr(STATE, "name", "a")  # noqa: B010']
    assert "STATE.order.index(1)" not in str(changed)
