"""What a case that cannot be judged is said to fail from: the compiler, the model, the recipe."""

import itertools
import warnings

import pytest
import torch
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed
from torch._inductor.exc import InductorError

from compilegate.judging.aspects import Budget
from compilegate.judging.judge import judge
from compilegate.observe.model.subject import Subject
from compilegate.observe.model_session import Session
from compilegate.records.request import Request
from compilegate.suites import test_forward, test_gradients, test_side_effects
from compilegate.zoo.example import Example
from compilegate.zoo.registry import Model


class Linear(nn.Module):
    """A linear layer whose output an action is given."""

    def __init__(self, action=lambda x, y: y):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.action = action

    def forward(self, x):
        return self.action(x, self.linear(x))


def verdict(module, phase="infer", backend="eager", suite=test_forward, **example):
    """The verdict of a suite on a module, built anew each time."""
    example = {"inputs": lambda batch: (torch.randn(batch, 4),), **example}
    entry = Model("m", "m", {"batch": (8, 5)}, build=lambda: Example(module(), **example))
    request = Request(
        case=f"m-cpu-{phase}-f32-default-static", wants=("capture", "vary"), backend=backend
    )
    seen = Session({"m": entry}, lambda stage: None).observe(request)
    aspect = suite.__name__.removeprefix("suites.test_")
    return judge(seen, Budget(), aspect, suite.rule, ("capture", "vary")).verdict


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


def test_what_only_compiled_code_raises_is_told_with_its_call():
    assert verdict(Linear, backend=fails_at_five).summary == (
        "raised in stage 'vary', call 3 (batch=5), where eager returned: BackendCompilerFailed: "
        "backend='fails_at_five' raised: ValueError: five"
    )


def test_an_error_in_the_selector_is_the_recipes():
    found = verdict(Linear, output=lambda out: out.logits)
    assert found.outcome == "failed"
    assert found.summary == (
        "raised in stage 'eager': SelectorError: output=… of Example raised AttributeError: "
        "'Tensor' object has no attribute 'logits', given the Tensor that the model returned"
    )


def test_a_selector_that_picks_nothing_is_the_recipes():
    def module():
        return Linear(lambda x, y: {"logits": y})

    assert verdict(module, output=lambda out: out["logits"]).outcome == "passed"
    found = verdict(module, output=lambda out: out.get("logit"))
    assert found.summary == (
        "raised in stage 'eager': SelectorError: output=… of Example picked None, "
        "given the dict that the model returned"
    )


@pytest.mark.parametrize(
    ("error", "said"),
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
def test_memory_runs_out_in_the_allocator_in_the_driver_or_while_compiling(error, said):
    def fail(x, y):
        raise error

    assert verdict(lambda: Linear(fail)).summary.startswith(said)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("CUBLAS_STATUS_ALLOC_FAILED"), "ran out of memory in stage 'vary'"),
        (RuntimeError("odd"), "call 3 (batch=5): eager raises"),
    ],
)
def test_memory_that_eager_runs_out_of_in_a_later_call_is_no_error_of_the_models(error, said):
    def fail(x, y):
        if len(y) == 5 and not torch.compiler.is_compiling():
            raise error
        return y

    assert verdict(lambda: Linear(fail)).summary.startswith(said)


@pytest.mark.parametrize("lacks", [True, False])
def test_no_case_follows_in_a_process_whose_memory_ran_out(lacks):
    def fail(x, y):
        raise torch.OutOfMemoryError("CUDA out of memory") if lacks else ValueError("odd")

    model = Model("m", "m", build=lambda: Example(Linear(fail), inputs=(torch.ones(2, 4),)))
    session = Session({"m": model}, lambda stage: None)
    case = "m-cpu-infer-f32-default-static"
    session.observe(Request(case=case, wants=("capture",), backend="eager"))
    assert session.is_spoiled is lacks


@pytest.mark.parametrize("inner", [None, "text"])
def test_an_error_that_is_its_own_cause_is_told(inner):
    def fail(x, y):
        error = ValueError("odd")
        error.inner_exception = inner
        raise error from error

    assert verdict(lambda: Linear(fail)).summary == "raised in stage 'eager': ValueError: odd"


