"""A case that cannot be judged fails with its cause: the compiler, the model or the recipe."""

import errno
import itertools
import warnings
from unittest.mock import create_autospec

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed
from torch._inductor.exc import InductorError

from compilegate.observe.device.cuda import Cuda, CudaAllocator
from compilegate.observe.model_session import ModelSession
from compilegate.records.host_memory import MemoryAccount
from compilegate.records.request import Request
from compilegate.zoo.example import Example
from compilegate.zoo.registry import Model
from tests.unit.observed import Linear, observation, verdict


def fails_at_five(graph, inputs):
    """A compiler."""
    if any(given.shape == (5, 4) for given in inputs):
        raise ValueError("five")
    return graph


def overwritten(x, y):
    z = y.exp()
    result = z * z
    z.add_(1)
    return result


class Holder:
    def __init__(self, value):
        self.value = value


def test_a_healthy_module_passes():
    assert verdict(Linear).outcome == "passed"


def test_an_error_of_compiled_code_alone_names_its_call():
    assert verdict(Linear, backend=fails_at_five).summary == (
        "raised in stage 'vary', call 3 (batch=5), where eager returned: BackendCompilerFailed: "
        "backend='fails_at_five' raised: ValueError: five"
    )


def test_an_error_in_the_selector_is_the_recipe_s():
    found = verdict(Linear, output=lambda out: out.logits)
    assert found.outcome == "failed"
    assert found.summary == (
        "raised in stage 'eager': SelectorError: output=… of Example raised AttributeError: "
        "'Tensor' object has no attribute 'logits', given the Tensor that the model returned"
    )


def test_a_selector_that_picks_nothing_is_the_recipe_s_error():
    def module():
        return Linear(lambda x, y: {"logits": y})

    assert verdict(module, output=lambda out: out["logits"]).outcome == "passed"
    found = verdict(module, output=lambda out: out.get("logit"))
    assert found.summary == (
        "raised in stage 'eager': SelectorError: output=… of Example returned None, "
        "given the dict that the model returned"
    )


def raises(x, y):
    raise ValueError("no")


@pytest.mark.parametrize(
    ("example", "is_hinted"),
    [
        ({"module": lambda: Linear(raises)}, True),
        ({"module": Linear, "inputs": lambda batch: torch.randn(batch, 4)}, False),
        ({"module": Linear, "inputs": lambda batch: (torch.randn(batch.size, 4),)}, False),
        ({"module": Linear, "output": lambda out: out.logits}, False),
    ],
)
def test_only_an_error_of_the_model_itself_may_be_one_that_eager_is_meant_to_raise(
    example, is_hinted
):
    found = verdict(**example)
    assert found.summary.startswith("raised in stage 'eager'")
    assert any("raises=" in line for line in found.details) == is_hinted


@pytest.mark.parametrize(
    ("error", "summary"),
    [
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
            "ran out of memory",
        ),
        (RuntimeError("CUDA error: out of memory\nCompile with …"), "ran out of memory"),
        (RuntimeError("CUDA driver error: out of memory"), "ran out of memory"),
        (RuntimeError("Triton Error [CUDA]: out of memory"), "ran out of memory"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"), "ran out of memory"),
        (RuntimeError("cuFFT error: CUFFT_ALLOC_FAILED"), "ran out of memory"),
        (
            RuntimeError(
                "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(h)`"
            ),
            "ran out of memory",
        ),
        (
            RuntimeError("cuDNN SDPA failed. CUDA ran out of memory outside PyTorch's allocator."),
            "ran out of memory",
        ),
        (RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), "raised"),
        (RuntimeError("CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"), "raised"),
        (
            InductorError(torch.OutOfMemoryError("CUDA out of memory. Tried"), None),
            "ran out of memory in stage 'eager': CUDA out of memory",
        ),
        (
            BackendCompilerFailed(None, torch.OutOfMemoryError("CUDA out of memory. Tried"), None),
            "ran out of memory in stage 'eager': CUDA out of memory",
        ),
        (InductorError(RuntimeError("no such layout"), None), "raised"),
        (RuntimeError("CUDA error: device-side assert triggered"), "raised"),
    ],
)
def test_memory_can_run_out_in_the_allocator_in_the_driver_or_in_the_compiler(error, summary):
    def fail(x, y):
        raise error

    assert verdict(lambda: Linear(fail)).summary.startswith(summary)


