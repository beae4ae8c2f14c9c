"""Tests of lifting: the reference computes in float64 even where a model casts to float32."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 (as everyone calls it)

from compilegate.observe.compare.results import CallResults, compare_outputs
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.cotangents import Cotangents
from compilegate.observe.model.float64 import Lifting
from compilegate.observe.model.subject import Subject
from compilegate.records.case import Case
from compilegate.zoo.example import Example
from compilegate.zoo.registry import Model
from tests.unit.excess import exceeds

X = torch.linspace(0.1, 1.7, 7, dtype=torch.float64).reshape(1, 7)

CASTS = {
    "float()": lambda x: x.float(),
    "half()": lambda x: x.half(),
    "bfloat16()": lambda x: x.bfloat16(),
    "to(dtype)": lambda x: x.to(torch.float32),
    "to(dtype=)": lambda x: x.to(dtype=torch.float32),
    "to(device, dtype)": lambda x: x.to("cpu", torch.float16),
    "to(other)": lambda x: x.to(torch.ones(1)),
    "type(dtype)": lambda x: x.type(torch.float32),
    "type_as": lambda x: x.type_as(torch.ones(1)),
    "copy": lambda x: x.to(torch.float32, copy=True),
    "and back": lambda x: x.float().to(x.dtype),
}


@pytest.mark.parametrize("cast", CASTS.values(), ids=CASTS.keys())
def test_explicit_casts_are_lifted(cast):
    with Lifting().active():
        seen = cast(X)
    assert seen.dtype == torch.float64
    assert torch.equal(seen, X)


COMPUTED = {
    "softmax": lambda x: (F.softmax(x, -1, dtype=torch.float32), F.softmax(x, -1)),
    "log_softmax": lambda x: (F.log_softmax(x, -1, dtype=torch.float32), F.log_softmax(x, -1)),
    "sum": lambda x: (x.sum(-1, dtype=torch.float32), x.sum(-1)),
    "mean": lambda x: (x.mean(-1, dtype=torch.float32), x.mean(-1)),
    "cumsum": lambda x: (x.cumsum(-1, dtype=torch.float32), x.cumsum(-1)),
    "prod": lambda x: (x.prod(-1, dtype=torch.bfloat16), x.prod(-1)),
}


@pytest.mark.parametrize("computed", COMPUTED.values(), ids=COMPUTED.keys())
def test_computing_in_a_lower_dtype_is_lifted(computed):
    with Lifting().active():
        lower, own = computed(X)
    assert lower.dtype == torch.float64
    assert torch.equal(lower, own)


FACTORIES = {
    "zeros": lambda: torch.zeros(3, dtype=torch.float32),
    "full": lambda: torch.full((3,), 1 / 3, dtype=torch.float16),
    "arange": lambda: torch.arange(3, dtype=torch.float32),
    "linspace": lambda: torch.linspace(0, 1, 3, dtype=torch.float32),
    "tensor": lambda: torch.tensor([0.5], dtype=torch.float32),
    "zeros_like": lambda: torch.zeros_like(X, dtype=torch.bfloat16),
    "new_zeros": lambda: X.new_zeros(3, dtype=torch.float32),
    "rand": lambda: torch.rand(3, dtype=torch.float32),
    "eye": lambda: torch.eye(3, dtype=torch.float32),
    "of integers": lambda: torch.arange(3).float(),
}


@pytest.mark.parametrize("make", FACTORIES.values(), ids=FACTORIES.keys())
def test_factories_with_a_lower_dtype_are_lifted(make):
    with Lifting().active():
        assert make().dtype == torch.float64


@pytest.mark.parametrize(
    "make",
    [
        X.long,
        X.bool,
        lambda: X.to(torch.int32),
        lambda: torch.arange(3, dtype=torch.int16),
        lambda: torch.zeros(3, dtype=torch.complex64),
        lambda: X > 1,
    ],
)
def test_other_dtypes_are_not_lifted(make):
    without = make().dtype
    with Lifting().active():
        assert make().dtype == without


def test_a_view_as_another_dtype_is_not_a_cast():
    bits = torch.ones(4).view(torch.int32)
    with Lifting().active():
        seen = bits.view(torch.float32)
    assert seen.tolist() == [1.0] * 4


def test_without_the_mode_nothing_is_lifted():
    with Lifting().active():
        pass
    assert X.float().dtype == torch.float32


# Norms as in transformers.


class T5Norm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(size) + 0.5)

    def forward(self, x):
        variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + 1e-6)
        if self.weight.dtype in (torch.float16, torch.bfloat16):
            x = x.to(self.weight.dtype)
        return self.weight * x


class LlamaNorm(T5Norm):
    def forward(self, x):
        given = x.dtype
        x = x.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + 1e-6)
        return self.weight * x.to(given)


class Rotary(nn.Module):
    """Rotary positions as in Llama: computed in float32 in each call, without autocast."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        step = torch.arange(0, self.size, 2, dtype=torch.int64).to(dtype=torch.float)
        frequency = 1.0 / (10000.0 ** (step / self.size))
        position = torch.arange(x.shape[1])[:, None].float()
        with torch.autocast(x.device.type, enabled=False):
            angle = position.float() @ frequency[None].float()
            both = torch.cat((angle, angle), -1)
        return x * both.cos().to(x.dtype) + x.flip(-1) * both.sin().to(x.dtype)


