"""Probing calls: each shows a fault that no other call shows, and passes healthy code."""

import pytest
import torch
from torch import nn

from compilegate.judging.budget import Budget
from compilegate.judging.judge import judge
from compilegate.observe.phases.probing import Probing
from compilegate.suites import test_forward, test_gradients, test_recompiles, test_side_effects
from tests.unit.observed import Linear, observation

WANTS = ("capture", "vary", "reuse", "respecialise", "every_layout")


def probed(module=Linear, phase="infer", backend="eager", wants=WANTS, **example):
    example = {"dims": {0: {0: "batch"}}, "signal": False, **example}
    return observation(module, phase, backend, wants, **example)


def verdict_of(seen, suite=test_forward):
    aspect = suite.__name__.removeprefix("suites.test_")
    return judge(seen, Budget(), aspect, suite.rule, ("capture", "vary")).verdict


def given_otherwise(change):
    """Return a compiler whose code changes what it is given, except weights."""

    def compiler(graph, inputs):
        def run(*given):
            return graph(*(t if isinstance(t, nn.Parameter) else change(t) for t in given))

        return run

    return compiler


def answering_otherwise(change):
    """Return a compiler whose code changes its answers, given the arguments."""

    def compiler(graph, inputs):
        return lambda *given: tuple(change(y, given) for y in graph(*given))

    return compiler


def replacing(name, function):
    """Return a compiler with another lowering of one function."""

    def compiler(graph, inputs):
        nodes = graph.graph.nodes
        found = [node for node in nodes if getattr(node.target, "__name__", node.target) == name]
        assert found
        for node in found:
            node.op, node.target = "call_function", function
        graph.recompile()
        return graph

    return compiler


def rows_of(given):
    return next(len(t) for t in given if not isinstance(t, nn.Parameter))


def wrong_for_one_row(y, given):
    return y * 1.01 if rows_of(given) == 1 else y


def wrong_for_no_row(y, given):
    return y if rows_of(given) else torch.zeros(1, *y.shape[1:])


def ignoring_strides(t):
    return t.as_strided(t.shape, torch.empty(t.shape).stride()) if 0 not in t.stride() else t


def ignoring_the_offset(t):
    return t.as_strided(t.shape, t.stride(), 0)


def wrong_for_expanded_rows(t):
    return t * 1.01 if t.stride(0) == 0 else t


def wrong_for_rows_that_overlap(t):
    return t * 1.01 if t.stride() == (1, 1) else t


def wrong_from_the_ninth_call():
    count = iter(range(10**6))

    def change(y, given):
        return y * 1.01 if next(count) >= 8 else y

    return answering_otherwise(change)


def clamped_by_comparison(x, **ends):
    return torch.where(x > ends["min"], x, ends["min"])


def without_the_maximum(x, dim, keepdim):
    return x.exp().sum(dim, keepdim=keepdim).log()


def saturated(x, y):
    found = torch.hypot(x, y)
    return torch.where(found.isinf(), found, found.clamp(max=1e30))


def var_by_squares(x, dim, correction, keepdim):
    return x.square().mean(dim, keepdim=keepdim) - x.mean(dim, keepdim=keepdim).square()


def by_exponentials(x):
    return x.exp() / (1 + x.exp())


def of_the_sum_with_zero(x):
    return 1 / (x + 0.0)


LAYOUTS = {
    "transposed inputs": given_otherwise(ignoring_strides),
    "every second element of a larger memory": given_otherwise(ignoring_the_offset),
    "inputs expanded from one row": given_otherwise(wrong_for_expanded_rows),
    "inputs whose rows overlap in memory": given_otherwise(wrong_for_rows_that_overlap),
    "batch of one": answering_otherwise(wrong_for_one_row),
    "batch of zero": answering_otherwise(wrong_for_no_row),
}


@pytest.mark.parametrize("probe", LAYOUTS)
def test_a_fault_at_a_size_or_a_layout_shows_in_its_probing_call(probe):
    found = verdict_of(probed(backend=LAYOUTS[probe]))
    assert found.outcome == "failed"
    assert found.summary.startswith("probing call (batch=")
    assert any(probe in line for line in found.details)


