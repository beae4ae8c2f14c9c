"""Backends, stances and options are observed, and a fault of one of them turns it red."""

import re

import pytest

from tests.integration.conftest import ZOOS

pytestmark = pytest.mark.long

ZOO = ("--zoo", str(ZOOS / "practised_backends.py"))
SUITES = ("suites/test_backends.py", "suites/test_forward.py")


def case(model):
    return f"{model}-cpu-infer-f32-default-static"


def choice(*models):
    return [word for model in models for word in ("--cases", case(model))]


def test_faults_of_a_backend_and_of_stances_fail_and_their_twin_passes(compilegate):
    chosen = choice(
        "sound_backends",
        "scaling_backend",
        "deaf_to_force_eager",
        "deaf_to_fail_on_recompile",
        "deaf_to_reset",
    )
    session = compilegate(*SUITES, *ZOO, *chosen)
    assert session.status == 1, session.output
    sound = session.verdicts(case("sound_backends"))
    assert {verdict.outcome for verdict in sound.values()} == {"passed"}
    assert 'backend="lacking" (install the library of this backend)' in sound["backends"].summary
    wrong = session.failed(case("scaling_backend"))
    assert [*wrong] == ["backends"]
    assert wrong["backends"].startswith('backend="scaling": output (float32): root mean square')
    deaf = session.failed(case("deaf_to_force_eager"))
    stance, forward = 'set_stance("force_eager")', "the model's own forward: no run in Python"
    assert [*deaf] == ["backends"]
    assert deaf["backends"].startswith(f"{stance}: {forward}, where a run in Python is required")
    deaf = session.failed(case("deaf_to_fail_on_recompile"))
    assert [*deaf] == ["backends"]
    stance = 'set_stance("fail_on_recompile") at another size'
    assert deaf["backends"].startswith(f"{stance}: raised: no error, where an error that names")
    deaf = session.failed(case("deaf_to_reset"))
    assert [*deaf] == ["backends"]
    compiled, reset = 'torch.compile(backend="', "captured: torch.compiler.reset() did not reset"
    assert re.match(rf"{re.escape(compiled)}\w+\"\): {re.escape(reset)}", deaf["backends"])


def test_a_fault_under_one_option_fails_and_its_twin_passes(compilegate):
    chosen = choice("sound_with_options", "wrong_without_epilogue_fusion")
    session = compilegate("suites/test_backends.py", *ZOO, *chosen, backend="inductor")
    assert session.status == 1, session.output
    assert session.outcomes(case("sound_with_options")) == {"passed"}
    wrong = session.failed(case("wrong_without_epilogue_fusion"))
    assert [*wrong] == ["backends"]
    assert wrong["backends"].startswith(
        "options={'epilogue_fusion': False, 'shape_padding': False}"
    )
