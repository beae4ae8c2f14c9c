"""A practice that ends the process of a case fails alone: what came before it is judged."""

import pytest

from tests.integration.conftest import ZOOS


def case(model):
    return f"{model}-cpu-infer-f32-default-static"


@pytest.mark.long
def test_a_practice_that_ends_the_process_fails_alone_and_its_twin_passes(compilegate):
    dies, lives = case("dies_in_a_thread"), case("threads_have_own_buffers")
    session = compilegate(
        "suites/test_serving.py",
        "suites/test_forward.py",
        "--zoo",
        str(ZOOS / "practised_serving.py"),
        *("--cases", dies, "--cases", lives),
    )
    assert session.status == 1, session.output
    assert session.outcomes(lives) == {"passed"}
    assert session.outcomes(dies) == {"passed", "failed"}
    assert session.failed(dies) == {
        "serving": "crashed in stage 'serving': the process died of SIGSEGV"
    }
    assert "1 culprit in 1 case:\nserving:\n" in session.output
