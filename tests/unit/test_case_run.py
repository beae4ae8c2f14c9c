"""One case: what its calls show about compiled code, and how calls are made."""

import gc
import itertools

import pytest
import torch
from torch import nn

from compilegate.observe.model.subject import Subject
from compilegate.suites import test_gradients, test_side_effects
from tests.unit.observed import Linear, observation, verdict


class Follows(nn.Module):
    """A layer, and a second one that begins as its copy and follows it slowly."""

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
    """A compiler that multiplies and adds in one step, so that a write may round back."""
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


def test_a_write_that_rounds_back_still_counts_as_a_write():
    found = verdict(Follows, backend=rounds_otherwise, suite=test_side_effects)
    assert found.outcome == "passed", found.details


def keeps(chosen):
    """Return a compiler whose code keeps using some of its first inputs."""

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
def test_code_that_keeps_old_weights_is_detected(module, chosen):
    assert verdict(module, backend=keeps(lambda t: False)).outcome == "passed"
    found = verdict(module, backend=keeps(chosen))
    assert found.outcome == "failed"
    assert found.summary.startswith("call 4 (batch=8): output (float32): root mean square error")


@pytest.mark.parametrize("kept", [True, False])
def test_tensors_of_a_local_class_are_compared_by_class_and_value(kept):
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
    """A layer that writes to its first input and multiplies by its second one."""

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


def test_inputs_that_are_not_written_to_are_differentiated_next_to_one_that_is():
    def of(backend):
        def pair(batch):
            return torch.randn(batch, 4), torch.randn(batch, 4)

        return verdict(Writes, "train", backend, test_gradients, inputs=pair)

    sound = of("eager")
    assert sound.outcome == "passed", sound.details
    assert "; no gradients of input[0]: autograd forbids in-place writes to" in sound.summary
    assert "gradient input[1]" in of(halving).summary


class Shared(nn.Module):
    """A layer whose forward writes to what an earlier forward saved for its backward."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x):
        with torch.no_grad():
            self.scale.mul_(1.5)
        return self.linear(x) * self.scale


def overwriting(graph, inputs):
    """A compiler whose forward replaces what an earlier forward saved for its backward."""
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


def test_a_forward_that_overwrites_saved_tensors_is_detected():
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


def one_at_a_time(graph, inputs):
    """A compiler whose forward raises until the backward of an earlier one has run."""
    pending = []

    def save(tensor):
        pending.append(tensor)
        return tensor

    def restore(tensor):
        pending.clear()
        return tensor

    def run(*given):
        if pending:
            raise RuntimeError("one at a time")
        with torch.autograd.graph.saved_tensors_hooks(save, restore):
            return graph.forward(*given)

    return run


def refusing_calls(graph, inputs):
    """A compiler whose code raises in its second call."""
    count = itertools.count()

    def run(*given):
        if next(count) == 1:
            raise RuntimeError("no second call")
        return graph.forward(*given)

    return run


@pytest.mark.parametrize(
    ("compiler", "name"),
    [
        (one_at_a_time, "call 6 (batch=8), another forward before its backward"),
        (refusing_calls, "call 2 (batch=8)"),
    ],
)
def test_an_error_of_a_call_with_another_forward_before_its_backward_says_so(compiler, name):
    found = verdict(lambda: Linear(lambda x, y: y.tanh()), "train", compiler, suite=test_gradients)
    assert f"{name}, where eager returned: RuntimeError: " in found.summary


def test_calls_of_a_model_that_cannot_overlap_are_made_one_by_one():
    found = {
        suite: verdict(Shared, "train", suite=suite)
        for suite in (test_gradients, test_side_effects)
    }
    assert {one.outcome for one in found.values()} == {"passed"}
    assert "; two overlapping calls not tested: in eager, RuntimeError: one of the variables" in (
        found[test_gradients].summary
    )


@pytest.mark.parametrize("compiled", [False, True])
def test_overlapping_calls_that_do_not_fit_into_memory_are_left_out(monkeypatch, compiled):
    right = Subject.step

    def step(self, call, *rest):
        if len(self.overlapping(call)) > 1 and compiled == (self.run is not self.module):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB.")
        return right(self, call, *rest)

    monkeypatch.setattr(Subject, "step", step)
    found = verdict(Linear, "train", suite=test_gradients)
    assert found.outcome == "passed"
    assert (
        "overlapping calls not tested: OutOfMemoryError: CUDA out of memory. Tried to allocate"
        in found.summary
    )


@pytest.mark.parametrize(
    ("wants", "times"), [(("capture", "vary"), 0), (("capture", "memory", "vary"), 1)]
)
def test_imports_are_searchable_for_garbage_again_once_a_case(monkeypatch, wants, times):
    """Each search of what PyTorch's imports made takes 0.2 s."""
    searchable = []
    unfreeze = gc.unfreeze
    monkeypatch.setattr(gc, "unfreeze", lambda: searchable.append(unfreeze()))
    seen = observation(Linear, wants=wants)
    assert [seen.memory is None, seen.other_size is None] == 2 * ["memory" not in wants]
    assert len(searchable) == times
