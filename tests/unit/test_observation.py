"""Records go to one line of JSON and come back as they were, NaN and infinities included."""

import json
import math

import pytest

from compilegate.records.encoding import dumps
from compilegate.records.performance import Memory
from compilegate.records.request import Request
from compilegate.records.run import RECORD_TYPES, Closing, encode
from compilegate.runs.reader import decode
from tests.unit.making import (
    make_break,
    make_call,
    make_capture,
    make_checked,
    make_compilation,
    make_difference,
    make_environment,
    make_error,
    make_failed_observation,
    make_header,
    make_observation,
    make_pair,
    make_timing,
    make_verdict,
)

RECORDS = {
    "header": make_header(),
    "observation": make_observation(
        timing=make_timing(),
        memory=Memory(eager_peak_bytes=10, compiled_peak_bytes=20),
        spent_s={"compile": 1.5},
        output="a\nb ✓",
        calls=(
            make_call(
                sizes={"batch": 4},
                numbers={"input[0] dim 0": 4, "input[1]": 0.5},
                outputs=make_checked(make_error(), differences=[make_difference()]),
            ),
        ),
        capture=make_capture(
            breaks=(make_break(), make_break(gb_id="", reason="another")),
            compilations=(make_compilation(1, "a guard failed"),),
            limits=("limit",),
            fallbacks=(make_break("why", ""),),
            caches={"fxgraph_cache_hit": 1},
            cudagraph_skips=("cpu",),
        ),
    ),
    "failed observation": make_failed_observation("crashed", stage="compile", kind="SIGSEGV"),
    "verdict": make_verdict("failed", details=("one", "two")),
    "pair": make_pair(3, compiled=1.25),
    "pair that failed": make_pair(candidate=None, failure="the candidate died of SIGSEGV"),
    "closing": Closing(cases=3, wall_s=1.25),
}


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS.keys())
def test_every_record_is_read_back_unchanged(record):
    assert decode(encode(record)) == record


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS.keys())
def test_a_record_is_one_line_of_strict_json_that_names_its_kind(record):
    line = encode(record)
    assert "\n" not in line
    content = json.loads(line, parse_constant=pytest.fail)
    assert RECORD_TYPES[content["record"]] is type(record)


def test_a_record_is_ascii_so_that_no_crash_cuts_a_character_in_two():
    assert encode(make_observation(output="✓ µs ×")).isascii()


def test_numbers_that_json_lacks_are_read_back():
    error = make_error(
        scale=math.inf, eager_max=-math.inf, compiled_max=math.nan, worst_values=(math.nan, 1.0, 0)
    )
    observation = make_observation(calls=(make_call(outputs=make_checked(error)),))
    (back,) = decode(encode(observation)).calls[0].outputs.errors
    assert back.scale == math.inf
    assert back.eager_max == -math.inf
    assert math.isnan(back.compiled_max)
    assert math.isnan(back.worst_values[0])
    assert back.worst_values[1:] == (1.0, 0.0)


def test_numbers_that_json_lacks_are_read_back_in_mappings():
    numbers = {"input[0]": math.inf, "input[1]": math.nan}
    back = decode(encode(make_observation(calls=(make_call(numbers=numbers),)))).calls[0].numbers
    assert back["input[0]"] == math.inf
    assert math.isnan(back["input[1]"])


def test_texts_that_look_like_numbers_stay_texts():
    difference = make_difference(eager="NaN", compiled="1e5")
    observation = make_observation(calls=(make_call(state=make_checked(differences=[difference])),))
    assert decode(encode(observation)) == observation


def test_fields_that_are_none_are_left_out():
    content = json.loads(encode(make_observation(capture=None)))
    assert not {"failure", "capture", "timing", "memory"} & content.keys()


def test_floats_keep_six_digits_and_whole_ones_all():
    assert dumps([1 / 3, 123456789.0, 1e-30]) == "[0.333333,123456789.0,1e-30]"


@pytest.mark.parametrize("value", [True, False, None, 0, -3, "a\nb", "✓"])
def test_plain_values_stay_unchanged(value):
    assert json.loads(dumps(value)) == value
    assert type(json.loads(dumps(value))) is type(value)


def test_a_request_is_plain_data():
    request = json.loads(dumps(Request(case="a", wants=("capture",))))
    lists = {name: tuple(request[name]) for name in ("wants", "gpus", "processors")}
    assert Request(**request | lists) == Request(case="a", wants=("capture",))


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", 1j, Closing])
def test_a_value_that_a_record_cannot_store_is_refused(value):
    with pytest.raises(TypeError, match="cannot be stored in a record"):
        dumps({"deep": [value]})


def test_environment_finds_its_devices_by_kind():
    environment = make_environment()
    assert environment.device("cpu").name == "AMD EPYC 9655"
    assert environment.device("cuda") is None
