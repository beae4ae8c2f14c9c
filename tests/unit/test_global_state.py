"""Tests of global state: switches after a call are compared, and then restored."""

import gc

import pytest
import torch
from torch import nn

from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.global_state import GlobalState, put_back
from compilegate.records.case import Case
from tests.unit.compiled import INFER, TRAIN, differences, subject

BF16 = Case.parse("m-cpu-infer-bf16-default-static")

#: Each function changes one switch.
CHANGES = {
    "grad mode": lambda: torch.set_grad_enabled(not torch.is_grad_enabled()),
    "deterministic algorithms": lambda: torch.use_deterministic_algorithms(True, warn_only=True),
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "default device": lambda: torch.set_default_device("meta"),
    "float32 matmul precision": lambda: torch.set_float32_matmul_precision("medium"),
    "flushing of denormal numbers": lambda: torch.set_flush_denormal(True),
    "__torch_function__": lambda: torch._C._set_torch_function_state(
        torch._C._TorchFunctionState.SUBCLASSES_DISABLED
    ),
    "oneDNN enabled": lambda: torch._C._set_mkldnn_enabled(False),
    "garbage collection": gc.disable,
    "number of threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "flash attention": lambda: torch.backends.cuda.enable_flash_sdp(False),
    "mem_efficient attention": lambda: torch.backends.cuda.enable_mem_efficient_sdp(False),
    "math attention": lambda: torch.backends.cuda.enable_math_sdp(False),
    "cudnn attention": lambda: torch.backends.cuda.enable_cudnn_sdp(False),
    "autocast nesting": torch.autocast_increment_nesting,
    "autocast cache": lambda: torch.set_autocast_cache_enabled(False),
    "autocast on cpu": lambda: torch.set_autocast_enabled(
        "cpu", not torch.is_autocast_enabled("cpu")
    ),
    "autocast dtype on cpu": lambda: torch.set_autocast_dtype("cpu", torch.float16),
    "autocast on cuda": lambda: torch.set_autocast_enabled("cuda", True),
    "autocast dtype on cuda": lambda: torch.set_autocast_dtype("cuda", torch.bfloat16),
}


@pytest.mark.parametrize("case", [INFER, TRAIN, BF16], ids=["infer", "train", "bf16"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_switch_that_a_call_changes_is_recorded_and_restored(name, case):
    made = subject(lambda: lambda x: (x + 1, CHANGES[name]())[0], case)
    found = GlobalState()
    for index in (0, 1):
        result = made.call(made.prepare(PlannedCall(index, {})), index)
        before, after = result.before, result.state
        assert {n for n in after if n in before and repr(after[n]) != repr(before[n])} == {name}
    left = GlobalState()
    with found, left:
        assert left._outside == found._outside


def test_a_switch_that_backward_changes_is_recorded():
    class Changes(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            torch.use_deterministic_algorithms(True)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            torch.use_deterministic_algorithms(False)
            torch.set_default_dtype(torch.float64)
            return gradient * 2

    made = subject(lambda: Changes.apply, TRAIN)
    result = made.call(made.prepare(PlannedCall(0, {})), 0)
    assert (result.before["default dtype"], result.state["default dtype"]) == (
        torch.float32,
        torch.float64,
    )
    assert result.state["deterministic algorithms"] is False
    assert torch.get_default_dtype() == torch.float32


def test_switches_are_restored_after_a_block():
    with pytest.raises(ValueError, match="x"), put_back():  # noqa: PT012
        for change in CHANGES.values():
            change()
        raise ValueError("x")
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.get_default_dtype() == torch.float32
    assert torch.ones(1).device.type == "cpu"
    assert torch.autocast_increment_nesting() == 1
    torch.autocast_decrement_nesting()


# Compiled code.


def lost(x):
    torch.use_deterministic_algorithms(True)
    return x + 1


def kept(x):
    torch._dynamo.graph_break()
    return turned(x)


@torch.compiler.disable
def turned(x):
    torch.use_deterministic_algorithms(True)
    return x + 1


def test_a_switch_that_compiled_code_does_not_change_is_found():
    name = "deterministic algorithms"
    assert differences(lambda: lost) == 2 * [(name, "True", "False")]
    assert differences(lambda: kept) == []


def test_a_switch_that_only_compiled_code_changes_is_found():
    found = differences(lambda: lambda x: x + 1, theirs=turned, calls=1)
    assert found == [("deterministic algorithms", "leaves it False", "True")]


@torch.compiler.disable
def without_overrides(x):
    torch._C._set_torch_function_state(torch._C._TorchFunctionState.SUBCLASSES_DISABLED)
    return x + 1


def briefly_without_overrides(x):
    with torch._C.DisableTorchFunctionSubclass():
        return x + 1


def test_overriding_that_only_compiled_code_disables_is_found():
    """A graph break did so: https://github.com/pytorch/pytorch/issues/182318."""
    found = differences(lambda: lambda x: x + 1, theirs=without_overrides, calls=1)
    assert found == [("__torch_function__", "leaves it 'ENABLED'", "'SUBCLASSES_DISABLED'")]
    assert differences(lambda: briefly_without_overrides) == []


def flushing(x):
    torch.set_flush_denormal(True)
    return x + 1


def test_flushing_that_only_compiled_code_enables_is_found():
    """Loading compiled code did so: https://github.com/pytorch/pytorch/issues/126848."""
    found = differences(lambda: lambda x: x + 1, theirs=flushing, calls=1)
    assert found == [("flushing of denormal numbers", "leaves it False", "True")]
    assert torch.tensor([1e-40]).mul(0.5).item() > 0


def test_flushing_that_eager_enabled_need_not_be_enabled_again():
    assert differences(lambda: flushing, theirs=lambda x: x + 1) == []


def raises_in_autocast(x):
    with torch.autocast("cpu", torch.bfloat16):
        return torch.linalg.cholesky(-torch.diag(x))


def leaks(x):
    torch.autocast("cpu", torch.bfloat16).__enter__()
    raise torch.linalg.LinAlgError("no")


@pytest.mark.parametrize("case", [INFER, TRAIN, BF16], ids=["infer", "train", "bf16"])
def test_autocast_that_an_exception_leaves_on_is_found(case):
    assert differences(lambda: raises_in_autocast, case) == []
    found = differences(lambda: raises_in_autocast, case, theirs=leaks, calls=1)
    names = {"autocast nesting"} if case is BF16 else {"autocast nesting", "autocast on cpu"}
    assert {name for name, _, _ in found} == names


class Scopes(nn.Module):
    """Changes switches as models do: for the length of a block."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        with torch.no_grad():
            scale = self.linear(x).abs().mean()
        with torch.autocast("cpu", torch.bfloat16):
            y = self.linear(x)
        with torch.autocast("cpu", enabled=False), torch.enable_grad():
            return self.linear(y.float()) / scale


@pytest.mark.parametrize("case", [INFER, TRAIN, BF16], ids=["infer", "train", "bf16"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_switches_that_a_block_restores_are_no_difference(case, backend):
    names = {name for name, _, _ in differences(Scopes, case, backend=backend)}
    assert not names & CHANGES.keys()


def test_a_model_that_disables_grad_also_does_so_when_compiled():
    def off(x):
        torch.set_grad_enabled(False)
        return x + 1

    assert differences(lambda: off, TRAIN) == []