def test_a_fault_from_the_ninth_call_on_shows():
    found = verdict_of(probed(backend=wrong_from_the_ninth_call(), wants=WANTS[:3]))
    assert found.outcome == "failed"
    assert found.summary.startswith("probing call (batch=8), after 8 more calls: output (float32)")


VALUES = {
    "NaN in the first row": (
        lambda x: torch.clamp(x, min=0.0),
        replacing("clamp", clamped_by_comparison),
    ),
    "infinities in two rows": (torch.sigmoid, replacing("sigmoid", by_exponentials)),
    "numbers near the largest": (
        lambda x: torch.hypot(x, x),
        replacing("hypot", saturated),
    ),
    "large numbers": (
        lambda x: torch.logsumexp(x, 1, keepdim=True).expand(-1, 4),
        replacing("logsumexp", without_the_maximum),
    ),
    "a row of zeros and one of denormals": (
        torch.reciprocal,
        replacing("reciprocal", of_the_sum_with_zero),
    ),
}


@pytest.mark.parametrize("probe", VALUES)
def test_a_lowering_that_is_wrong_for_extreme_values_shows(probe):
    function, faulty = VALUES[probe]

    def of(backend):
        def module():
            return Linear(lambda x, y: (y, function(x)))

        return verdict_of(probed(module, backend=backend, wants=WANTS[:3]))

    sound = of("eager")
    assert sound.outcome == "passed", sound.details
    found = of(faulty)
    assert found.outcome == "failed"
    assert found.summary.startswith(f"probing call (batch=8), {probe}: output[1]"), found.summary


def test_an_overflow_of_one_side_alone_says_nothing():
    """Eager's norm is zero there, and that of compiled code is not a number."""
    scales = torch.tensor([1.0, 1.0, 1.0, 0.1])

    def norm(x):
        variance = x.var(1, correction=0, keepdim=True) + 1e-5
        return (x - x.mean(1, keepdim=True)) * variance.rsqrt() * scales

    def module():
        return Linear(lambda x, y: norm(x))

    otherwise = replacing("var", var_by_squares)
    seen = probed(module, backend=otherwise, wants=WANTS[:3])
    assert verdict_of(seen).outcome == "passed"
    assert "numbers near the largest: compiled code or eager alone overflows" in seen.unprobed


@pytest.mark.parametrize("phase", ["infer", "train"])
def test_healthy_code_passes_every_probing_call_and_no_recompilation_counts(phase):
    def module():
        return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 4))

    seen = probed(module, phase)
    assert seen.status == "completed", seen.failure
    names = [one.probe for one in seen.probes]
    wanted = {*LAYOUTS, *VALUES, "after 8 more calls"}
    untrained = {"batch of zero"} if phase == "train" else set()
    assert {_listed(name) for name in names} >= wanted - untrained
    for suite in (test_forward, test_side_effects, *([test_gradients] if phase == "train" else [])):
        found = verdict_of(seen, suite)
        assert found.outcome == "passed", found.details
    assert f" and {len(names)} probing calls" in verdict_of(seen).summary
    assert {one.call for one in seen.capture.compilations} == {0, 2}  # two sizes
    assert verdict_of(seen, test_recompiles).outcome == "passed"


def saturating(x, one):
    return (x.long() + one).clamp(max=2**31 - 1).int()


def with_integers(module):
    def inputs(batch):
        return torch.randn(batch, 4), torch.randint(9, (batch, 4), dtype=torch.int32)

    return {"module": module, "inputs": inputs, "signal": True, "wants": WANTS[:3]}


INTEGERS = "integers at both ends of their range"


