"""The tensors of a whole observation: every call and group is examined."""

import dataclasses
import itertools
import math

import pytest

from compilegate.judging.finding import SHOWN, shorten
from compilegate.judging.tensors import examine, untreated
from tests.unit.making import (
    make_call,
    make_checked,
    make_difference,
    make_error,
    make_observation,
)

HALF_ID = "resnet18-cpu-infer-bf16-default-static"
GPU_ID = "resnet18-cuda-train-f32-default-static"


def observation_of(*errors, **changed):
    return make_observation(calls=(make_call(outputs=make_checked(*errors)),), **changed)


def test_every_call_is_examined_and_named_with_its_sizes():
    wrong = make_error(compiled_rms=1e-3, compiled_max=1e-2)
    calls = (
        make_call(),
        make_call(sizes={"batch": 4, "length": 16}, outputs=make_checked(wrong)),
    )
    (text,) = examine(make_observation(calls=calls), "outputs").complaints
    assert text.startswith("call 2 (batch=4, length=16): output (float32): ")


@pytest.mark.parametrize(("has_reference", "end"), [(True, "reference 1"), (False, "no reference")])
def test_a_value_is_called_reference_only_where_there_is_one(has_reference, end):
    wrong = make_error(compiled_rms=1.0, compiled_max=1.0, has_reference=has_reference)
    (text,) = examine(observation_of(wrong), "outputs").complaints
    assert text.endswith(f"compiled 1.5, eager 1, {end}")


@pytest.mark.parametrize("reason", ["it then raised IndexError: tuple index out of range", ""])
def test_a_failure_says_why_eagers_noise_may_be_larger(reason):
    wrong = make_error(compiled_rms=1e-3, compiled_max=1e-2)
    seen = examine(observation_of(wrong, unsampled=(reason,) if reason else ()), "outputs")
    found = seen.finding
    assert found.complaints == seen.complaints
    further = [line for line in found.details if line not in found.complaints]
    text = "eager's noise may be larger: eager was to make a call again with nudges, but "
    assert further == ([text + reason] if reason else [])


def test_differences_are_complaints_and_come_first():
    checked = make_checked(
        make_error(compiled_rms=1.0, compiled_max=1.0), differences=[make_difference()]
    )
    seen = examine(make_observation(calls=(make_call(gradients=checked),)), "gradients")
    assert seen.complaints[0] == (
        "call 1: output[0]: stride differs: eager (2, 1), compiled (1, 4)"
    )
    assert len(seen.complaints) == 2


@pytest.mark.parametrize(
    ("eager", "compiled", "padded"),
    [
        ("(10, 1)", "(12, 1)", True),
        ("(10, 1)", "(16, 1)", True),
        ("(-, 30522, 1)", "(-, 30528, 1)", True),
        ("(3906816, 30522, 1)", "(3907584, 30528, 1)", True),
        ("(3906816, 30522, 1)", "(3906816, 30528, 1)", False),
        ("(12, 1)", "(16, 1)", True),
        ("(16, 1)", "(24, 1)", False),
        ("(10, 1)", "(1, 12)", False),
        ("(2, 1)", "(1, 4)", False),
        ("(12, 1)", "empty", False),
    ],
)
def test_a_stride_of_padded_rows_is_named(eager, compiled, padded):
    checked = make_checked(differences=[make_difference("output", "stride", eager, compiled)])
    (text,) = examine(make_observation(calls=(make_call(outputs=checked),)), "outputs").complaints
    assert ("stride differs by padding: " in text) is padded


def test_raising_differently_reads_like_a_sentence():
    raised = make_difference("call", "raises", "ValueError: no", "nothing")
    checked = make_checked(differences=[raised])
    (text,) = examine(make_observation(calls=(make_call(outputs=checked),)), "outputs").complaints
    assert text == "call 1: eager raises ValueError: no, compiled raises nothing"


SCALES = itertools.count(1)
OUT, FAR_OUT = 1.3 * 1.75e-3, 1.6 * 1.75e-3


@pytest.mark.parametrize(
    ("case", "errors", "sizes", "complaints"),
    [
        pytest.param(HALF_ID, (OUT, 0, 0), (8, 8, 4), 0, id="once, by little"),
        pytest.param(HALF_ID, (OUT, OUT, 0), (8, 8, 4), 2, id="twice"),
        pytest.param(HALF_ID, (FAR_OUT, 0, 0), (8, 8, 4), 1, id="once, by more"),
        pytest.param(HALF_ID, (0, 0, OUT), (8, 8, 4), 1, id="at sizes of which there is one call"),
        pytest.param(HALF_ID, (OUT, 0, OUT), (8, 8, 4), 2, id="at other sizes, too"),
        pytest.param(HALF_ID, (math.nan, 0, 0), (8, 8, 4), 1, id="NaN"),
    ],
)
def test_a_gradient_in_half_precision_may_be_out_of_bounds_once(case, errors, sizes, complaints):
    calls = [
        make_call(sizes={"batch": size}, gradients=make_checked(of_noise(rms)))
        for rms, size in zip(errors, sizes, strict=True)
    ]
    seen = examine(make_observation(case=case, calls=tuple(calls)), "gradients")
    assert len(seen.complaints) == complaints


