"""Tests of the reference: in float64 if the model runs in it, else in float32."""

import itertools

import pytest
import torch
from torch import nn

from compilegate.observe.compare.results import CallResults, compare_outputs
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.random_draws import DrawRecording
from compilegate.observe.model.reference import MOST_KEPT, Reference
from compilegate.observe.model.result import Result
from compilegate.observe.model.subject import Subject
from compilegate.records.case import Case
from compilegate.zoo.example import Example
from compilegate.zoo.registry import Model

INFER = Case.parse("m-cpu-infer-f32-default-static")
TRAIN = Case.parse("m-cpu-train-f32-default-static")
FIRST, SECOND = PlannedCall(0, {}), PlannedCall(1, {})


def reference_of(function, case=INFER):
    def build():
        return Example(function() if isinstance(function, type) else function, _inputs)

    model = Model("m", "m", build=build)
    return Reference(lambda lifting: Subject(model, case, 0, lifting=lifting)), model


def trained(most_kept=MOST_KEPT):
    """Return the reference of a layer in training, the model, and the subjects of the reference."""
    model = Model("m", "m", build=lambda: Example(nn.Linear(8, 3), _inputs))
    subjects = []

    def build(lifting):
        subjects.append(Subject(model, TRAIN, 0, lifting=lifting))
        return subjects[-1]

    return Reference(build, most_kept=most_kept), model, subjects


def _inputs():
    return (torch.randn(4, 8),)


class Single(nn.Module):
    """A module that computes only in float32, like a custom kernel."""

    def forward(self, x):
        if x.dtype == torch.float64:
            raise RuntimeError("expected Float")
        return x * 3


def test_a_model_that_runs_in_float64_has_one_exact_reference():
    reference, _ = reference_of(lambda x: x.softmax(-1))
    (result,) = reference.results(FIRST)
    assert result.output["output"].dtype == torch.float64
    assert (reference.kind, reference.is_exact) == ("float64", True)


@pytest.mark.parametrize(("most_kept", "built"), [(MOST_KEPT, 1), (0, 2)])
def test_results_that_are_too_large_to_keep_are_computed_again_for_the_next_case(most_kept, built):
    reference, _, subjects = trained(most_kept)
    one, other = [[reference.results(call)[0] for call in (FIRST, SECOND)] for _ in range(2)]
    for ours, theirs in zip(one, other, strict=True):
        assert torch.equal(ours.output["output"], theirs.output["output"])
        assert torch.equal(ours.gradients["weight"], theirs.gradients["weight"])
    assert len(subjects) == built


def test_a_model_that_does_not_run_in_float64_has_a_float32_reference_with_the_reason():
    reference, _ = reference_of(Single)
    (result,) = reference.results(FIRST)
    assert result.output["output"].dtype == torch.float32
    assert not reference.is_exact
    assert reference.kind == "float32; not float64: RuntimeError: expected Float"


def test_a_call_that_cannot_overlap_another_leaves_the_other_references_valid():
    calls = itertools.count()

    def raises_at_the_third(x):
        if next(calls) > 1:
            raise RuntimeError("modified by an inplace operation")
        return x * 3

    reference, _ = reference_of(raises_at_the_third)
    kept = [reference.results(call) for call in (FIRST, SECOND)]
    assert reference.results(PlannedCall(2, {}, overlaps=True)) == []
    assert [reference.results(call) for call in (FIRST, SECOND)] == kept
    assert reference.kind == "float64"
    assert reference.results(PlannedCall(2, {})) == []
    assert reference.kind == "none: RuntimeError: modified by an inplace operation"


def test_a_model_that_runs_in_no_precision_has_no_reference():
    def refuses(x):
        raise ValueError("never")

    reference, _ = reference_of(refuses)
    assert reference.results(FIRST) == reference.results(SECOND) == []
    assert reference.kind == "none: ValueError: never"


def test_an_operator_that_stays_lower_is_named():
    reference, _ = reference_of(lambda x: x * torch.ones(8).sum())
    reference.results(FIRST)
    assert reference.kind == "float64; lower in aten.ones (float32), aten.sum (float32)"


# Intentional rounding.


def rounds(x):
    return x.to(torch.bfloat16).to(x.dtype) * 2


@pytest.mark.parametrize(("theirs", "is_right"), [(rounds, True), (lambda x: x * 2, False)])
def test_a_missing_round_trip_through_bfloat16_is_found(theirs, is_right):
    reference, model = reference_of(rounds)
    eager, compiled = Subject(model, INFER, 0), Subject(model, INFER, 0)
    compiled.run = theirs
    ours, other = (side.call(side.prepare(FIRST), 0) for side in (eager, compiled))
    known = reference.results(FIRST)
    assert len(known) == 2
    (error,) = compare_outputs(CallResults(ours, other, known)).errors
    assert error.eager_rms < 1e-7
    assert (error.compiled_rms < 1e-7) == is_right


def test_an_alternative_that_does_not_run_is_left_out():
    def mixes(x):
        return x.to(torch.bfloat16) @ x.t().to(torch.bfloat16 if x.dtype == torch.float32 else x)

    reference, _ = reference_of(mixes)
    assert len(reference.results(FIRST)) == 1
    assert len(reference.results(SECOND)) == 1


# Training.


def test_the_reference_is_trained_between_its_calls():
    reference, model, subjects = trained()
    before = Subject(model, TRAIN, 0).parameters()
    (first,) = reference.results(FIRST)
    rates = reference.rates.for_call(0, before, first)
    assert rates.keys() == {"weight", "bias"}
    for name, parameter in subjects[0].parameters().items():
        step = rates[name] * first.gradients[name]
        assert torch.allclose(before[name].double() - step, parameter)


def test_results_are_computed_once():
    calls = []

    def counted(x):
        calls.append(x)
        return x * 2

    reference, _ = reference_of(counted)
    assert reference.results(FIRST)[0] is reference.results(FIRST)[0]
    assert len(calls) == 1
    assert isinstance(reference.results(FIRST)[0], Result)


def noisy(x):
    return x + 0.3 * torch.randn_like(x)


def eager_call(model):
    eager, recording = Subject(model, INFER, 0), DrawRecording(is_needed=False)
    return eager.call(eager.prepare(FIRST), 0, recording), recording


def test_the_reference_uses_the_numbers_that_eager_drew():
    reference, model = reference_of(noisy)
    made, recording = eager_call(model)
    (truth,) = reference.results(FIRST, recording)
    assert reference.is_exact
    assert torch.allclose(truth.output["output"].float(), made.output["output"])


@pytest.mark.parametrize("is_needed", [False, True])
def test_a_recording_that_does_not_fit_is_dropped_unless_it_is_needed(is_needed):
    reference, _ = reference_of(noisy)
    _, another = reference_of(lambda x: x * torch.empty_like(x).bernoulli_())
    _, recording = eager_call(another)
    recording.is_needed = is_needed
    assert len(reference.results(FIRST, recording)) == (0 if is_needed else 1)
    assert reference.is_exact is not is_needed
