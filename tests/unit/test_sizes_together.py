"""Code that is wrong only where two sizes differ from those that it was compiled with."""

import pytest
import torch
from torch import nn
from torch.compiler import is_compiling

from compilegate import Example
from compilegate.judging.budget import Budget
from compilegate.judging.judge import judge
from compilegate.observe.model_session import ModelSession
from compilegate.records.request import Request
from compilegate.suites import test_forward, test_recompiles
from compilegate.zoo.registry import Model

WANTS = ("capture", "vary")


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x) * self.factor(*x.shape[:2])

    def factor(self, batch, length):
        return 1.0


class Wrong(Pooled):
    """A guard is missing: in compiled code, a tenth is added where both sizes are small."""

    def factor(self, batch, length):
        return 1.1 if is_compiling() and batch * length < 40 else 1.0


class Chosen(Pooled):
    """Chooses by a product of sizes, as Inductor chooses kernels: Dynamo guards on it."""

    least = 40  # 5 × 7 is less; 8 × 7 and 5 × 9 are more

    def factor(self, batch, length):
        return 1.0 + (batch * length < self.least) * 1e-9


class ChosenForOne(Chosen):
    least = 60


def observed(module, dynamic):
    def build():
        return Example(
            module(),
            inputs=lambda batch, length: (torch.randn(batch, length, 4),),
            dims={0: {0: "batch", 1: "length"}},
        )

    entry = Model("m", "m", {"batch": (8, 5), "length": (9, 7)}, build=build)
    request = Request(case=f"m-cpu-infer-f32-default-{dynamic}", wants=WANTS, backend="eager")
    return ModelSession({"m": entry}, lambda stage: None).observe(request)


@pytest.mark.parametrize(("module", "outcome"), [(Pooled, "passed"), (Wrong, "failed")])
@pytest.mark.parametrize("dynamic", ["auto", "marked", "dynamic"])
def test_a_fault_where_two_sizes_differ_fails_and_its_twin_passes(module, outcome, dynamic):
    seen = observed(module, dynamic)
    found = judge(seen, Budget(), "forward", test_forward.rule, WANTS).verdict
    assert found.outcome == outcome, (found.summary, found.details)
    again = judge(seen, Budget(), "recompiles", test_recompiles.rule, WANTS).verdict
    assert outcome == "failed" or again.outcome == "passed", again


@pytest.mark.parametrize("dynamic", ["auto", "marked", "dynamic"])
def test_a_product_of_sizes_may_compile_again_where_several_differ(dynamic):
    found = judge(observed(Chosen, dynamic), Budget(), "recompiles", test_recompiles.rule, WANTS)
    assert found.verdict.outcome == "passed", found.verdict


def test_a_product_of_sizes_may_not_compile_again_where_one_differs():
    seen = observed(ChosenForOne, "dynamic")
    found = judge(seen, Budget(), "recompiles", test_recompiles.rule, WANTS).verdict
    assert found.outcome == "failed", found
