"""Practices are observed on the cases that ask for them, and a fault in one turns it red."""

from tests.integration.conftest import ZOOS

ZOO = ("--zoo", str(ZOOS / "practised.py"))


def case(model):
    return f"{model}-cpu-infer-f32-default-static"


def test_a_bias_that_loading_loses_fails_checkpoints_and_its_twin_passes(compilegate):
    chosen = [w for name in ("sound_checkpoints", "loses_loaded_bias") for w in ("--models", name)]
    session = compilegate("suites/test_checkpoints.py", "suites/test_forward.py", *ZOO, *chosen)
    assert session.status == 1, session.output
    assert session.outcomes(case("sound_checkpoints")) == {"passed"}
    failed = session.failed(case("loses_loaded_bias"))
    assert [*failed] == ["checkpoints"]
    assert failed["checkpoints"].startswith("load_state_dict of the original module: output")
    # Each case that is not asked for the practice has no such verdict.
    assert sum(aspect == "checkpoints" for _, aspect in session.run().verdicts) == 2