@pytest.mark.parametrize(
    ("error", "summary"),
    [
        (RuntimeError("CUBLAS_STATUS_ALLOC_FAILED"), "ran out of memory in stage 'vary'"),
        (RuntimeError("odd"), "call 3 (batch=5): eager raises"),
    ],
)
def test_memory_that_runs_out_in_a_later_eager_call_is_not_the_model_s_error(error, summary):
    def fail(x, y):
        if len(y) == 5 and not torch.compiler.is_compiling():
            raise error
        return y

    assert verdict(lambda: Linear(fail)).summary.startswith(summary)


ALLOCATOR = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4294967296 bytes."
KILLED_COMPILER = "C++ compile error\n\nOutput:\ng++: fatal error: Killed signal terminated program"


@pytest.mark.parametrize(
    ("error", "killed", "summary"),
    [
        (MemoryError(), False, "ran out of memory in stage 'eager': test_model_session.py:"),
        (
            RuntimeError(f"[enforce fail at alloc_cpu.cpp:127] err == 0. {ALLOCATOR}"),
            *(False, f"ran out of memory in stage 'eager': {ALLOCATOR}"),
        ),
        (RuntimeError("std::bad_alloc"), False, "ran out of memory in stage 'eager': std::bad_"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), False, "ran out of memory"),
        (ImportError("a.so: Cannot allocate memory"), False, "ran out of memory"),
        (RuntimeError("cc1plus: out of memory allocating 65536 bytes"), False, "ran out"),
        (RuntimeError(KILLED_COMPILER), True, "ran out of memory"),
        (RuntimeError(KILLED_COMPILER), False, "raised in stage 'eager': RuntimeError: C++"),
        (RuntimeError("a process was terminated abruptly"), True, "ran out of memory"),
        (RuntimeError("odd"), True, "raised in stage 'eager': RuntimeError: odd"),
        (OSError(errno.ENOENT, "No such file"), False, "raised in stage 'eager': FileNotFoundE"),
    ],
)
def test_the_memory_of_the_machine_can_run_out(monkeypatch, error, killed, summary):
    kills = itertools.count()
    counter = (lambda _: next(kills)) if killed else (lambda _: 0)
    monkeypatch.setattr(MemoryAccount, "kills", counter)

    def fail(x, y):
        raise error

    shown = verdict(lambda: Linear(fail)).summary
    assert shown.startswith(summary)
    assert (" GiB; its peak was " in shown) is summary.startswith("ran out")


@pytest.mark.parametrize(
    ("is_shared", "mebibytes", "is_kept"),
    [(True, 600, False), (True, 500, True), (False, 9000, True)],
)
def test_a_large_reference_stays_where_no_other_process_needs_its_memory(
    is_shared, mebibytes, is_kept
):
    session = ModelSession({}, lambda stage: None)
    session._reference = (("m", ("cuda", "train", True), "", "", 0), object())
    allocator = create_autospec(CudaAllocator, instance=True)
    allocator.allocated.return_value = mebibytes << 20
    device = create_autospec(Cuda, instance=True, allocator=allocator)
    session._clean_up(device, is_shared=is_shared)
    assert (session._reference is not None) is is_kept
    assert allocator.release_unused.called


ONEDNN = "could not create a primitive descriptor for the LSTM forward propagation primitive"


def test_a_case_that_eager_cannot_run_on_this_processor_is_unavailable():
    def fail(x, y):
        raise RuntimeError(ONEDNN)

    for phase in ("infer", "train"):
        seen = observation(lambda: Linear(fail), phase)
        reason = f"eager cannot run this model on this processor: {ONEDNN}"
        assert (seen.status, seen.failure.stage, seen.failure.message) == (
            "unavailable",
            "eager",
            reason,
        )
        assert (seen.failure.kind, seen.calls) == ("RuntimeError", ())
    found = verdict(lambda: Linear(fail))
    assert (found.outcome, found.summary) == ("skipped", reason)


