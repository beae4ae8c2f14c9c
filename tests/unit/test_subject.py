"""A subject: built alike each time, called alike each time, and everything it did written down."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from compilegate.observe.model.calls import PlannedCall, input_tensors, planned_calls, varied_calls
from compilegate.observe.model.float64 import Lifting
from compilegate.observe.model.subject import Subject
from compilegate.records.case import Case
from compilegate.zoo.example import Call, Example
from compilegate.zoo.registry import Model

INFER = Case.parse("m-cpu-infer-f32-default-static")
TRAIN = Case.parse("m-cpu-train-f32-default-static")
TRAIN_BF16 = Case.parse("m-cpu-train-bf16-default-static")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)
        self.second = nn.Linear(16, 4)

    def forward(self, x):
        return self.second(self.norm(self.first(x)).tanh())


def net():
    return Example(Net(), inputs=lambda batch: (torch.randn(batch, 8),))


def subject(build=net, case=TRAIN, seed=0, **how):
    return Subject(Model("m", "m", build=build), case, seed, **how)


def plan(index=0, batch=6):
    return PlannedCall(index, {"batch": batch})


def call(made, planned=None):
    planned = planned or plan()
    result = made.call(made.prepare(planned), planned.index)
    assert result.error is None, result.error
    return result


def example_of(function, *args, **kwargs):
    """A recipe of a function with fixed inputs, made anew by each builder."""

    def build():
        return Example(function, inputs=tuple(a() for a in args), kwargs=kwargs)

    return build


def rows(n=4, width=3):
    return lambda: torch.arange(n * width, dtype=torch.float32).reshape(n, width)


# Built alike.


def test_the_same_weights_and_inputs_twice():
    one, other = subject(), subject()
    torch.rand(100)  # whatever happens in between
    for mine, theirs in zip(one.parameters().values(), other.parameters().values(), strict=True):
        assert torch.equal(mine, theirs)
        assert mine is not theirs
    for index in (0, 1, 2):
        assert torch.equal(one.prepare(plan(index)).args[0], other.prepare(plan(index)).args[0])


def test_inputs_do_not_depend_on_the_order_of_calls():
    made = subject()
    third, first = made.prepare(plan(2)), made.prepare(plan(0))
    assert torch.equal(first.args[0], subject().prepare(plan(0)).args[0])
    assert torch.equal(third.args[0], subject().prepare(plan(2)).args[0])


def test_inputs_of_two_calls_differ_in_value():
    made = subject()
    assert not torch.equal(made.prepare(plan(0)).args[0], made.prepare(plan(1)).args[0])


def test_another_seed_gives_other_weights_and_inputs():
    one, other = subject(seed=0), subject(seed=1)
    assert not torch.equal(one.module.first.weight, other.module.first.weight)
    assert not torch.equal(one.prepare(plan()).args[0], other.prepare(plan()).args[0])
    output = torch.zeros(5)
    assert not torch.equal(
        one._cotangents.of("output", output), other._cotangents.of("output", output)
    )


def test_the_reference_has_the_same_weights_and_inputs_in_float64():
    eager, reference = subject(), subject(lifting=Lifting())
    for name, weight in reference.parameters().items():
        assert weight.dtype == torch.float64
        assert torch.equal(weight, eager.parameters()[name].double())
    assert torch.equal(reference.prepare(plan()).args[0], eager.prepare(plan()).args[0].double())


def test_the_same_random_numbers_are_drawn_in_the_same_call():
    def noisy(x):
        return x + torch.rand(3)

    made = [subject(example_of(noisy, rows()), INFER) for _ in range(2)]
    first = [call(side, plan(0)).output["output"] for side in made]
    torch.rand(100)
    second = [call(side, plan(1)).output["output"] for side in made]
    assert torch.equal(*first)
    assert torch.equal(*second)


def test_the_phase_decides_on_training_and_gradients():
    assert subject(case=TRAIN).module.training
    assert not subject(case=INFER).module.training
    result = call(subject(case=INFER))
    assert result.gradients == {}
    assert result.layout["output"]["requires_grad"] == "False"
    assert call(subject(case=TRAIN)).layout["output"]["requires_grad"] == "True"


def test_fingerprints_tell_other_shapes_and_names_not_other_values():
    def wider():
        return Example(nn.Linear(8, 5))

    def named():
        return Example(nn.Sequential(nn.Linear(8, 4)))

    def linear():
        return Example(nn.Linear(8, 4))

    prints = {subject(build).fingerprint() for build in (linear, wider, named)}
    assert len(prints) == 3
    assert subject(linear, seed=0).fingerprint() == subject(linear, seed=5).fingerprint()


def test_a_function_has_no_state():
    made = subject(example_of(torch.sin, rows()))
    assert (made.parameters(), made.buffers()) == ({}, {})
    assert made.fingerprint()


# Precision.


def test_autocast_is_on_in_forward_only():
    seen = []

    class Watched(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(("forward", torch.is_autocast_enabled("cpu")))
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            seen.append(("backward", torch.is_autocast_enabled("cpu")))
            return gradient

    def build():
        return Example(lambda x: Watched.apply(x) @ x.t(), inputs=(torch.randn(3, 3),))

    assert call(subject(build, TRAIN_BF16)).layout["output"]["dtype"] == "bfloat16"
    assert seen == [("forward", True), ("backward", False)]


def test_the_reference_of_a_bf16_case_knows_no_autocast():
    result = call(subject(case=TRAIN_BF16, lifting=Lifting()))
    assert result.layout["output"]["dtype"] == "float64"
    assert {g.dtype for g in result.gradients.values()} == {torch.float64}


# Gradients.


def test_gradients_come_from_cotangents_that_do_not_depend_on_the_dtype():
    eager, reference = call(subject()), call(subject(lifting=Lifting()))
    assert eager.gradients.keys() == reference.gradients.keys()
    for name, gradient in eager.gradients.items():
        if name == "first.bias":  # BatchNorm takes it out again: it is zero
            continue
        truth = reference.gradients[name]
        assert float((gradient.double() - truth).norm() / truth.norm()) < 1e-4, name


def test_every_output_that_can_be_differentiated_takes_part():
    def both(x, y):
        return {"a": x * 2, "n": x.argmax(), "b": [y * 3]}

    result = call(subject(example_of(both, rows(), rows())))
    assert {name: bool(g.abs().sum() > 0) for name, g in result.gradients.items()} == {
        "input[0]": True,
        "input[1]": True,
    }


def test_gradients_start_from_nothing_in_each_call():
    made = subject()
    arguments = made.prepare(plan())
    first = made.call(arguments, 0)
    again = made.call(arguments, 0)
    assert torch.equal(first.gradients["second.weight"], again.gradients["second.weight"])
    assert torch.equal(first.gradients["input[0]"], again.gradients["input[0]"])


def test_a_parameter_without_gradient_is_none():
    class Idle(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.idle = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x):
            return self.used(x)

    result = call(subject(lambda: Example(Idle(), inputs=(torch.randn(4, 3),))))
    assert result.gradients["idle.weight"] is None
    assert result.gradients["used.weight"] is not None


def test_only_floating_inputs_are_differentiated():
    build = example_of(lambda x, index, mask: x[index] * mask, rows(), lambda: torch.arange(3),
                       lambda: torch.ones(3, 1, dtype=torch.bool))  # fmt: skip
    assert set(call(subject(build)).gradients) == {"input[0]"}


def test_inputs_are_left_out_where_they_cannot_be_differentiated():
    build = example_of(lambda x: x * 2, rows())
    assert call(subject(build, input_gradients=False)).gradients == {}
    (x,) = subject(build, INFER).prepare(plan()).args
    assert not x.requires_grad


def test_an_output_that_cannot_be_differentiated_is_no_error():
    result = call(subject(example_of(lambda n: n + 1, lambda: torch.arange(3))))
    assert result.gradients == {}


def test_f16_gradients_are_reported_unscaled():
    half = Case("m", "cpu", "train", "f16", "default", "static")
    scaled, plain = call(subject(case=half)), call(subject(lifting=Lifting()))
    for name in ("second.weight", "input[0]"):
        ours, truth = scaled.gradients[name].double(), plain.gradients[name]
        assert float((ours - truth).norm() / truth.norm()) < 0.05, name


# Inputs.


def test_fixed_inputs_are_reversed_in_the_second_call():
    made = subject(example_of(lambda x, scale: x * scale, rows(), lambda: 2), INFER)
    first = made.prepare(plan(0)).args[0].clone()
    second = made.prepare(plan(1)).args[0]
    assert torch.equal(second, first.flip(0))


@pytest.mark.parametrize("setting", [INFER, TRAIN], ids=["infer", "train"])
def test_the_reference_is_given_the_same_fixed_inputs_in_every_call(setting):
    build = example_of(lambda x: x * 2, rows())
    eager, reference = subject(build, setting), subject(build, setting, lifting=Lifting())
    for index in (0, 1):
        ours, truth = (side.prepare(plan(index)).args[0].detach() for side in (eager, reference))
        assert torch.equal(ours.double(), truth), f"call {index + 1}"


def test_fixed_inputs_that_share_memory_stay_as_they_are():
    def build():
        base = torch.arange(12.0).reshape(4, 3)
        return Example(lambda x, view, y: x, inputs=(base, base[1:], torch.arange(3.0)))

    made = subject(build, INFER)
    first = [t.clone() for t in made.prepare(plan(0)).args]
    x, view, y = made.prepare(plan(1)).args
    assert torch.equal(x, first[0])
    assert torch.equal(view, first[1])
    assert x.data_ptr() + 3 * x.element_size() == view.data_ptr()
    assert torch.equal(y, first[2].flip(0))


def test_fixed_inputs_that_overlap_themselves_stay_as_they_are():
    def build():
        return Example(lambda x: x, inputs=(torch.arange(3.0)[:, None].expand(3, 2),))

    made = subject(build, INFER)
    first = made.prepare(plan(0)).args[0].clone()
    assert torch.equal(made.prepare(plan(1)).args[0], first)


def test_made_inputs_are_given_the_sizes_that_they_ask_for():
    def build():
        return Example(
            lambda x, mask: x,
            inputs=lambda batch, length: (torch.zeros(batch, length),),
            kwargs=lambda length: {"mask": torch.ones(length)},
        )

    arguments = subject(build, INFER).prepare(PlannedCall(0, {"batch": 3, "length": 5}))
    assert {name: tuple(t.shape) for name, t in input_tensors(arguments).items()} == {
        "input[0]": (3, 5),
        "input.mask": (5,),
    }


def test_inputs_that_take_any_size_by_name_are_given_all():
    def build():
        return Example(lambda x: x, inputs=lambda **sizes: (torch.zeros(*sizes.values()),))

    (given,) = subject(build, INFER).prepare(PlannedCall(0, {"batch": 3, "length": 5})).args
    assert given.shape == (3, 5)


def test_planned_are_two_calls_at_the_first_sizes_then_every_other_size_and_both_again():
    vary = {"batch": (4, 2, 6), "length": (24, 16)}
    example = Example(abs)
    first = {"batch": 4, "length": 24}
    assert planned_calls(example, vary, "cpu") == [PlannedCall(0, first), PlannedCall(1, first)]
    assert varied_calls(example, vary, INFER) == [
        PlannedCall(2, {"batch": 2, "length": 24}),
        PlannedCall(3, {"batch": 6, "length": 24}),
        PlannedCall(4, {"batch": 4, "length": 16}),
        PlannedCall(5, first, moved=True),
        PlannedCall(6, {"batch": 2, "length": 24}),
    ]
    assert varied_calls(example, {}, INFER) == [PlannedCall(2, {}, moved=True)]


VARIED = Example(lambda x: x, inputs=lambda batch: (torch.ones(batch),))


def calls_of(case, example=VARIED):
    """Sizes of the calls after the first ones, and the numbers of those that overlap."""
    calls = varied_calls(example, {"batch": (4, 2, 6)}, Case.parse(case))
    sizes = {planned.index: planned.sizes["batch"] for planned in calls}
    assert [*sizes] == [planned.index for planned in calls]
    return sizes, {planned.index for planned in calls if planned.overlaps}


def test_where_graphs_are_recorded_there_is_a_call_more_that_replays_one_of_another_size():
    sizes, overlapping = calls_of("m-cuda-infer-f32-reduce_overhead-static")
    assert sizes == {3: 2, 4: 6, 5: 4, 6: 2, 7: 2}  # warm up, record, replay
    assert not overlapping


def test_in_training_the_last_call_has_another_forward_before_its_backward():
    assert calls_of("m-cpu-train-f32-default-static") == ({2: 2, 3: 6, 4: 4, 5: 2, 6: 4}, {6})
    assert calls_of("m-cpu-infer-f32-default-static") == ({2: 2, 3: 6, 4: 4, 5: 2}, set())
    fixed = Example(abs, inputs=(torch.ones(4),))
    assert calls_of("m-cpu-train-f32-default-static", fixed)[1] == set()


def test_what_has_one_number_is_the_same_call_in_all_cases_that_share_a_reference():
    plain, overlapping = calls_of("m-cuda-train-f32-default-static")
    graphs, none = calls_of("m-cuda-train-f32-reduce_overhead-static")
    assert {**plain, **graphs} == plain
    assert plain.keys() - graphs.keys() == overlapping == {max(plain)}
    assert not none


def test_gradients_of_calls_that_overlap_add_up():
    def gradients(planned):
        made = subject(lambda: Example(nn.Linear(3, 2), lambda batch: (torch.randn(batch, 3),)))
        call = made.prepare(planned)
        result = made.call(call, planned.index)
        assert torch.equal(result.output["output"], made.module(call.args[0]))
        return result.gradients["weight"], [one.args[0] for one in made.overlapping(call)]

    alone, (given,) = gradients(plan(4, batch=2))
    both, (same, other) = gradients(replace(plan(4, batch=2), overlaps=True))
    assert torch.equal(given, same)
    assert not torch.equal(given, other)
    cotangent = torch.linalg.lstsq(given.T, alone.T).solution
    assert torch.allclose(both, alone + cotangent.T @ other, atol=1e-5)


@pytest.mark.parametrize(("case", "moves"), [(INFER, True), (TRAIN, False)])
def test_weights_are_moved_where_nothing_else_moves_them(case, moves):
    made = subject(case=case)
    tensors = {**made.parameters(), **made.buffers()}
    before = {name: tensor.detach().clone() for name, tensor in tensors.items()}
    made.prepare(PlannedCall(4, {"batch": 6}, moved=True))
    for name, tensor in tensors.items():
        ratio = tensor.detach() / before[name] if tensor.is_floating_point() else torch.ones(())
        ratio = ratio[torch.isfinite(ratio)]
        if moves and tensor.is_floating_point():
            assert ((ratio > 1.009) & (ratio < 1.031)).all(), name
            assert ratio.numel() < 3 or ratio.unique().numel() > 1, name
        else:
            assert (ratio == 1).all(), name


def test_all_sides_are_moved_alike_and_marks_are_not():
    sides = [subject(case=INFER), subject(case=INFER), subject(case=INFER, lifting=Lifting())]
    for made in sides:
        made.module.register_buffer("mask", torch.tensor([0.5, -1e9]))
        ones = torch.ones(100_000, dtype=made.parameters()["first.weight"].dtype)
        made.module.register_buffer("many", ones)
        made.prepare(PlannedCall(4, {"batch": 6}, moved=True))
        assert made.module.mask.tolist() == [0.5, -1e9]
    eager, compiled, reference = (made.parameters()["first.weight"] for made in sides)
    assert torch.equal(eager, compiled)
    assert torch.allclose(eager.double(), reference, rtol=2e-7)
    eager, compiled, reference = (made.module.many for made in sides)
    assert float(eager.min()) > 1.0  # they were moved, …
    assert torch.equal(eager, compiled)
    assert torch.equal(eager.double(), reference)  # … by the very same factors


def test_given_calls_are_made_as_they_are_and_vary_nothing():
    example = Example(abs, calls=[Call((1,)), Call((2,)), Call((3,))])
    assert [planned.index for planned in planned_calls(example, {"batch": (4, 2)}, "cpu")] == [
        0,
        1,
        2,
    ]
    assert varied_calls(example, {"batch": (4, 2)}, INFER) == []


# What a call did.


def test_actions_are_taken_around_their_call():
    log = []

    class Scaled(nn.Module):
        factor = 1.0

        def forward(self, x):
            log.append("call")
            return x * self.factor

    def build():
        x = torch.ones(2)
        return Example(
            Scaled(),
            calls=[
                Call((x,), before=lambda: log.append("before"), after=lambda: log.append("after")),
                Call((x,), before=lambda module: setattr(module, "factor", 3.0)),
                Call((x,), after=lambda output: output.zero_()),
            ],
        )

    made = subject(build, INFER)
    results = [call(made, plan(index)).output["output"].tolist() for index in range(3)]
    assert results == [[1, 1], [3, 3], [3, 3]]
    assert log == ["before", "call", "after", "call", "call"]


def test_an_output_that_the_caller_changes_shows_in_the_input_that_it_is():
    def build():
        x = torch.ones(2)
        return Example(
            lambda x: x.view(2), calls=[Call((x,), after=lambda y: y.zero_()), Call((x,))]
        )

    made = subject(build, INFER)
    assert [call(made, plan(index)).output["output"].tolist() for index in (0, 1)] == [
        [1, 1],
        [0, 0],
    ]


def test_results_are_copies_that_later_calls_do_not_change():
    def bump(x):
        return x.add_(1)

    made = subject(example_of(bump, lambda: torch.zeros(1)), INFER)
    first = call(made, plan(0))
    second = call(made, plan(1))
    assert (first.output["output"].item(), first.state["input[0]"].item()) == (1, 1)
    assert (second.output["output"].item(), second.state["input[0]"].item()) == (2, 2)


def test_buffers_are_written_down_after_the_call():
    made = subject()
    before = made.buffers()["norm.running_mean"].clone()
    result = call(made)
    assert result.state["buffer norm.num_batches_tracked"] == 1
    assert not torch.equal(result.state["buffer norm.running_mean"], before)


def state_changes(build, case=INFER, calls=1):
    """What the last of some calls changed, by name."""
    made = subject(build, case)
    for index in range(calls):
        result = call(made, plan(index))
    return {
        name: value
        for name, value in result.state.items()
        if name not in result.before or not alike(value, result.before[name])
    }


def alike(one, other):
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


class Remembers(nn.Module):
    """Keeps things that are neither parameters nor buffers."""

    def __init__(self):
        super().__init__()
        self.calls, self.seen, self.last = 0, [], torch.zeros(())
        self._cache = {"sum": 0.0}
        self.mode = "slow"

    def forward(self, x):
        self.calls += 1
        self.seen.append(x.shape[0])
        self.last = x.sum()
        self._cache["sum"] = 2.0
        self.mode = "fast"
        return x * 2


def test_attributes_count_as_state():
    changes = state_changes(lambda: Example(Remembers(), inputs=lambda: (torch.ones(3),)))
    assert changes == {
        "attribute calls": 1,
        "attribute seen[0]": 3,
        "attribute last": torch.tensor(3.0),
        "attribute _cache.sum": 2.0,
        "attribute mode": "fast",
    }


def test_variables_that_a_function_closes_over_count_as_state():
    def build():
        count, log = 0, []

        def counted(x):
            nonlocal count
            count += 1
            log.append(count)
            return x * 2

        return Example(counted, inputs=lambda: (torch.ones(3),))

    assert state_changes(build, calls=2) == {"closure count": 2, "closure log[1]": 2}


def test_the_first_result_counts_as_state():
    class Reuses(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("out", torch.zeros(3))

        def forward(self, x):
            return self.out.copy_(x)

    def build():
        return Example(Reuses(), inputs=lambda: (torch.randn(3),))

    assert "first output" in state_changes(build, calls=2)
    assert "first output" not in state_changes(
        lambda: Example(torch.sin, inputs=lambda: (torch.randn(3),)), calls=2
    )


@pytest.mark.parametrize(("function", "draws"), [(torch.sin, False), (torch.rand_like, True)])
def test_drawing_random_numbers_counts_as_state(function, draws):
    changes = state_changes(lambda: Example(function, inputs=lambda: (torch.randn(3),)))
    assert ("random generator" in changes) == draws
    assert call(subject(example_of(function, rows()), INFER)).draws == draws


def test_containers_in_the_arguments_count_as_state():
    def build():
        return Example(lambda x, log: (log.append(7), x * 2)[1], calls=[Call((torch.ones(2), []))])

    assert state_changes(build) == {"input[1][0]": 7}


def test_what_is_raised_is_written_down():
    result = subject(example_of(lambda x: x @ x, rows(4, 3))).call(
        (made := subject(example_of(lambda x: x @ x, rows(4, 3)))).prepare(plan()), 0
    )
    assert isinstance(result.error, RuntimeError)
    assert made.module is not None


def test_what_backward_raises_is_written_down():
    def overwrites(x):
        y = x.exp()
        z = y.sum()
        y.zero_()
        return z

    made = subject(example_of(overwrites, rows()))
    assert "modified by an inplace operation" in str(made.call(made.prepare(plan()), 0).error)


def test_only_what_is_picked_of_the_output_is_judged():
    def build():
        return Example(
            lambda x: {"logits": x * 2, "cache": object()},
            inputs=(torch.ones(2),),
            output=lambda out: out["logits"],
        )

    assert list(call(subject(build)).output) == ["output"]


@pytest.mark.parametrize(
    ("function", "groups"),
    [
        (lambda x, y: x * 1, set()),
        (lambda x, y: x, {("input[0]", "output")}),
        (lambda x, y: x.view(-1), {("input[0]", "output")}),
        (lambda x, y: (y, x[1:]), {("input[0]", "output[1]"), ("input[1]", "output[0]")}),
        (lambda x, y: (z := x * 2, z[0]), {("output[0]", "output[1]")}),
        (lambda x, y: [x, x], {("input[0]", "output[0]", "output[1]")}),
    ],
)
def test_outputs_that_share_memory_are_grouped(function, groups):
    result = call(subject(example_of(function, rows(), rows()), INFER))
    assert {tuple(sorted(group)) for group in result.aliases} == groups


def test_an_output_that_is_a_parameter_or_buffer_is_grouped_with_it():
    class Weights(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))
            self.register_buffer("table", torch.ones(3))

        def forward(self):
            return self.weight, self.table[1:]

    result = call(subject(lambda: Example(Weights()), INFER))
    assert {tuple(sorted(group)) for group in result.aliases} == {
        ("output[0]", "weight"),
        ("output[1]", "table"),
    }


def test_inputs_that_share_memory_among_themselves_are_no_group():
    def build():
        x = torch.ones(2)
        return Example(lambda x, y: x * 1, inputs=(x, x))

    assert call(subject(build, INFER)).aliases == frozenset()


@pytest.mark.parametrize("phase", ["infer", "train"])
def test_a_lazy_module_is_called_once_before_it_is_looked_at(phase):
    def build():
        return Example(
            nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d()),
            inputs=lambda batch: (torch.randn(batch, 8),),
        )

    model = Model("m", "m", vary={"batch": (6, 3)}, build=build)
    case = Case.parse(f"m-cpu-{phase}-f32-default-static")
    sides = [Subject(model, case, 0) for _ in range(2)]
    planned = PlannedCall(0, {"batch": 6})
    results = [side.call(side.prepare(planned), 0) for side in sides]
    assert all(result.error is None for result in results)
    assert torch.equal(results[0].output["output"], results[1].output["output"])
    assert sides[0].parameters()["0.weight"].shape == (4, 8)
    assert sides[0].buffers()["1.num_batches_tracked"] == (phase == "train")
