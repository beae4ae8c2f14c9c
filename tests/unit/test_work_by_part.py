"""Counted calls belong to a part of PyTorch, by the module that defines the function."""

import dataclasses
import sys

import pytest
import sympy
import torch

from compilegate.observe.measure import work_by_part
from compilegate.observe.measure.work_by_part import KEPT, compile_work, module_of, part_of


def code(name="f", file="/nowhere/net.py"):
    def function():
        return None

    return function.__code__.replace(co_filename=file, co_qualname=name)


@pytest.mark.parametrize(
    ("module", "part"),
    [
        ("torch._dynamo.guards", "dynamo"),
        ("torch._dynamo", "dynamo"),
        ("torch._dynamo_other", "rest"),
        ("torch._functorch.aot_autograd", "aot"),
        ("torch._subclasses.fake_tensor", "aot"),
        ("torch._inductor.scheduler", "inductor"),
        ("torch._inductor.codegen.cpp", "codegen"),
        ("torch._inductor.codecache", "codegen"),
        ("triton.compiler", "codegen"),
        ("torch.fx.graph", "rest"),
        ("contextlib", "rest"),
    ],
)
def test_a_part_is_where_the_function_is_defined(module, part):
    assert part_of(module) == part


def test_a_module_is_named_as_it_is_imported():
    assert module_of(torch.nn.Linear.forward.__code__.co_filename) == "torch.nn.modules.linear"
    assert module_of(torch.__file__) == "torch"
    assert module_of(dataclasses.__file__) == "dataclasses"
    assert module_of("<frozen importlib._bootstrap>") == "importlib._bootstrap"
    assert module_of("/nowhere/net.py") == "net"


@pytest.mark.parametrize(
    "file", ["<string>", "<eval_with_key>.7", f"/tmp/torchinductor_me/ab/c{'a2' * 25}z.py"]
)
def test_generated_code_has_one_name_for_every_file(file):
    assert module_of(file) == "<generated>"


def test_functions_of_one_name_are_counted_together_and_those_called_most_are_kept():
    calls = [(code("often", "/a/net.py"), 500), (code("often", "/b/net.py"), 500)]
    calls += [(code(f"f{number}"), 10 + number) for number in range(2 * KEPT)]
    work = compile_work(calls)
    assert work.python == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert work.total == work.rest == sum(count for _, count in calls)
    assert len(work.functions) == KEPT
    assert list(work.functions.items())[:2] == [
        ("net.often", 1000),
        (f"net.f{2 * KEPT - 1}", 10 + 2 * KEPT - 1),
    ]


def test_what_sympy_calls_itself_is_left_out():
    assert compile_work([(sympy.Add.flatten.__func__.__code__, 1000)]).total == 0


def test_every_part_is_a_field_of_the_record():
    parts = {part for part, _ in work_by_part.PARTS} | {"rest"}
    fields = {field.name for field in dataclasses.fields(compile_work([]))}
    assert fields - {"python", "functions"} == parts