@pytest.mark.parametrize(
    "error", [RuntimeError("could not create a file"), ValueError(ONEDNN), RuntimeError("odd")]
)
def test_every_other_error_in_eager_is_the_model_s(error):
    def fail(x, y):
        raise error

    seen = observation(lambda: Linear(fail))
    assert (seen.status, seen.failure.message) == ("raised", str(error))


@pytest.mark.parametrize("inner", [None, "text"])
def test_an_error_that_is_its_own_cause_is_reported(inner):
    def fail(x, y):
        error = ValueError("odd")
        error.inner_exception = inner
        raise error from error

    assert verdict(lambda: Linear(fail)).summary == "raised in stage 'eager': ValueError: odd"


def test_only_the_model_s_own_warnings_are_shown(recwarn):
    def warn(x, y):
        for text in (
            "Attempting to run cuBLAS, but there was no current CUDA context! Attempting to set",
            "TensorFloat32 tensor cores for float32 matrix multiplication available but not "
            "enabled. Consider setting",
            "Guards may run slower on Python 3.13.0. Consider upgrading to Python 3.13.1+.",
            "the model's own",
        ):
            warnings.warn(text, RuntimeWarning, stacklevel=1)
        return y

    assert verdict(lambda: Linear(warn)).outcome == "passed"
    assert {str(warning.message) for warning in recwarn} == {"the model's own"}


@pytest.mark.parametrize("phase", ["infer", "train"])
def test_a_model_that_branches_on_its_data_passes(phase):
    def branch(x, y):
        return torch.cond(y.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (y,))

    assert verdict(lambda: Linear(branch), phase, "aot_eager").outcome == "passed"


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_model_whose_backward_raises_shows_its_error(backend):
    found = verdict(lambda: Linear(overwritten), "train", backend)
    assert "modified by an inplace operation" in found.summary


def test_an_output_is_compared_by_the_attributes_of_its_object():
    assert verdict(lambda: Linear(lambda x, y: Holder(y))).outcome == "passed"


def test_a_model_whose_outputs_are_not_looked_into_fails():
    found = verdict(lambda: Linear(lambda x, y: iter((y,))))
    assert found.outcome == "failed"
    assert found.summary == (
        "no output can be compared: output (tuple_iterator); return its tensors, or pick "
        "them with Example.output"
    )


def test_a_builder_that_gives_other_weights_each_time_is_reported():
    seeds = itertools.count()

    def build():
        torch.manual_seed(next(seeds))
        return Linear()

    assert verdict(build, signal=False).summary == (
        "raised in stage 'build': ValueError: the builder returns different weights each time: "
        "parameter linear.weight differs between two builds under one seed; draw weights "
        "from torch's, Python's or NumPy's generator"
    )


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            lambda batch: torch.randn(batch, 4),
            "the value that inputs of Example returns must be a tuple",
        ),
        (torch.ones(8, 4), "inputs of Example must be a tuple of arguments, (x,), not a Tensor"),
    ],
)
def test_inputs_that_are_not_a_tuple_are_reported(inputs, message):
    found = verdict(Linear, inputs=inputs)
    assert found.outcome == "failed"
    assert message in found.summary


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({1: {0: "batch"}}, "dims of Example name the argument 1, which is not given"),
        ({"mask": {0: "batch"}}, "dims of Example name the argument 'mask', which is not given"),
        ({0: {2: "batch"}}, "dims of Example name dimension 2 of the argument 0, which has 2"),
    ],
)
def test_dimensions_that_no_argument_has_are_reported(dims, message):
    found = verdict(Linear, dims=dims)
    assert (found.outcome, message in found.summary) == ("failed", True), found.summary


@pytest.mark.parametrize("sound", [True, False])
def test_a_cold_case_leaves_no_cache_behind(sound, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def build():
        return Example(
            Linear() if sound else abs, inputs=lambda: (torch.ones(2, 4),) if sound else 1
        )

    request = Request(
        case="m-cpu-infer-f32-default-static", wants=("capture",), backend="eager", cold=True
    )
    seen = ModelSession({"m": Model("m", "m", build=build)}, lambda stage: None).observe(request)
    assert (seen.status == "completed") is sound
    assert [*tmp_path.iterdir()] == []
