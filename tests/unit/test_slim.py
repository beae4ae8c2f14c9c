"""Slim records have the fields of their records, all but those that are declared as left out."""

from dataclasses import MISSING, fields

import msgspec
import pytest

from compilegate.records.call import CallFacts, Checked, TensorError
from compilegate.records.observation import Observation
from compilegate.records.verdict import Verdict
from compilegate.runs.slim import (
    LEFT_OUT,
    SlimCall,
    SlimChecked,
    SlimObservation,
    SlimTensor,
    SlimVerdict,
    slim_observation,
    slim_verdict,
)
from tests.unit.making import make_call, make_checked, make_error, make_observation, make_verdict

SLIM = {
    TensorError: SlimTensor,
    Checked: SlimChecked,
    CallFacts: SlimCall,
    Observation: SlimObservation,
    Verdict: SlimVerdict,
}


@pytest.mark.parametrize("record", SLIM)
def test_a_slim_record_has_every_field_that_is_not_left_out(record):
    names = [field.name for field in fields(record)]
    assert set(names) >= LEFT_OUT[record]
    slim = msgspec.structs.fields(SLIM[record])
    assert {field.name for field in slim} == set(names) - LEFT_OUT[record]


@pytest.mark.parametrize("record", SLIM)
def test_a_slim_record_requires_what_its_record_requires(record):
    required = {
        field.name
        for field in fields(record)
        if field.default is MISSING and field.default_factory is MISSING
    }
    slim = {field.name for field in msgspec.structs.fields(SLIM[record]) if field.required}
    assert slim == required - LEFT_OUT[record]


def test_an_observation_keeps_its_values_and_its_nested_records_are_slim():
    observation = make_observation(calls=(make_call(outputs=make_checked(make_error("output"))),))
    slim = slim_observation(observation)
    assert (slim.case, slim.capture) == (observation.case, observation.capture)
    (call,) = slim.calls
    (tensor,) = call.outputs.errors
    assert isinstance(call, SlimCall)
    assert isinstance(tensor, SlimTensor)
    assert tensor.compiled_rms == observation.calls[0].outputs.errors[0].compiled_rms
    assert not hasattr(tensor, "worst_values")


def test_a_verdict_keeps_its_summary_and_leaves_out_its_details():
    slim = slim_verdict(make_verdict(summary="so", details=("line",)))
    assert slim.summary == "so"
    assert not hasattr(slim, "details")
