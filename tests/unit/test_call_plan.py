"""Tests of planned calls and of the arguments that they get."""

from dataclasses import replace

import pytest
import torch
import torch._inductor.config
from torch import nn

from compilegate.observe.model.calls import (
    PlannedCall,
    input_tensors,
    planned_calls,
    sizes_of,
    varied_calls,
)
from compilegate.observe.model.float64 import Lifting
from compilegate.records.case import Case
from compilegate.zoo.example import Call, Example
from tests.unit.subjects import (
    INFER,
    TRAIN,
    example_of,
    plan,
    rows,
    subject,
)

AUTO = Case.parse("m-cpu-infer-f32-default-auto")


def test_the_rows_of_fixed_inputs_are_reversed_in_the_second_call():
    made = subject(example_of(lambda x, scale: x * scale, rows(), lambda: 2), INFER)
    first = made.prepare(plan(0)).args[0].clone()
    second = made.prepare(plan(1)).args[0]
    assert torch.equal(second, first.flip(0))


@pytest.mark.parametrize("setting", [INFER, TRAIN], ids=["infer", "train"])
def test_the_reference_gets_the_same_fixed_inputs_in_every_call(setting):
    build = example_of(lambda x: x * 2, rows())
    eager, reference = subject(build, setting), subject(build, setting, lifting=Lifting())
    for index in (0, 1):
        ours, truth = (side.prepare(plan(index)).args[0].detach() for side in (eager, reference))
        assert torch.equal(ours.double(), truth), f"call {index + 1}"


def test_fixed_inputs_that_share_memory_keep_their_rows():
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


def test_fixed_inputs_that_overlap_themselves_keep_their_rows():
    def build():
        return Example(lambda x: x, inputs=(torch.arange(3.0)[:, None].expand(3, 2),))

    made = subject(build, INFER)
    first = made.prepare(plan(0)).args[0].clone()
    assert torch.equal(made.prepare(plan(1)).args[0], first)


def test_an_inputs_function_gets_the_sizes_that_it_names():
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


def test_an_inputs_function_with_kwargs_gets_all_sizes():
    def build():
        return Example(lambda x: x, inputs=lambda **sizes: (torch.zeros(*sizes.values()),))

    (given,) = subject(build, INFER).prepare(PlannedCall(0, {"batch": 3, "length": 5})).args
    assert given.shape == (3, 5)


def test_the_plan_has_two_calls_at_the_first_sizes_then_every_other_size_and_both_again():
    vary = {"batch": (4, 2, 6), "length": (24, 16)}
    example = Example(abs)
    first = {"batch": 4, "length": 24}
    assert planned_calls(example, vary, "cpu") == [PlannedCall(0, first), PlannedCall(1, first)]
    assert varied_calls(example, vary, AUTO) == [
        PlannedCall(2, {"batch": 2, "length": 24}),
        PlannedCall(3, {"batch": 6, "length": 24}),
        PlannedCall(4, {"batch": 4, "length": 16}),
        PlannedCall(5, {"batch": 2, "length": 16}),  # the least batch and the greatest length
        PlannedCall(6, first, moved=True),
        PlannedCall(7, {"batch": 2, "length": 24}),
    ]
    assert varied_calls(example, {}, INFER) == [PlannedCall(2, {}, moved=True)]


@pytest.mark.parametrize(
    ("case", "vary"),
    [
        (INFER, {"batch": (4, 2), "length": (24, 16)}),  # compiles for each pair of sizes
        (AUTO, {"batch": (4, 2), "length": (24, 2)}),
        (AUTO, {"batch": (4, 2), "length": (24,)}),
    ],
)
def test_sizes_that_differ_together_are_distinct_and_of_cases_with_dynamic_sizes(case, vary):
    sizes = [call.sizes for call in varied_calls(Example(abs), vary, case)]
    assert all(len([n for n in vary if one[n] != vary[n][0]]) < 2 for one in sizes)