def test_a_failure_shows_what_a_model_warns_of_not_what_observing_brings_about(recwarn):
    def warn(x, y):
        for text in (
            "Attempting to run cuBLAS, but there was no current CUDA context! Attempting to set",
            "TensorFloat32 tensor cores for float32 matrix multiplication available but not "
            "enabled. Consider setting",
            "the model's own",
        ):
            warnings.warn(text, stacklevel=1)
        return y

    assert verdict(lambda: Linear(warn)).outcome == "passed"
    assert {str(warning.message) for warning in recwarn} == {"the model's own"}


@pytest.mark.parametrize("phase", ["infer", "train"])
def test_a_model_that_branches_on_its_data_passes(phase):
    def branch(x, y):
        return torch.cond(y.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (y,))

    assert verdict(lambda: Linear(branch), phase, "aot_eager").outcome == "passed"


class Follows(nn.Module):
    """A layer that another, its copy at first, follows slowly."""

    def __init__(self):
        super().__init__()
        self.leader, self.follower = nn.Linear(4, 4), nn.Linear(4, 4)
        self.follower.load_state_dict(self.leader.state_dict())
        self.follower.requires_grad_(False)

    def forward(self, x):
        with torch.no_grad():
            for p, q in zip(self.follower.parameters(), self.leader.parameters(), strict=True):
                p.mul_(0.9).add_(q, alpha=0.1)
        return self.leader(x) + 2 * self.follower(x)


def rounds_otherwise(graph, inputs):
    """A compiler that multiplies and adds at once; what is written may round back or not."""
    for node in graph.graph.nodes:
        if node.target == "add_" and "alpha" in node.kwargs:
            alpha, (target, other) = node.kwargs["alpha"], node.args
            with graph.graph.inserting_before(node):
                wide = graph.graph.call_method("double", (target,))
                total = graph.graph.call_method("add", (wide, other), {"alpha": alpha})
                node.replace_all_uses_with(graph.graph.call_method("copy_", (target, total)))
            graph.graph.erase_node(node)
    graph.recompile()
    return graph


def test_what_is_written_and_rounds_back_was_not_left_alone():
    found = verdict(Follows, backend=rounds_otherwise, suite=test_side_effects)
    assert found.outcome == "passed", found.details


def keeps(chosen):
    """A compiler that goes on with some of its first inputs, whatever they are since."""

    def compiler(graph, inputs):
        kept = {i: t.detach().clone() for i, t in enumerate(inputs) if chosen(t)}
        return lambda *given: graph(*(kept.get(i, t) for i, t in enumerate(given)))

    return compiler


def normalized():
    return nn.Sequential(nn.Linear(4, 16, bias=False), nn.LayerNorm(16), nn.Linear(16, 4))


def with_statistics():
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))


@pytest.mark.parametrize(
    ("module", "chosen"),
    [
        pytest.param(normalized, lambda t: t.shape == (16, 4), id="a weight before a norm"),
        pytest.param(
            with_statistics, lambda t: type(t) is torch.Tensor and t.shape == (4,), id="buffers"
        ),
    ],
)
def test_code_that_kept_weights_as_they_were_shows(module, chosen):
    assert verdict(module, backend=keeps(lambda t: False)).outcome == "passed"
    found = verdict(module, backend=keeps(chosen))
    assert found.outcome == "failed"
    assert found.summary.startswith("call 4 (batch=8): output (float32): root mean square error")


@pytest.mark.parametrize("kept", [True, False])
def test_tensors_of_a_builders_own_kind_are_compared_by_kind_and_value(kept):
    def module():
        class Kind(torch.Tensor):
            pass

        def of_a_kind(x, y):
            plain = not kept and torch.compiler.is_compiling()
            return y if plain else y.as_subclass(Kind)

        return Linear(of_a_kind)

    found = verdict(module)
    assert (found.outcome == "passed") is kept, found.details
    assert kept or "type differs: eager Kind, compiled Tensor" in found.summary


class Writes(Linear):
    """A layer that writes to its first input and multiplies by its second."""

    def forward(self, x, y):
        return self.linear(x.mul_(2)) * y


