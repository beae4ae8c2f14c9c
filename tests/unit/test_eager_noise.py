"""Tests of eager's noise: the same call again, nudged by a rounding error."""

import itertools
from dataclasses import asdict

import pytest
import torch
from torch import nn

from compilegate.observe.compare.eager_noise import SAMPLES, Sampler
from compilegate.observe.compare.errors import tensor_errors
from compilegate.observe.compare.nearest_reference import Nudge, Sides
from compilegate.observe.compare.results import CallResults, compare_outputs
from compilegate.observe.compare.values import is_doubtful
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.subject import Subject
from compilegate.records.call import Checked
from compilegate.records.case import Case
from compilegate.records.rounding import pooled_noise
from compilegate.zoo.example import Call, Example
from compilegate.zoo.registry import Model
from tests.unit.excess import exceeds
from tests.unit.making import make_error

INFER = Case.parse("m-cpu-infer-f32-default-static")
TRAIN = Case.parse("m-cpu-train-f32-default-static")
FIRST = PlannedCall(0, {})


def sampled(build, case=INFER, seed=0, nudge=1, **options):
    """Return an eager subject, its first call, and samples of the call."""
    model = Model("m", "m", build=build)
    eager = Subject(model, case, seed)
    result = eager.call(eager.prepare(FIRST), 0)
    sampler = Sampler(lambda: Subject(model, case, seed))
    return eager, result, sampler.samples(FIRST, eager, result, nudge, **options)


def normed():
    return Example(
        nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4)),
        inputs=lambda: (torch.randn(6, 8),),
    )


def test_samples_differ_by_rounding_errors():
    _, result, samples = sampled(normed, TRAIN)
    assert len(samples) == SAMPLES
    ours = result.output["output"]
    for sample in samples:
        distance = float((sample.result.output["output"] - ours).norm() / ours.norm())
        assert 0 < distance < 1e-5
        assert sample.result.gradients.keys() == result.gradients.keys()


@pytest.mark.parametrize("needed", [1, 3])
def test_no_more_runs_are_made_than_needed(needed):
    runs = []
    _, _, samples = sampled(normed, until=lambda run: runs.append(run) or len(runs) == needed)
    assert len(samples) == needed


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_nudges_are_independent_of_the_nudged_numbers(seed):
    def wide():
        return Example(nn.Linear(4096, 8), inputs=lambda: (torch.rand(6, 4096),))

    _, result, samples = sampled(wide, INFER, seed)
    ours = result.output["output"]
    errors = [float((s.result.output["output"] - ours).norm() / ours.norm()) for s in samples]
    assert max(errors) < 4 * min(errors)