def norm(module, x):
    return module.weight * x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()


def rotary(module, x):
    step = torch.arange(0, module.size, 2, dtype=torch.float64)
    angle = torch.arange(x.shape[1], dtype=torch.float64)[:, None] * 10000.0 ** (
        -step / module.size
    )
    both = torch.cat((angle, angle), -1)
    return x * both.cos() + x.flip(-1) * both.sin()


@pytest.mark.parametrize(("kind", "exact"), [(T5Norm, norm), (LlamaNorm, norm), (Rotary, rotary)])
def test_the_reference_of_a_model_that_casts_is_exact_to_double_precision(kind, exact):
    def build():
        return Example(kind(16), inputs=lambda: (torch.randn(2, 5, 16),))

    case = Case.parse("m-cpu-train-f32-default-static")
    subject = Subject(Model("m", "m", build=build), case, seed=3, lifting=Lifting())
    planned = PlannedCall(0, {})
    result = subject.call(subject.prepare(planned), planned.index)
    assert result.error is None

    module = subject.module
    (x,) = subject.prepare(planned).args
    for parameter in module.parameters():
        parameter.grad = None
    expected = exact(module, x)
    expected.backward(Cotangents(3).of("output", expected))
    gradients = {n: p.grad for n, p in module.named_parameters()} | {"input[0]": x.grad}

    def distance(ours, theirs):
        assert ours.dtype == torch.float64
        return float((ours - theirs).detach().norm() / theirs.detach().norm())

    assert distance(result.output["output"], expected) < 1e-14
    assert result.gradients.keys() == gradients.keys()
    for name, gradient in gradients.items():
        assert distance(result.gradients[name], gradient) < 1e-14, name


@pytest.mark.parametrize("kind", [T5Norm, LlamaNorm])
def test_without_lifting_such_a_model_is_exact_to_single_precision_only(kind):
    torch.manual_seed(0)
    module = kind(16).double()
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    with torch.no_grad():
        error = float((module(x) - norm(module, x)).norm() / norm(module, x).norm())
    assert 1e-10 < error < 1e-6


class Masked(nn.Module):
    def forward(self, x):
        masked = x.masked_fill(x > 0.5, torch.finfo(x.dtype).min)
        return masked, torch.log(x.abs().clamp(max=1e-9, min=torch.finfo(x.dtype).eps))


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_finfo_returns_the_limits_of_eagers_dtype(precision):
    model = Model("m", "m", build=lambda: Example(Masked(), inputs=lambda: (torch.randn(4, 8),)))
    case = Case.parse(f"m-cpu-infer-{precision}-default-static")
    planned = PlannedCall(0, {})
    eager, other = (Subject(model, case, 0) for _ in range(2))
    reference = Subject(model, case, 0, lifting=Lifting())
    sides = [side.call(side.prepare(planned), 0) for side in (eager, other, reference)]
    checked = compare_outputs(CallResults(sides[0], sides[1], [sides[2]]))
    assert not checked.differences
    assert [exceeds(error, 0.0) for error in checked.errors] == ["", ""]
    assert all(error.eager_rms < 1e-6 for error in checked.errors)
    assert torch.finfo(torch.float64).max > 1e300  # nobody else is answered so
