"""What a graph tells of its values and operators: infinities, zeros, names of libraries."""

import ast

import pytest
import torch
from torch import nn

from compilegate.observe.dissect import graph
from compilegate.records.case import Case
from compilegate.triage.findings import Findings
from compilegate.triage.search.place import Place
from compilegate.zoo.example import Call

INFER = Case.parse("m-cpu-infer-f32-default-static")
HALF_INFINITE = torch.full((20, 30), 3.0)
HALF_INFINITE[:, ::2] = torch.inf


@torch.library.custom_op("compilegate_graph::scale", mutates_args=())
def scale(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@scale.register_fake
def _(x):
    return torch.empty_like(x)


class Net(nn.Module):
    def forward(self, x, period):
        return scale(torch.ops.aten.remainder.Tensor(x, period)).sin()


def made(tensor):
    return eval(graph.expression(tensor), {"torch": torch})


def test_infinities_have_their_share():
    found = made(HALF_INFINITE)
    assert 0.3 < found.isinf().float().mean() < 0.7
    assert found.isfinite().any()
    assert (made(HALF_INFINITE.t()).stride(), found.dtype) == ((1, 30), torch.float32)
    both = torch.tensor([-torch.inf, torch.nan] * 50)
    seen = made(both)
    assert seen.isneginf().any()
    assert seen.isnan().any()
    assert not seen.isposinf().any()


@pytest.mark.parametrize("number", [torch.inf, torch.nan, 0.0])
def test_a_tensor_of_one_special_number_is_all_of_it(number):
    whole = torch.full((2, 3), number)
    assert torch.equal(made(whole).nan_to_num(7.0), whole.nan_to_num(7.0))


def test_an_expression_of_finite_numbers_is_short():
    assert graph.expression(torch.randn(3, 4)) == "torch.randn(3, 4)"


def test_an_operator_of_a_library_has_its_name_and_no_overload():
    args = (torch.randn(20, 30), HALF_INFINITE)
    found = graph.describe(Net(), Call(args), INFER, with_grad=False)
    names = [one["operator"] for one in found["statements"]]
    assert names == ["remainder", "compilegate_graph::scale", "sin"]


@pytest.mark.parametrize(
    ("findings", "operator"),
    [
        ({"bisected": {"subsystem": "decomposition", "what": "acme.shift.default"}}, "acme::shift"),
        ({"bisected": {"subsystem": "decomposition", "what": "aten.gelu.default"}}, "gelu"),
        ({"bisected": {"subsystem": "lowerings", "what": "scale_1"}}, "scale"),
        ({"place": Place(operator="acme::scale")}, "acme::scale"),
    ],
    ids=["a library's", "PyTorch's", "a lowering", "alone"],
)
def test_what_a_bisection_names_has_the_name_of_its_library(findings, operator):
    assert Findings(**findings).operator == operator


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("y = x * 2", "mul"),
        ("y = x % 2", "remainder"),
        ("y = -x", "neg"),
        ("y = x >= 2", "ge"),
        ("y = x[0]", "getitem"),
        ("y = torch.tanh(x)", "tanh"),
        ("y = x.float()", "float"),
        ("y = torch.ops.acme.scale.default(x)", "acme::scale"),
        ("y = x", "assignment"),
    ],
)
def test_a_statement_has_the_name_of_pytorchs_operator(text, operator):
    assert graph._operator(ast.parse(text)) == operator