def off_in_a_row(by, row):
    """Return a matrix with rounding errors and a row with the same error in all elements."""
    tensor = torch.randn(64, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rounding = 1 + 1e-7 * torch.randn(64, 64, generator=torch.Generator().manual_seed(row))
    tensor = tensor * rounding
    tensor[row] += by
    return tensor.float()


@pytest.mark.parametrize(("sometimes", "is_right"), [(0.01, True), (0.0, False)])
def test_compiled_code_may_jump_where_rounding_makes_eager_jump(sometimes, is_right):
    truth = off_in_a_row(0.0, 0).double()
    ours, theirs = off_in_a_row(0.0, 1), off_in_a_row(0.1, 2)
    nudge = Nudge(1.0, 1.0)
    samples = [(off_in_a_row(sometimes * (row % 2), row), nudge) for row in range(3, 7)]
    (error,) = tensor_errors([Sides("x", ours, theirs, [truth], samples)])
    assert error.jumps is is_right
    assert (exceeds(error, 0.0) == "") is is_right


def test_sampling_does_not_change_the_eager_model():
    eager, result, _ = sampled(normed, TRAIN)
    assert eager.buffers()["1.num_batches_tracked"] == 1
    assert torch.equal(eager.buffers()["1.running_mean"], result.state["buffer 1.running_mean"])
    twin = Subject(Model("m", "m", build=normed), TRAIN, 0)
    for name, parameter in eager.parameters().items():
        assert torch.equal(parameter, twin.parameters()[name])


def test_a_call_that_depends_on_earlier_calls_is_not_sampled():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.numbers = (number for number in itertools.count(1))  # nothing can copy it

        def forward(self, x):
            return x * next(self.numbers)

    model = Model("m", "m", build=lambda: Example(Counts(), inputs=lambda: (torch.randn(3),)))
    eager = Subject(model, INFER, 0)
    eager.call(eager.prepare(FIRST), 0)
    second = PlannedCall(1, {})
    result = eager.call(eager.prepare(second), 1)
    assert Sampler(lambda: Subject(model, INFER, 0)).samples(second, eager, result, 1) is None


@pytest.mark.parametrize(
    "given",
    [
        {"inputs": lambda: (torch.linspace(1.0, 2.0, 9),)},
        {"inputs": (torch.linspace(1.0, 2.0, 9),)},
        {"calls": [Call((torch.linspace(1.0, 2.0, 9),))]},
    ],
    ids=["made", "fixed", "listed"],
)
def test_every_run_starts_from_the_inputs_of_the_call(given):
    """Also where the model writes to them."""
    _, result, samples = sampled(lambda: Example(lambda x: x.mul_(2.0).sin(), **given), nudge=8)
    assert len(samples) == SAMPLES
    for sample in samples:
        off = sample.result.output["output"] - result.output["output"]
        assert 0 < float(off.abs().max()) < 1e-5


def test_listed_calls_are_sampled_after_the_actions_of_earlier_calls():
    def build():
        def switch(module):
            module.factor += 1

        class Switched(nn.Module):
            factor = 0

            def forward(self, x):
                return (self.factor * x).sin()

        x = torch.linspace(1.0, 2.0, 9)
        return Example(Switched(), calls=[Call((x,), before=switch) for _ in range(3)])

    model = Model("m", "m", build=build)
    eager = Subject(model, INFER, 0)
    sampler = Sampler(lambda: Subject(model, INFER, 0))
    for index in (0, 1, 2):
        planned = PlannedCall(index, {})
        result = eager.call(eager.prepare(planned), index)
        if index != 1:  # not every call is sampled
            samples = sampler.samples(planned, eager, result, 1)
            assert len(samples) == SAMPLES


def test_a_run_that_returns_the_same_as_without_a_nudge_is_dropped():
    def build():
        return Example(lambda x: x.argmax(), inputs=lambda: (torch.tensor([1.0, 2.0, 3.0]),))

    assert sampled(build)[2] == []


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_inputs_in_half_precision_move_by_a_unit_whose_size_is_known(dtype):
    def build():
        return Example(
            lambda x: x.float().sin(), inputs=lambda: (torch.linspace(0.5, 1.0, 64).to(dtype),)
        )

    _, result, samples = sampled(build)
    assert len(samples) == SAMPLES
    for sample in samples:
        off = sample.result.output["output"] - result.output["output"]
        assert float((off != 0).float().mean()) > 0.9
        assert sample.nudge.units == torch.finfo(dtype).eps / torch.finfo(torch.float32).eps
        assert float(off.abs().max()) < torch.finfo(dtype).eps


# Ties.


def near_tie():
    """Return a maximum that depends on a rounding error, next to a clear one."""
    return (torch.tensor([[1.0, 1.0 + 2**-23, 0.0], [0.0, 1.0, 3.0]]),)


def indices(swapped):
    def chosen(x):
        best = x.argmax(1)
        return best.clone().index_fill_(0, torch.tensor([swapped]), 0)

    return chosen


def compared(swapped):
    _, ours, samples = sampled(lambda: Example(lambda x: x.argmax(1), inputs=near_tie), nudge=8)
    compiled = Subject(Model("m", "m", build=lambda: Example(indices(swapped), near_tie)), INFER, 0)
    theirs = compiled.call(compiled.prepare(FIRST), 0)
    assert is_doubtful(compare_outputs(CallResults(ours, theirs)))
    return compare_outputs(CallResults(ours, theirs, samples=samples))


def test_an_index_that_varies_between_eager_runs_is_a_tie():
    checked = compared(swapped=0)
    assert (checked.differences, checked.ties) == ((), 1)


def quantized(x):
    return (x.exp() * 2**20).round().int()


@pytest.mark.parametrize(
    ("theirs", "is_right"),
    [
        (lambda x: (x.double().exp() * 2**20).round().int(), True),
        (lambda x: 0 * quantized(x), False),
        (lambda x: quantized(x) + 12345, False),
    ],
)
def test_integers_that_vary_between_eager_runs_may_differ_by_their_spread(theirs, is_right):
    def inputs():
        return (torch.linspace(0.0, 3.0, 64),)

    _, ours, samples = sampled(lambda: Example(quantized, inputs=inputs), nudge=64)
    compiled = Subject(Model("m", "m", build=lambda: Example(theirs, inputs=inputs)), INFER, 0)
    result = compiled.call(compiled.prepare(FIRST), 0)
    checked = compare_outputs(CallResults(ours, result, samples=samples))
    wrong = [text for error in checked.errors if (text := exceeds(error, 0.0))]
    assert bool(checked.differences or wrong) is not is_right
    assert all(error.dtype == "int32" for error in checked.errors)


def test_a_difference_in_an_index_on_which_eager_runs_agree_is_found():
    (found,) = compared(swapped=1).differences
    assert (found.what, found.eager) == ("elements", "2 at [1]")


TRUTH = torch.randn(64, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def off(by, seed):
    noise = torch.randn(64, 64, generator=torch.Generator().manual_seed(seed))
    return (TRUTH * (1 + by * noise)).float()


@pytest.mark.parametrize("unit", [2.0**-9, 2.0**-12], ids=["bf16", "f16"])
@pytest.mark.parametrize("is_fine", [True, False])
def test_rounding_to_half_where_eager_uses_float32_fails(unit, is_fine):
    """Nudges in half precision move both alike; eager's own error distinguishes them."""
    samples = [(off(unit, seed), Nudge(1.0, unit * 2.0**23)) for seed in range(3, 7)]
    ours = off(1e-7 if is_fine else unit, 1)
    (error,) = tensor_errors([Sides("x", ours, off(1.3 * unit, 2), [TRUTH], samples)])
    assert (exceeds(error, 0.0) == "") is not is_fine


@pytest.mark.parametrize("unit", [2.0**-9, 2.0**-12], ids=["bf16", "f16"])
def test_without_a_reference_float32_in_eager_is_not_detected(unit):
    """Eager is then its own reference and seems to have no error."""
    samples = [(off(unit, seed), Nudge(1.0, unit * 2.0**23)) for seed in range(3, 7)]
    (error,) = tensor_errors([Sides("x", TRUTH.float(), off(unit, 2), [], samples)])
    assert exceeds(error, 0.0) == ""


@pytest.mark.parametrize("figure", ["rms", "quantile", "max", "projection"])
@pytest.mark.parametrize(
    ("dtype", "half"),
    [("float32", False), ("float32", True), ("bfloat16", True), ("float16", True)],
)
@pytest.mark.parametrize("noise", [0.0, 1e-7, 1e-4, 0.02, 0.2])
def test_eager_noise_is_sampled_before_an_error_exceeds_its_bound(figure, dtype, half, noise):
    eager = dict.fromkeys(("rms", "quantile", "max"), noise) | {"projection": 0.0}
    for excess in range(1, 400):
        compiled = eager | {figure: noise * 1.02**excess + 1e-9 * 1.1**excess}
        recorded = {f"compiled_{name}": value for name, value in compiled.items()}
        recorded |= {f"eager_{name}": value for name, value in eager.items()}
        error = make_error(dtype=dtype, numel=4096, **recorded)
        if exceeds(error, pooled_noise([error]), half=half):
            break
    assert is_doubtful(Checked(errors=(error,)), half=half)


def many(samples=True):
    """Return tensors whose compiled error is that of eager or larger; one has no reference."""
    drawn = [(off(3e-7, seed), Nudge(1.0, 1.0)) for seed in range(3, 7)] if samples else []
    return [
        Sides("alike", off(1e-7, 1), off(1e-7, 2), [TRUTH], drawn),
        Sides("doubtful", off(1e-7, 1), off(5e-7, 2), [TRUTH], drawn),
        Sides("by itself", off(1e-7, 1), off(1e-7, 2), [], drawn),
    ]


def test_only_errors_that_samples_can_change_are_measured_again():
    before = {error.name: error for error in tensor_errors(many(samples=False))}
    after = tensor_errors(many(), before)
    for error, again in zip(after, tensor_errors(many()), strict=True):
        figures = {name: pytest.approx(value) for name, value in asdict(again).items()}
        assert asdict(error) == figures  # to within rounding: other tensors are measured with it
    assert [error.samples for error in after] == [0, SAMPLES, SAMPLES]
    assert after[0] is before["alike"]


def test_expanded_inputs_are_nudged_and_get_their_numbers_back():
    row = torch.linspace(1.0, 2.0, 9)

    def build():
        return Example(torch.sin, inputs=(row.expand(4, 9),))

    before = row.clone()
    _, result, samples = sampled(build)
    assert len(samples) == SAMPLES
    for sample in samples:
        off = (sample.result.output["output"] - result.output["output"]).abs()
        assert 0 < float(off.max()) < 1e-6
        assert bool((off == off[0]).all())
    assert torch.equal(row, before)


@pytest.mark.parametrize(("wrong_by", "is_right"), [(0.0, True), (1e-3, False)])
def test_a_step_of_half_precision_hides_no_error_in_single_precision(wrong_by, is_right):
    """A single input in bfloat16 moves by 65,536 units of the case, and so does the sine."""

    def build():
        return Example(
            lambda x: (3 * x.float()).sin(), inputs=lambda: (torch.randn(6, 16).bfloat16(),)
        )

    eager, result, samples = sampled(build)
    ours = result.output["output"]
    truth = (3 * eager.prepare(FIRST).args[0].double()).sin()
    drawn = [(sample.result.output["output"], sample.nudge) for sample in samples]
    assert drawn
    sides = Sides("output", ours, ours * (1 + wrong_by), [truth], drawn, always=True)
    (error,) = tensor_errors([sides])
    assert not error.jumps
    assert (exceeds(error, 0.0) == "") is is_right
