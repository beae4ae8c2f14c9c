"""Practices around training: faults in optimizers and in backward turn them red, a twin passes."""

import pytest

from tests.integration.conftest import ZOOS

pytestmark = pytest.mark.long

SUITES = [
    f"suites/test_{name}.py"
    for name in (
        "training_loop",
        "compiled_optimizer",
        "activation_checkpointing",
        "compiled_autograd",
    )
]


def case(model):
    return f"{model}-cpu-train-f32-default-static"


def test_faults_that_only_training_shows_are_found_and_a_sound_twin_passes(compilegate):
    names = ("sound_training", "eager_optimizer", "wrong_optimizer", "wrong_backward")
    cases = [word for name in names for word in ("--cases", case(name))]
    session = compilegate(*SUITES, "--zoo", str(ZOOS / "practised_training.py"), *cases)
    assert session.status == 1, session.output
    assert session.outcomes(case("sound_training")) == {"passed"}, session.output
    assert session.failed(case("eager_optimizer"))["compiled_optimizer"].startswith(
        "graphs of the compiled step, SGD: optimizer.step: no graph, where a graph is required"
    )
    optimizer = session.failed(case("wrong_optimizer"))
    assert [*optimizer] == ["training_loop", "compiled_optimizer"]
    assert optimizer["training_loop"].startswith("SGD with momentum, ")
    assert optimizer["compiled_optimizer"].startswith("AdamW, ")
    backward = session.failed(case("wrong_backward"))
    assert [*backward] == ["activation_checkpointing", "compiled_autograd"]
    assert "gradient" in backward["activation_checkpointing"]
    assert backward["compiled_autograd"].startswith("SGD with momentum, ")
