"""What stands around a result is compared, too: objects, what is not picked, versions, the heap."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.compiler import is_compiling

from compilegate.judging.budget import Budget
from compilegate.observe.device import device
from compilegate.observe.measure.memory import left_by, peak_memory
from compilegate.suites import test_forward, test_memory, test_side_effects
from tests.unit.making import make_observation
from tests.unit.observed import Linear, observation, verdict


class Cache:
    """Keeps a tensor and a number between calls, one of them in a slot."""

    __slots__ = ("__dict__", "last")

    def __init__(self):
        self.last = torch.zeros(4)
        self.calls = 0


def remembering(tensor=1.0, step=1):
    """Return a builder of a module that keeps its last mean in an object; compiled, another one."""

    class Remembers(Linear):
        def __init__(self):
            super().__init__()
            self.cache = Cache()

        def forward(self, x):
            y = self.linear(x)
            compiled = is_compiling()
            self.cache.last = y.detach().mean(0) * (tensor if compiled else 1.0)
            self.cache.calls += step if compiled else 1
            return y

    return Remembers


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, ""),
        ({"tensor": 1.1}, "attribute cache.last (float32): root mean square error"),
        ({"step": 2}, "attribute cache.calls: value differs: eager 1, compiled 2"),
    ],
)
def test_what_an_object_in_a_module_holds_is_state(changed, expected):
    found = verdict(remembering(**changed), backend="eager", suite=test_side_effects)
    assert found.outcome == ("failed" if expected else "passed"), found
    assert expected in "\n".join((found.summary, *found.details))


def test_measurements_leave_such_an_object_as_it_was():
    """Rounds call eager and compiled code different numbers of times."""
    wants = ("capture", "memory", "vary")
    seen = observation(remembering(), backend="eager", wants=wants)
    finding = test_side_effects.rule(seen, Budget())
    assert finding.outcome == "passed", finding


def unpicked(factor=1.0):
    """Return a builder of a module with two outputs; compiled, the other one has another scale."""

    def both(x, y):
        return {"logits": y, "hidden": [y.sin() * (factor if is_compiling() else 1.0)]}

    return lambda: Linear(both)


@pytest.mark.parametrize(
    ("factor", "expected"),
    [(1.0, ""), (1.01, "unpicked output.hidden[0] (float32): root mean square error")],
)
def test_the_part_of_an_output_that_is_not_picked_is_compared(factor, expected):
    def pick(output):
        return output["logits"]

    for phase in ("infer", "train"):
        found = verdict(unpicked(factor), phase, "aot_eager", test_forward, output=pick)
        assert found.outcome == ("failed" if expected else "passed"), found
        assert expected in "\n".join((found.summary, *found.details))


def test_a_part_that_shows_nothing_is_no_reason_for_doubt_unless_it_is_picked():
    def dead(x, y):
        return {"logits": y, "dead": (y - 100).relu()}

    found = verdict(lambda: Linear(dead), backend="eager", output=lambda out: out["logits"])
    assert found.outcome == "passed", found


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (lambda y: y[:2], ""),
        (lambda y: y[:2].clone(), "output: aliasing differs"),
        (lambda y: y[:2].t().contiguous().t(), "unpicked output.head: stride differs"),
    ],
)
def test_layout_and_aliasing_of_what_is_not_picked_are_compared(other, expected):
    def both(x, y):
        return {"logits": y, "head": (other if is_compiling() else lambda y: y[:2])(y)}

    found = verdict(lambda: Linear(both), backend="eager", output=lambda out: out["logits"])
    assert found.outcome == ("failed" if expected else "passed"), found
    assert expected in "\n".join((found.summary, *found.details))


class Writes(nn.Module):
    """Doubles its input or a buffer; compiled code may do so behind the back of autograd."""

    def __init__(self, *, to_buffer, hides):
        super().__init__()
        self.register_buffer("total", torch.ones(4))
        self.to_buffer, self.hides = to_buffer, hides

    def forward(self, x):
        written = self.total if self.to_buffer else x
        if self.hides and is_compiling():
            with torch.autograd._unsafe_preserve_version_counter(written):
                written.mul_(2.0)
        else:
            written.mul_(2.0)
        return x.sin()


@pytest.mark.parametrize(("to_buffer", "name"), [(False, "input[0]"), (True, "buffer total")])
@pytest.mark.parametrize("hides", [False, True])
def test_a_write_that_autograd_would_not_notice_fails(to_buffer, name, hides):
    def build():
        return Writes(to_buffer=to_buffer, hides=hides)

    found = verdict(build, backend="eager", suite=test_side_effects)
    assert found.outcome == ("failed" if hides else "passed"), found
    complaint = f"{name}: version differs: eager raises it, compiled writes without raising it"
    assert (complaint in found.summary) is hides


@pytest.mark.parametrize(("phase", "writes"), [("infer", False), ("infer", True), ("train", False)])
def test_a_version_that_compiled_code_alone_raises_fails(phase, writes):
    def action(x, y):
        if writes and is_compiling():
            with torch.no_grad():
                x.detach().add_(0)
        return y

    found = verdict(lambda: Linear(action), phase, "eager", test_side_effects)
    assert found.outcome == ("failed" if writes else "passed"), found
    complaint = "input[0]: version differs: eager leaves it, compiled raises it without a change"
    assert (complaint in found.summary) is writes


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_compiled_write_raises_the_version(backend):
    torch._dynamo.reset()
    x, counts = torch.ones(3), nn.BatchNorm1d(3)
    with torch.no_grad():
        torch.compile(lambda x: x.mul_(2.0).sin(), backend=backend)(x)
        torch.compile(counts, backend=backend)(torch.ones(2, 3))
    torch._dynamo.reset()
    assert x._version > 0
    assert counts.num_batches_tracked._version > 0


def test_objects_that_each_call_leaves_are_counted():
    left = []
    assert not left_by(lambda: torch.ones(3)).objects
    assert left_by(lambda: left.append([])).objects == {"list": 1}
    cached = {}
    assert not left_by(lambda: cached.setdefault("once", [])).objects


def test_a_cache_that_fills_in_the_first_calls_is_no_leak():
    cache = []

    def fills():
        if len(cache) < 10:
            cache.append([])

    assert not left_by(fills).objects


def test_a_call_that_leaves_python_objects_fails():
    left = []

    def leaks():
        left.append({"of": [torch.ones(0)]})

    for compiled, outcome in ((lambda: torch.ones(3), "passed"), (leaks, "failed")):
        kept = left_by(compiled).objects
        memory = replace(
            peak_memory(
                lambda: torch.ones(3), compiled, device=device("cpu"), compile_peak_bytes=0
            ),
            compiled_kept_objects=kept.total(),
            compiled_kept_types=dict(kept),
        )
        finding = test_memory.rule(make_observation(memory=memory), Budget(max_memory_ratio=2.0))
        assert finding.outcome == outcome, finding
    assert finding.summary.startswith("each call leaves 3 more Python objects than eager (1 ")


@pytest.mark.parametrize(
    ("kept_bytes", "outcome"), [(0, "passed"), (4096, "passed"), (1 << 16, "failed")]
)
def test_memory_outside_pytorch_that_each_call_leaves_fails(kept_bytes, outcome):
    left = []

    def call():
        left.append(bytes(kept_bytes))

    kept = left_by(call)
    assert not kept.objects  # the garbage collector does not know bytes
    memory = replace(
        peak_memory(call, call, device=device("cpu"), compile_peak_bytes=0),
        compiled_kept_native_bytes=kept.native_bytes,
        compiled_kept_blocks=kept.blocks,
    )
    finding = test_memory.rule(make_observation(memory=memory), Budget(max_memory_ratio=2.0))
    assert finding.outcome == outcome, finding
    assert ("each call leaves 64 KiB more in use outside PyTorch" in finding.summary) == (
        outcome == "failed"
    )


@pytest.mark.parametrize(("numbers", "outcome"), [(0, "passed"), (100, "failed")])
def test_small_objects_that_each_call_leaves_fail(numbers, outcome):
    """The garbage collector knows no numbers, and together they take 2.4 KB."""
    left = []

    def call():
        left.append(tuple(len(left) + 0.5 * each for each in range(numbers)))

    kept = left_by(call)
    memory = replace(
        peak_memory(call, call, device=device("cpu"), compile_peak_bytes=0),
        compiled_kept_blocks=kept.blocks,
    )
    finding = test_memory.rule(make_observation(memory=memory), Budget(max_memory_ratio=2.0))
    assert finding.outcome == outcome, finding
    assert ("more small Python objects than eager" in finding.summary) == (outcome == "failed")


def writing(offset):
    """Return a builder of a module that writes to its input's memory if it is compiled."""

    def write(x, y):
        if offset is not None and is_compiling():
            x.as_strided((1,), (1,), offset).fill_(1.0)
        return y

    return lambda: Linear(write)


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (None, ""),
        (5, "memory around input[0]: content differs: eager leaves it unchanged, compiled changes"),
        (2, "input[0]: value differs: eager leaves it"),
    ],
)
def test_code_that_writes_next_to_an_input_fails(offset, expected):
    def half_of_the_columns(batch):
        return (torch.randn(batch, 8)[:, :4],)

    found = verdict(writing(offset), suite=test_side_effects, inputs=half_of_the_columns)
    assert found.outcome == ("failed" if expected else "passed"), found
    assert expected in "\n".join((found.summary, *found.details))
    assert ("memory around" in found.summary) == (offset == 5)
