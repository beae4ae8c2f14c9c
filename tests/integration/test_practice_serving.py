"""Serving is observed in a session, and threads that disturb each other turn it red."""

import pytest

from tests.integration.conftest import ZOOS

pytestmark = pytest.mark.long

NAMES = ("threads_have_own_buffers", "threads_share_a_buffer")


def case(model):
    return f"{model}-cpu-infer-f32-default-static"


def test_a_buffer_that_threads_share_fails_serving_and_its_twin_passes(compilegate):
    session = compilegate(
        "suites/test_serving.py",
        "suites/test_forward.py",
        "--zoo",
        str(ZOOS / "practised_serving.py"),
        *(word for name in NAMES for word in ("--cases", case(name))),
    )
    assert session.status == 1, session.output
    assert session.outcomes(case("threads_have_own_buffers")) == {"passed"}
    failed = session.failed(case("threads_share_a_buffer"))
    assert [*failed] == ["serving"]
    assert failed["serving"].startswith(
        "4 threads call a compiled module at once: answer of thread "
    )
