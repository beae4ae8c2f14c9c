"""Compiled code draws eager's random numbers, however Inductor lays out and orders its kernels."""

import pytest
import torch
import torch._inductor.config
from torch import nn
from torch._inductor import dependencies, lowering
from torch._inductor.dependencies import WeakDep
from torch._inductor.scheduler import Scheduler
from torch._inductor.utils import fresh_cache
from torch.torch_version import TorchVersion

from compilegate.observe.capture import compiling
from compilegate.observe.model.dispatch_mode import Mode

DROPOUT = torch.ops.aten.native_dropout.default


class Drops(nn.Module):
    """Dropout as a GPU computes it: in one operator, which draws in the order of memory."""

    def forward(self, x):
        return torch.native_dropout(x, 0.5, True)[0]


def call(run, x):
    torch.manual_seed(3)
    return run(x)


@pytest.fixture
def without_constraint(monkeypatch):
    """Inductor as it is before 2.13, where it lays out convolutions channels last."""
    known = lowering._maybe_layout_constraints
    monkeypatch.setattr(lowering, "_maybe_layout_constraints", {**known, DROPOUT: None})
    changed = {"fallback_random": True, "force_layout_optimization": True, "compile_threads": 1}
    with torch._inductor.config.patch(changed), fresh_cache():
        torch._dynamo.reset()
        yield
    torch._dynamo.reset()


@pytest.mark.long
@pytest.mark.parametrize("is_kept", [False, True])
def test_dropout_of_a_convolution_drops_what_eager_drops_if_its_layout_is_kept(
    is_kept, without_constraint
):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), Drops(), nn.Conv2d(64, 8, 3))
    x = torch.randn(2, 3, 8, 8, requires_grad=True)
    if is_kept:
        compiling.keep_layout_of_dropout()
    eager, compiled = call(net, x), call(torch.compile(net), x)
    assert torch.allclose(eager, compiled, atol=1e-4) is is_kept


def test_own_draws_need_no_layout(without_constraint):
    compiling.keep_layout_of_dropout()
    constraint = lowering._maybe_layout_constraints[DROPOUT]
    with torch._inductor.config.patch(fallback_random=False):
        assert constraint(None, 1, p=2) == ((1,), {"p": 2})


def without_flag(name, mutating_buf):
    """The dependency of torch 2.8, which knows no ``is_fake``."""
    return WeakDep(name, mutating_buf)


@pytest.mark.long
@pytest.mark.parametrize("is_kept", [None, WeakDep, without_flag], ids=["not", "kept", "as_in_2.8"])
def test_kernels_draw_in_the_order_of_the_graph_if_it_is_kept(is_kept, monkeypatch):
    """Here the last kernel that depends on no other comes first. 2.13 keeps the order by itself."""
    monkeypatch.setattr(Scheduler, "compute_dependencies", Scheduler.compute_dependencies)
    if is_kept:
        with monkeypatch.context() as patched:
            patched.setattr(dependencies, "WeakDep", is_kept)
            compiling.keep_order_of_draws.__wrapped__()

    def from_the_last(kernels):
        return Scheduler.topological_sort_schedule(None, kernels[::-1])

    def drops(x):
        return torch.rand(8) < x, torch.rand(9) < x

    x = torch.full((), 0.5)
    torch._dynamo.reset()
    changed = {
        "fallback_random": True,
        "_post_fusion_custom_pass": from_the_last,
        "reorder_for_peak_memory": False,
        "compile_threads": 1,
    }
    with torch._inductor.config.patch(changed), fresh_cache():
        eager, compiled = call(drops, x), call(torch.compile(drops), x)
    always = TorchVersion(torch.__version__) >= compiling.KEEPS_LAYOUT_AND_ORDER
    assert all(map(torch.equal, eager, compiled)) is (bool(is_kept) or always)
    torch._dynamo.reset()


class Called(Mode):
    """Keeps the names of operators."""

    def __init__(self):
        super().__init__()
        self.names = []

    def run(self, func, args, kwargs):
        self.names.append(str(func))
        return func(*args, **kwargs)


@pytest.mark.parametrize(
    ("device", "enabled", "is_eagers"),
    [("meta", True, True), ("meta", False, False), ("cpu", True, False)],
)
def test_a_gpu_draws_bernoulli_with_eagers_kernel(device, enabled, is_eagers):
    """A meta tensor stands for one on a GPU. On a CPU, both ways draw the same."""
    with torch._inductor.config.patch(fallback_random=False):
        compiling.draw_as_eager("inductor", enabled=enabled)
        decompose = compiling.inductor_decompositions()[torch.ops.aten.bernoulli.default]
        compiling.draw_as_eager("inductor", enabled=False)
    with Called() as called:
        decompose(torch.full((3,), 0.5, device=device))
    assert ("aten.bernoulli.Tensor" in called.names) is is_eagers