def halving(graph, inputs):
    """A compiler that loses half of the gradient of the only input that has one."""

    def run(*given):
        return graph(
            *(
                (t + t.detach()) / 2 if t.requires_grad and not isinstance(t, nn.Parameter) else t
                for t in given
            )
        )

    return run


def test_inputs_that_are_not_written_to_are_differentiated_beside_one_that_is():
    def of(backend):
        def pair(batch):
            return torch.randn(batch, 4), torch.randn(batch, 4)

        return verdict(Writes, "train", backend, test_gradients, inputs=pair)

    sound = of("eager")
    assert sound.outcome == "passed", sound.details
    assert "; not of input[0]: autograd lets nothing write to" in sound.summary
    assert "gradient input[1]" in of(halving).summary


class Shared(nn.Module):
    """What a forward saves for its backward, the next one writes to."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x):
        with torch.no_grad():
            self.scale.mul_(1.5)
        return self.linear(x) * self.scale


def overwriting(graph, inputs):
    """What a forward saves for its backward, the next one replaces."""
    saved = {}

    def run(*given):
        count = itertools.count()

        def save(tensor):
            place = next(count), tensor.shape
            saved[place] = tensor
            return place

        with torch.autograd.graph.saved_tensors_hooks(save, saved.__getitem__):
            return graph.forward(*given)

    return run


def test_what_the_next_forward_replaces_before_a_backward_is_seen():
    found = verdict(lambda: Linear(lambda x, y: y.tanh()), "train", suite=test_gradients)
    assert found.outcome == "passed", found.details
    found = verdict(
        lambda: Linear(lambda x, y: y.tanh()), "train", overwriting, suite=test_gradients
    )
    assert found.outcome == "failed"
    assert all(
        line.startswith("call 6 (batch=8), another forward before its backward, ")
        for line in found.details
    )


def test_a_model_whose_calls_cannot_overlap_is_called_alone():
    found = {
        suite: verdict(Shared, "train", suite=suite)
        for suite in (test_gradients, test_side_effects)
    }
    assert {one.outcome for one in found.values()} == {"passed"}
    assert "; not of two calls that overlap: in eager, RuntimeError: one of the variables" in (
        found[test_gradients].summary
    )


@pytest.mark.parametrize("compiled", [False, True])
def test_where_two_calls_do_not_fit_into_memory_they_are_left_out(monkeypatch, compiled):
    right = Subject.step

    def step(self, call, *rest):
        if len(self.overlapping(call)) > 1 and compiled == (self.run is not self.module):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB.")
        return right(self, call, *rest)

    monkeypatch.setattr(Subject, "step", step)
    found = verdict(Linear, "train", suite=test_gradients)
    assert found.outcome == "passed"
    assert "overlap: OutOfMemoryError: CUDA out of memory. Tried to allocate" in found.summary


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_model_whose_backward_raises_shows_its_error(backend):
    found = verdict(lambda: Linear(overwritten), "train", backend)
    assert "modified by an inplace operation" in found.summary


def test_a_model_whose_outputs_are_not_looked_into_fails():
    found = verdict(lambda: Linear(lambda x, y: Holder(y)))
    assert found.outcome == "failed"
    assert found.summary == (
        "nothing in the outputs is looked into: output (Holder); return its tensors, or pick "
        "them with Example.output"
    )


def test_a_builder_of_other_weights_each_time_is_told():
    seeds = itertools.count()

    def build():
        torch.manual_seed(next(seeds))
        return Linear()

    assert verdict(build, signal=False).summary == (
        "raised in stage 'build': ValueError: the builder gives other weights each time: "
        "parameter linear.weight differs between two builds under one seed"
    )


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (lambda batch: torch.randn(batch, 4), "what inputs of Example returns must be a tuple"),
        (torch.ones(8, 4), "inputs of Example must be a tuple of arguments, (x,), not a Tensor"),
    ],
)
def test_inputs_that_are_not_a_tuple_are_told(inputs, message):
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
def test_dimensions_that_no_argument_has_are_told(dims, message):
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
    seen = Session({"m": Model("m", "m", build=build)}, lambda stage: None).observe(request)
    assert (seen.status == "completed") is sound
    assert [*tmp_path.iterdir()] == []
