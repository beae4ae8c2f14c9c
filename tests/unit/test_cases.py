"""Cases: ids parse and format both ways, and impossible ones are never made."""

import pytest

from compilegate.records.case import (
    AXES,
    Case,
    UnknownNameError,
    computes_in_half,
    possible_cases,
)


@pytest.mark.parametrize(
    "case_id",
    [
        "resnet50-cuda-infer-bf16-default-static",
        "vit_b_16-cpu-train-f32-default-auto-regional",
        "mobilenet.v2_0.5-cuda-train-f16-reduce_overhead-marked",
        "gpt2-cpu-train-f32-default-static-bf16_weights",
        "gpt2-cuda-infer-f32-default-static-regional-f16_weights",
        "gpt2-cpu-infer-f32-max_autotune-auto-int8_weights",
    ],
)
def test_ids_parse_and_format_both_ways(case_id):
    assert Case.parse(case_id).id == case_id


def test_every_possible_case_round_trips():
    cases = [
        case
        for device in ("cpu", "cuda")
        for case in possible_cases("m", device, marked=True, regional=True, weights=AXES["weights"])
    ]
    assert len({case.id for case in cases}) == len(cases)
    assert [Case.parse(case.id) for case in cases] == cases


@pytest.mark.parametrize(
    ("case_id", "message"),
    [
        ("resnet18", "malformed case id"),
        ("resnet18-cpu-infer-f32-default-static-whole", "'whole' is left out"),
        ("resnet18-cpu-infer-f32-default-static-f32_weights", "'f32_weights' is left out"),
        ("resnet18-cpu-infer-f32-default-static-bf_weights", "did you mean 'bf16_weights'"),
        ("resnet18-cpu-infer-f32-default-static-region", "did you mean 'regional'"),
        (
            "resnet18-cpu-infer-f32-default-static-bf16_weights-regional",
            "the scope before the weights",
        ),
        ("resnet18-cpu-infer-bf16-default-static-bf16_weights", "without autocast"),
        ("resnet18-cpu-infer-f32-default-static-f16_weights", "no f16_weights on cpu"),
        ("resnet18-cuda-train-f32-default-static-f16_weights", "f16_weights are not trained"),
        ("resnet18-cpu-train-f32-default-static-int8_weights", "int8_weights are not trained"),
        ("resnet18-cpu-infer-f33-default-static", "did you mean 'f32'"),
        ("resnet18-cpu-infer-f16-default-static", "no f16 on cpu"),
        ("resnet18-cpu-infer-f32-reduce_overhead-static", "no reduce_overhead on cpu"),
        ("resnet18-cpu-infer-f32-default-marked-regional", "have no marked dimensions"),
        ("ResNet-cpu-infer-f32-default-static", "malformed case id"),
    ],
)
def test_wrong_ids_are_refused_with_the_way_out(case_id, message):
    with pytest.raises(ValueError, match=message):
        Case.parse(case_id)


def test_cpu_has_no_half_precision_and_no_cuda_graphs():
    cases = list(possible_cases("m", "cpu", marked=True, regional=True))
    assert {case.precision for case in cases} == {"f32", "bf16"}
    assert {case.mode for case in cases} == {"default", "max_autotune"}


def test_marked_and_regional_only_where_declared():
    cases = list(possible_cases("m", "cuda", marked=False, regional=False))
    assert "marked" not in {case.dynamic for case in cases}
    assert {case.scope for case in cases} == {"whole"}


def test_weights_only_where_declared():
    def found(*weights):
        cases = possible_cases("m", "cuda", marked=True, regional=True, weights=weights)
        return {case.weights for case in cases}

    assert found() == {"f32_weights"}
    assert found("bf16_weights", "int8_weights") == {"f32_weights", "bf16_weights", "int8_weights"}


@pytest.mark.parametrize(
    ("setting", "number_format"),
    [
        ("infer-f32-default-static", "f32"),
        ("infer-f16-default-static-regional", "f16"),
        ("infer-f32-default-static-regional-f16_weights", "f16"),
        ("train-f32-default-auto-bf16_weights", "bf16"),
        ("infer-f32-default-auto-int8_weights", "f32"),
    ],
)
def test_autocast_or_the_weights_decide_the_number_format(setting, number_format):
    case = Case.parse(f"m-cuda-{setting}")
    assert case.computes_in == number_format
    assert case.computes_in_half == (number_format != "f32") == computes_in_half(case.id)


def test_unknown_names_suggest_the_nearest():
    assert "did you mean 'resnet18'" in str(
        UnknownNameError("model", "resnet81", ["resnet18", "x"])
    )
    swapped = UnknownNameError("key", "modle", ["mode", "models", "model"])
    assert "did you mean 'model'?" in str(swapped)
    lost = UnknownNameError("key", "mod", ["mode", "reason", "place"])
    assert "did you mean 'mode'?" in str(lost)
    assert "known: a, b" in str(UnknownNameError("model", "zzzzz", ["a", "b"]))
