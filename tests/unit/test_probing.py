"""Probing calls: each shows a fault that no other call shows, and passes healthy code."""

import functools
import weakref

import pytest
import torch
from torch import nn

from compilegate.observe.phases.probing import Probing
from compilegate.suites import test_forward, test_gradients, test_recompiles, test_side_effects
from tests.unit.observed import Linear
from tests.unit.probed import WANTS, answering_otherwise, given_otherwise, probed, verdict_of
from tests.unit.test_probing_numbers import VALUES


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


def answering_as_before(*, is_right):
    """Return a compiler whose code repeats its answer to a tensor that it has seen before."""

    def compiler(graph, inputs):
        seen = []

        def run(*given):
            x = next(t for t in given if not isinstance(t, nn.Parameter))
            if not seen or seen[0]() is not x or is_right:
                seen[:] = weakref.ref(x), tuple(y.detach().clone() for y in graph(*given))
            return tuple(y.clone() for y in seen[1])

        return run

    return compiler


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


def empty_sums_of_one(y, given):
    return y if rows_of(given) else y + 1


@pytest.mark.parametrize("compiler", [answering_otherwise(empty_sums_of_one), "eager"])
def test_a_sum_over_no_rows_is_zero(compiler):
    summing = functools.partial(Linear, lambda x, y: y.sum(0))
    found = verdict_of(probed(summing, backend=compiler))
    if compiler == "eager":
        assert found.outcome == "passed"
    else:
        assert found.outcome == "failed"
        assert "batch of zero: output (float32): largest error is 1 of" in found.summary


@pytest.mark.parametrize(("wrong", "outcome"), [(range(9, 12), "failed"), ((), "passed")])
def test_a_fault_in_some_repetitions_alone_shows(wrong, outcome):
    count = iter(range(10**6))
    off = answering_otherwise(lambda y, given: y * 1.01 if next(count) in wrong else y)
    found = verdict_of(probed(backend=off, wants=WANTS[:3]))
    assert found.outcome == outcome, found.details
    assert outcome == "passed" or "after 8 more calls: output: value differs" in found.summary


def test_a_fault_from_the_ninth_call_on_shows():
    found = verdict_of(probed(backend=wrong_from_the_ninth_call(), wants=WANTS[:3]))
    assert found.outcome == "failed"
    assert found.summary.startswith("probing call (batch=8), after 8 more calls: output")


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


@pytest.mark.parametrize("is_right", [False, True])
def test_code_that_knows_a_tensor_again_shows_where_it_has_other_numbers(is_right):
    compiler = answering_as_before(is_right=is_right)
    found = verdict_of(probed(backend=compiler, wants=("capture", "vary", "reuse")))
    assert found.outcome == ("passed" if is_right else "failed"), found.details
    assert is_right or "the same tensors with other numbers: output" in found.summary


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


def derivatives(x):
    """Return derivatives by a product of ``x`` with itself.

    Eager gives a tangent the layout of its primal, and writes to rows that share memory.
    """
    return torch.func.jacfwd(lambda x: torch.mm(x.prod() + x, (x.sum() + x).T).sum())(x)


def test_code_that_is_right_where_eager_errs_in_memory_that_elements_share_passes():
    dense = given_otherwise(lambda t: t.clone(memory_format=torch.contiguous_format))
    wants = ("capture", "vary", "respecialise", "every_layout")
    seen = probed(lambda: derivatives, backend=dense, wants=wants)
    found = verdict_of(seen)
    assert found.outcome == "passed", found.details
    overlap = "inputs whose rows overlap in memory: eager and float64 disagree in 100%"
    assert any(line.startswith(overlap) for line in seen.unprobed), seen.unprobed


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


def test_probing_leaves_no_trace():
    """Statistics of batch norm that had seen a NaN would stay NaN."""

    def module():
        return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))

    last = probed(module, "train").probes[-1]
    assert {error.name for error in last.state.errors} >= {"buffer 1.running_mean"}
    assert all(error.numel for error in last.state.errors)
