"""Practices are observed on the cases that ask for them, and a fault in one turns it red."""

import pytest

from tests.integration.conftest import ZOOS

pytestmark = pytest.mark.long

ZOO = ("--zoo", str(ZOOS / "practised.py"))


def case(model):
    return f"{model}-cpu-infer-f32-default-static"


def test_what_loading_loses_or_train_changes_fails_checkpoints_and_twins_pass(compilegate):
    names = (
        "sound_checkpoints",
        "loses_loaded_bias",
        "scales_in_training",
        "scales_in_eager_training",
        "sound_counter",
        "loses_count",
        "loses_dtype",
    )
    chosen = [word for name in names for word in ("--models", name)]
    session = compilegate("suites/test_checkpoints.py", "suites/test_forward.py", *ZOO, *chosen)
    assert session.status == 1, session.output
    assert session.outcomes(case("sound_checkpoints")) == {"passed"}
    assert session.outcomes(case("sound_counter")) == {"passed"}
    assert "buffer count: elements differ" in session.failed(case("loses_count"))["checkpoints"]
    failed = session.failed(case("loses_loaded_bias"))
    assert [*failed] == ["checkpoints"]
    assert failed["checkpoints"].startswith("load_state_dict of the original module: output")
    assert session.outcomes(case("scales_in_training")) == {"passed"}
    switched = session.failed(case("scales_in_eager_training"))
    assert switched["checkpoints"].startswith("train() and eval() of the compiled module: output")
    failed = session.failed(case("loses_dtype"))
    saved = "state_dict of the compiled and of the original module"
    assert failed["checkpoints"].startswith(f"{saved}: weight first.weight: dtype differs")
    # Each case that is not asked for the practice has no such verdict.
    assert sum(aspect == "checkpoints" for _, aspect in session.run().verdicts) == 7