@pytest.mark.parametrize(
    ("noise", "factors", "complaints"),
    [
        pytest.param(1e-3, (1.8, 0, 0), 0, id="once, by less than twice"),
        pytest.param(1e-3, (0, 0, 1.8), 0, id="once, before another backward"),
        pytest.param(1e-3, (1.8, 0, 1.8), 2, id="twice"),
        pytest.param(1e-3, (2.2, 0, 0), 1, id="once, by more"),
        pytest.param(1e-5, (1.8, 0, 0), 1, id="without a jump"),
    ],
)
def test_a_gradient_in_single_precision_may_jump_out_of_bounds_once(noise, factors, complaints):
    seen = [make_checked(of_noise(factor * 3 * noise, noise=noise)) for factor in factors]
    calls = [make_call(gradients=one, overlaps=one is seen[-1]) for one in seen]
    found = examine(make_observation(case=GPU_ID, calls=tuple(calls)), "gradients")
    assert len(found.complaints) == complaints


@pytest.mark.parametrize(("rms", "complaints"), [((OUT, 0), 0), ((OUT, OUT), 2), ((FAR_OUT, 0), 1)])
def test_a_buffer_in_half_precision_may_be_out_of_bounds_once(rms, complaints):
    for name, found in (("buffer mean", complaints), ("input[0]", sum(one > 0 for one in rms))):
        calls = [make_call(state=make_checked(of_noise(one, name))) for one in rms]
        seen = examine(make_observation(case=HALF_ID, calls=tuple(calls)), "state")
        assert len(seen.complaints) == found


@pytest.mark.parametrize(("factor", "complaints"), [(8.0, 0), (12.0, 1), (24.0, 1)])
def test_gradients_next_to_extreme_numbers_share_few_roundings(factor, complaints):
    wrong = make_checked(of_noise(factor * 1e-5, noise=1e-5))
    for extreme in (True, False):
        probe = make_call(gradients=wrong, probe="large numbers", extreme=extreme)
        seen = examine(make_observation(case=GPU_ID, probes=(probe,)), "gradients")
        assert len(seen.complaints) == (complaints if extreme else 1)


@pytest.mark.parametrize(("overlaps", "complaints"), [(False, 0), (True, 1)])
def test_a_gradient_of_an_overlapped_call_may_not_be_out_of_bounds(overlaps, complaints):
    first, last = (make_call(gradients=make_checked(of_noise(rms))) for rms in (0, OUT))
    calls = (first, dataclasses.replace(last, overlaps=overlaps))
    seen = examine(make_observation(case=HALF_ID, calls=calls), "gradients")
    assert len(seen.complaints) == complaints


def of_noise(rms, name="gradient weight", noise=1e-3):
    """Return the error of a tensor of other numbers than any other has."""
    of_eager = {"scale": next(SCALES)} | {
        "eager_rms": noise,
        "eager_max": 4 * noise,
        "eager_quantile": 2.6 * noise,
    }
    return make_error(name, **of_eager, compiled_rms=rms, compiled_max=4 * noise)


def test_an_output_in_half_precision_may_not_be_out_of_bounds():
    calls = [make_call(outputs=make_checked(of_noise(rms, "output"))) for rms in (OUT, 0)]
    seen = examine(make_observation(case=HALF_ID, calls=tuple(calls)), "outputs")
    assert len(seen.complaints) == 1


def test_groups_are_examined_separately():
    wrong = make_checked(make_error(compiled_rms=1.0, compiled_max=1.0))
    observation = make_observation(calls=(make_call(gradients=wrong),))
    assert not examine(observation, "outputs").complaints
    assert examine(observation, "gradients").complaints
    assert not examine(observation, "state").complaints


def test_the_worst_error_is_that_of_tensors_that_are_not_blind():
    seen = examine(
        observation_of(make_error(compiled_rms=2e-7), make_error(eager_rms=0.5, compiled_rms=0.5)),
        "outputs",
    )
    assert seen.worst == 2e-7


def test_tensors_are_counted_over_all_calls():
    assert examine(make_observation(), "state").tensors == 6


def test_an_observation_without_calls_shows_nothing():
    seen = examine(make_observation(calls=()), "outputs")
    assert (seen.complaints, seen.tensors, seen.floating, seen.worst) == ((), 0, 0, 0.0)


@pytest.mark.parametrize("count", [0, 1, SHOWN])
def test_few_lines_are_all_shown(count):
    lines = [str(i) for i in range(count)]
    assert shorten(lines) == tuple(lines)


def test_many_lines_are_counted():
    short = shorten([str(i) for i in range(SHOWN + 3)])
    assert len(short) == SHOWN + 1
    assert short[-1] == "… and 3 more"


# Signal.


def test_figures_are_shown_where_the_treatment_is_off():
    outputs = make_checked(make_error("output", scale=1e-9), make_error("output[1]", scale=0.0))
    seen = make_observation(calls=(make_call(outputs=outputs),), signal="off")
    text = "; signal off: 2 outputs of scale 0 to 1e-09, 1 zero"
    assert untreated(seen, "outputs") == text
    assert untreated(make_observation(signal="treated"), "outputs") == ""
