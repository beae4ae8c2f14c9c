"""Rules of numbers and side effects: the faulty fails by name, the blind is inconclusive."""

import dataclasses

import pytest

from compilegate.judging.budget import Budget
from compilegate.suites import test_forward, test_gradients, test_side_effects
from tests.unit.making import (
    make_call,
    make_checked,
    make_difference,
    make_error,
    make_observation,
)
from tests.unit.rules.common import STRICT, once

WRONG = make_error("output.logits", compiled_rms=1e-3, compiled_max=1e-2)
BLIND = make_error(eager_rms=0.5, eager_max=2.0, compiled_rms=0.5, compiled_max=2.0)


def test_forward_names_the_output_and_the_call():
    finding = test_forward.rule(once(sizes={"batch": 4}, outputs=make_checked(WRONG)), Budget())
    assert finding.outcome == "failed"
    assert finding.summary.startswith("call 1 (batch=4): output.logits (float32): ")
    assert finding.details == (finding.summary,)
    assert not finding.proposal


def test_forward_fails_for_differences():
    checked = make_checked(make_error(), differences=[make_difference(what="dtype")])
    finding = test_forward.rule(once(outputs=checked), Budget())
    assert finding.outcome == "failed"
    assert "output[0]: dtype differs" in finding.summary


def test_forward_fails_where_nothing_was_returned():
    finding = test_forward.rule(once(outputs=make_checked()), Budget())
    assert finding.outcome == "failed"
    assert "returned no tensor" in finding.summary


def test_forward_fails_where_nothing_is_looked_into():
    opaque = dataclasses.replace(make_checked(tensors=1), opaque=("output (Holder)",))
    finding = test_forward.rule(once(outputs=opaque), Budget())
    assert finding.outcome == "failed"
    assert finding.summary.startswith("no output can be compared: output (Holder);")
    seen = dataclasses.replace(opaque, tensors=2)
    assert test_forward.rule(once(outputs=seen), Budget()).outcome == "passed"


def test_forward_reports_an_output_without_a_finite_value():
    nan = make_checked(make_error("output[1]", scale=0.0, numel=0))
    finding = test_forward.rule(once(outputs=nan), Budget())
    assert (finding.outcome, finding.summary) == (
        "inconclusive",
        "blind: output[1] is nowhere finite",
    )


def test_forward_fails_where_nothing_was_called():
    assert test_forward.rule(make_observation(calls=()), Budget()).outcome == "failed"


def test_forward_passes_integers_alone():
    assert test_forward.rule(once(outputs=make_checked(tensors=2)), Budget()).outcome == "passed"


def test_forward_is_inconclusive_where_every_output_is_blind():
    finding = test_forward.rule(once(outputs=make_checked(BLIND)), Budget())
    assert finding.outcome == "inconclusive"
    assert "blind" in finding.summary


def test_forward_is_inconclusive_where_an_output_is_blind():
    finding = test_forward.rule(once(outputs=make_checked(BLIND, make_error())), Budget())
    assert finding.outcome == "inconclusive"
    assert "blind: output" in finding.summary


def test_a_blind_output_does_not_hide_a_difference():
    checked = make_checked(BLIND, differences=[make_difference()])
    assert test_forward.rule(once(outputs=checked), Budget()).outcome == "failed"


def test_gradients_name_the_parameter():
    wrong = dataclasses.replace(WRONG, name="gradient fc.weight")
    finding = test_gradients.rule(once(gradients=make_checked(wrong)), Budget())
    assert finding.outcome == "failed"
    assert "gradient fc.weight (float32)" in finding.summary


@pytest.mark.parametrize("group", [make_checked(), make_checked(tensors=4)])
def test_gradients_are_skipped_where_eager_has_none(group):
    finding = test_gradients.rule(once(gradients=group), Budget())
    assert finding.outcome == "skipped"
    assert "nothing to differentiate" in finding.summary


def test_gradients_are_inconclusive_where_all_are_blind():
    zero = make_error(scale=0.0, eager_rms=0.0, eager_max=0.0, compiled_rms=0.0, compiled_max=0.0)
    finding = test_gradients.rule(once(gradients=make_checked(zero)), Budget())
    assert finding.outcome == "inconclusive"


def test_halved_gradients_fail():
    halved = make_error("gradient w", compiled_rms=0.5, compiled_max=2.0, compiled_projection=-0.5)
    assert test_gradients.rule(once(gradients=make_checked(halved)), Budget()).outcome == "failed"


def test_side_effects_name_the_input():
    lost = make_difference("buffer bn.running_mean", "value", "1.0 at [0]", "0.0 there")
    finding = test_side_effects.rule(
        once(state=make_checked(tensors=2, differences=[lost])), Budget()
    )
    assert finding.outcome == "failed"
    assert "buffer bn.running_mean: value differs" in finding.summary


def test_side_effects_pass_where_there_is_no_state():
    assert test_side_effects.rule(once(state=make_checked()), Budget()).outcome == "passed"


def test_many_complaints_are_shortened():
    wrong = [dataclasses.replace(WRONG, name=f"output[{i}]") for i in range(20)]
    finding = test_forward.rule(once(outputs=make_checked(*wrong)), Budget())
    assert finding.details[-1] == "… and 14 more"


def test_gradients_that_always_overflow_show_nothing():
    call = make_call(overflowed=True, gradients=make_checked())
    finding = test_gradients.rule(make_observation(calls=(call, call)), STRICT)
    assert finding.outcome == "inconclusive"
    assert "overflow in all 2 calls, in eager too" in finding.summary


def test_a_probing_call_is_no_proof_where_all_calls_overflow():
    call = make_call(overflowed=True, gradients=make_checked())
    probe = make_call(gradients=make_checked(make_error("gradient w")))
    finding = test_gradients.rule(make_observation(calls=(call, call), probes=(probe,)), STRICT)
    assert finding.outcome == "inconclusive"


def test_gradients_that_overflow_now_and_then_are_judged_by_the_other_calls():
    good = make_call(gradients=make_checked(make_error("gradient w")))
    call = make_call(overflowed=True, gradients=make_checked())
    finding = test_gradients.rule(make_observation(calls=(call, good)), STRICT)
    assert finding.outcome == "passed"
    assert "1 of which overflow as in eager" in finding.summary


def test_each_wrong_tensor_is_shown_before_others_are_shown_again():
    wrong = [make_error(f"output[{i}]", compiled_rms=1e-2, compiled_max=1e-1) for i in range(3)]
    calls = [make_call(outputs=make_checked(*wrong)) for _ in range(3)]
    finding = test_forward.rule(make_observation(calls=calls), Budget())
    assert [line.partition(": ")[2][:9] for line in finding.details[:4]] == [
        "output[0]",
        "output[1]",
        "output[2]",
        "output[0]",
    ]