@pytest.mark.parametrize("backend", ["eager", replacing("add", saturating)])
def test_a_sum_of_integers_that_does_not_overflow_as_in_eager_shows(backend):
    seen = probed(**with_integers(lambda: lambda x, n: (x * 2, n + 1)), backend=backend)
    assert INTEGERS in [one.probe for one in seen.probes]
    found = verdict_of(seen)
    assert found.outcome == ("passed" if backend == "eager" else "failed"), found.details
    assert INTEGERS in found.summary or backend == "eager"


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (lambda x, n: x[n.long() % 2], "aten.index.Tensor"),
        (lambda x, n: x.new_zeros(int(n.max())) + 1, "aten._local_scalar_dense.default"),
        (lambda x, n: x + (1 << n), "aten.bitwise_left_shift"),
    ],
)
def test_integers_that_are_indices_or_sizes_get_no_large_values(function, operator):
    seen = probed(**with_integers(lambda: function))
    assert seen.status == "completed", seen.failure
    (line,) = (line for line in seen.unprobed if line.startswith(INTEGERS))
    assert line.startswith(f"{INTEGERS}: {operator}")
    assert line.endswith("takes integers as indices or sizes")


@pytest.mark.parametrize("backend", ["eager", replacing("neg", lambda x: 0.0 - x)])
def test_a_zero_of_the_other_sign_shows(backend):
    seen = probed(
        lambda: lambda x: (x * 2, torch.neg(x)), backend=backend, wants=WANTS[:3], signal=True
    )
    found = verdict_of(seen)
    assert found.outcome == ("passed" if backend == "eager" else "inconclusive"), found.details
    assert "output[1], sign of zero: eager " in found.summary or backend == "eager"


def _listed(name):
    return next((known for known in (*LAYOUTS, *VALUES) if name.startswith(known)), name)


def test_a_call_that_eager_cannot_make_is_left_out_with_its_reason():
    def module():
        return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))

    seen = probed(module, "train")
    assert any(
        line.startswith("batch of one: in eager, ValueError: Expected more than 1 value")
        for line in seen.unprobed
    )
    assert verdict_of(seen, test_side_effects).outcome == "passed"


def doubling_rows(x):
    return x.index_put_((torch.arange(len(x)),), 2 * x)


@pytest.mark.parametrize("function", [doubling_rows, lambda x: doubling_rows(x.clone())])
def test_a_write_to_an_input_whose_elements_share_memory_is_left_out(function):
    seen = probed(lambda: function, wants=("capture", "respecialise", "every_layout"))
    assert seen.status == "completed", seen.failure
    overlap = "inputs whose rows overlap in memory"
    line = f"{overlap}: eager writes to an input whose elements share memory"
    assert (line in seen.unprobed) == (function is doubling_rows)
    assert (overlap in [one.probe for one in seen.probes]) == (function is not doubling_rows)


def test_a_recipe_without_inputs_of_a_size_leaves_its_call_out():
    def inputs(batch):
        return (torch.randn(batch, 4).view(batch, 4 // min(batch, 1)),)

    def first_row(output):
        return output[0] if len(output) > 1 else output[1]

    seen = probed(inputs=inputs, output=first_row)
    assert seen.status == "completed", seen.failure
    left_out = [line for line in seen.unprobed if line.startswith("batch of")]
    assert left_out[0].startswith("batch of one: output=… of Example raised IndexError")
    assert left_out[1].startswith("batch of zero: the recipe raises ZeroDivisionError")


def test_the_error_that_earlier_calls_left_in_a_buffer_is_not_of_a_probing_call(monkeypatch):
    """Eager starts from its own buffers, and the reference from eager's."""

    def module():
        return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))

    make = Probing.make

    def after_many_calls(probing, planned, **how):
        probing.calls.compiled.buffers()["1.running_var"].mul_(1.001)
        make(probing, planned, **how)

    monkeypatch.setattr(Probing, "make", after_many_calls)
    seen = probed(module, "train")
    assert seen.probes
    assert verdict_of(seen, test_side_effects).outcome == "passed"


def test_examples_that_list_their_calls_or_fix_their_inputs_are_not_probed():
    seen = probed(inputs=(torch.ones(8, 4),))
    assert not seen.probes
    assert not seen.unprobed


def test_probing_leaves_no_trace():
    """Statistics of batch norm that had seen a NaN would stay NaN."""

    def module():
        return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))

    last = probed(module, "train").probes[-1]
    assert {error.name for error in last.state.errors} >= {"buffer 1.running_mean"}
    assert all(error.numel for error in last.state.errors)
