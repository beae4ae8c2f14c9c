"""Dynamic strategies are observed, and a fault of one size turns them red."""

import pytest

from tests.integration.conftest import ZOOS

pytestmark = pytest.mark.long

FAULTS = {
    "specialises_where_marked": "maybe_mark_dynamic, then batch=4: 1 more compilation",
    "wrong_at_size_one": "maybe_mark_dynamic, then batch=1: output (float32)",
    "counts_padding": "pad batch=4 to batch=6: output (float32)",
    "compiles_each_bucket_again": "pad batch=4 to batch=6: 1 more compilation",
}
SOUND = ("sound_sizes", "sound_texts")


def case(model):
    return f"{model}-cpu-infer-f32-default-auto"


def test_faults_of_one_size_fail_and_their_twins_pass(compilegate):
    chosen = [word for name in (*SOUND, *FAULTS) for word in ("--cases", case(name))]
    session = compilegate(
        "suites/test_dynamic_strategies.py",
        "suites/test_forward.py",
        "--zoo",
        str(ZOOS / "practised_dynamic.py"),
        *chosen,
    )
    assert session.status == 1, session.output
    for name in SOUND:
        assert session.outcomes(case(name)) == {"passed"}, name
    for name, line in FAULTS.items():
        # Probing calls have zeros, and a batch of one.
        probed = ["forward"] if name in ("counts_padding", "wrong_at_size_one") else []
        assert {*session.failed(case(name))} == {*probed, "dynamic_strategies"}, name
        details = session.verdicts(case(name))["dynamic_strategies"].details
        assert any(found.startswith(line) for found in details), details