@pytest.mark.parametrize(
    ("by_session", "config", "with_grad", "moves"),
    [
        (False, {}, False, True),
        (False, {"inductor.freezing": True}, False, False),
        (True, {}, False, False),
        (True, {"inductor.freezing": False}, False, True),
        (True, {}, True, True),  # Inductor freezes nothing in grad mode
    ],
)
def test_frozen_weights_do_not_move(by_session, config, with_grad, moves):
    example = Example(abs, config=config, with_grad=with_grad)
    with torch._inductor.config.patch(freezing=by_session):
        calls = varied_calls(example, {"batch": (4, 2)}, INFER)
    assert [call.moved for call in calls] == [False, moves, False]


def test_static_compiles_for_the_first_and_the_last_size_of_each_dimension():
    vary = {"batch": (4, 2, 6), "length": (24,), "width": (8, 4)}
    assert sizes_of(AUTO, vary) == vary
    static = {"batch": (4, 6), "length": (24,), "width": (8, 4)}
    assert sizes_of(INFER, vary) == static


VARIED = Example(lambda x: x, inputs=lambda batch: (torch.ones(batch),))


def calls_of(case, example=VARIED):
    """Return the sizes of the later calls and the numbers of overlapping calls."""
    calls = varied_calls(example, {"batch": (4, 2, 6)}, Case.parse(case))
    sizes = {planned.index: planned.sizes["batch"] for planned in calls}
    assert [*sizes] == [planned.index for planned in calls]
    return sizes, {planned.index for planned in calls if planned.overlaps}


def test_with_cuda_graphs_one_more_call_replays_a_graph_of_another_size():
    sizes, overlapping = calls_of("m-cuda-infer-f32-reduce_overhead-static")
    assert sizes == {3: 6, 4: 4, 5: 6, 6: 6}  # warm up, record, replay
    assert not overlapping


def test_in_training_another_forward_runs_before_the_last_backward():
    assert calls_of("m-cpu-train-f32-default-static") == ({2: 6, 3: 4, 4: 6, 5: 4}, {5})
    assert calls_of("m-cpu-train-f32-default-auto") == ({2: 2, 3: 6, 4: 4, 5: 2, 6: 4}, {6})
    assert calls_of("m-cpu-infer-f32-default-static") == ({2: 6, 3: 4, 4: 6}, set())
    fixed = Example(abs, inputs=(torch.ones(4),))
    assert calls_of("m-cpu-train-f32-default-static", fixed)[1] == set()


def test_a_call_number_means_the_same_call_in_all_cases_that_share_a_reference():
    plain, overlapping = calls_of("m-cuda-train-f32-default-static")
    graphs, none = calls_of("m-cuda-train-f32-reduce_overhead-static")
    assert {**plain, **graphs} == plain
    assert plain.keys() - graphs.keys() == overlapping == {max(plain)}
    assert not none


def test_gradients_of_overlapping_calls_add_up():
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


def test_the_other_forward_has_the_same_sizes_also_where_a_recipe_draws_them():
    def packed(batch):
        return (torch.randn(int(torch.randint(1, 1000, (batch,)).sum()), 3),)

    made = subject(lambda: Example(nn.Linear(3, 2), packed))
    call = made.prepare(replace(plan(4, batch=2), overlaps=True))
    one, other = (each.args[0].shape for each in made.overlapping(call))
    assert one == other


@pytest.mark.parametrize(("case", "moves"), [(INFER, True), (TRAIN, False)])
def test_weights_change_only_where_nothing_else_changes_them(case, moves):
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


def test_weights_change_equally_on_all_sides_and_mask_values_stay():
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


def test_listed_calls_are_made_unchanged_and_vary_nothing():
    example = Example(abs, calls=[Call((1,)), Call((2,)), Call((3,))])
    assert [planned.index for planned in planned_calls(example, {"batch": (4, 2)}, "cpu")] == [
        0,
        1,
        2,
    ]
    assert varied_calls(example, {"batch": (4, 2)}, INFER) == []
