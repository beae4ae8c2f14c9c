"""Outputs that only compiled code gets wrong fail ``forward``, and nothing else."""

import pytest


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("scale_is_off", "output (float32): root mean square error is 0.01 of its scale"),
        ("element_is_off", "worst at [2, 1]"),
        ("nan_appears", "nonfinite differs: eager"),
        ("shape_is_off", "output: shape differs: eager (3,), compiled (1, 3)"),
        ("dtype_is_off", "output: dtype differs: eager float32, compiled float64"),
        ("stride_is_off", "output: stride differs: eager (3, 1), compiled (1, 5)"),
        ("structure_is_off", "output: structure differs: eager Tensor, compiled tuple"),
        ("view_is_lost", "output: aliasing differs: eager input[0] = output"),
    ],
)
def test_a_wrong_output_fails_forward_only(faulty, model, expected):
    failed = faulty.failed(model)
    assert failed.keys() == {"forward"}
    assert expected in failed["forward"]
    assert failed["forward"].startswith("call 1: output")


@pytest.mark.parametrize("phase", ["infer", "train"])
def test_the_sound_twin_passes_everything(faulty, phase):
    assert faulty.outcomes(f"sound-cpu-{phase}-f32-default-static") == {"passed"}


def test_a_failure_shows_values_place_and_the_command_to_reproduce_it(faulty):
    case = "element_is_off-cpu-infer-f32-default-static"
    message = faulty.message(f"test_outputs_match_eager[{case}]")
    assert "worst at [2, 1]: compiled -" in message
    assert "allowed" in message
    assert f"-m compilegate observe {case} --zoo" in message
    assert "--backend aot_eager" in message
    assert "judging.py" not in message


def test_outputs_that_are_all_zero_are_inconclusive_not_passed(faulty):
    verdicts = faulty.verdicts("only_zeros")
    assert verdicts.pop("forward").outcome == "inconclusive"
    assert {verdict.outcome for verdict in verdicts.values()} == {"passed"}
