"""The axis weights: a fault that shows in one number format alone fails there, and nowhere else."""

import importlib.util

import pytest

from tests.integration.conftest import ZOOS

pytestmark = pytest.mark.long

SOUND, FAULTY = "sound_when_cast-cpu", "loses_precision_when_cast-cpu"
CASES = (
    f"{SOUND}-infer-f32-default-static-bf16_weights",
    f"{SOUND}-train-f32-default-static-bf16_weights",
    f"{SOUND}-infer-f32-default-static-int8_weights",
    f"{FAULTY}-infer-f32-default-static",
    f"{FAULTY}-infer-f32-default-static-bf16_weights",
)


def test_a_loss_of_precision_fails_with_the_weights_that_it_needs(compilegate):
    chosen = [word for case in CASES for word in ("--cases", case)]
    session = compilegate(
        "suites/test_forward.py",
        "suites/test_gradients.py",
        "--zoo",
        str(ZOOS / "cast_weights.py"),
        *chosen,
    )
    assert session.status == 1, session.output
    served, trained, quantised, in_f32, in_bf16 = CASES
    for case in (served, trained, in_f32):
        assert session.outcomes(case) == {"passed"}, case
    has_torchao = importlib.util.find_spec("torchao") is not None
    assert session.outcomes(quantised) == {"passed" if has_torchao else "skipped"}
    failed = session.failed(in_bf16)
    assert [*failed] == ["forward"]
    assert "output (bfloat16): root mean square error is" in failed["forward"]
