"""Export is observed with AOTInductor, and a program that is wrong turns it red."""

from dataclasses import replace

import pytest

from compilegate.judging.practices import judge_steps
from tests.integration.conftest import ZOOS

pytestmark = pytest.mark.long

SOUND, WRONG = (
    f"{model}-cpu-infer-f32-default-static" for model in ("sound_export", "wrong_when_exported")
)
LOADED, PACKAGED = "torch.export.load", "torch._inductor.aoti_load_package"


def complaints(observation):
    """Return which tensors each step complains about."""
    practice = observation.practices["export"]
    found = {}
    for step in practice.steps:
        alone = replace(observation, practices={"export": replace(practice, steps=(step,))})
        lines = judge_steps(alone, "export").details
        found[step.name] = {line.removeprefix(f"{step.name}: ").split(" (")[0] for line in lines}
    return found


def test_wrong_programs_fail_export_and_their_sound_twin_passes(compilegate):
    zoo = ("--zoo", str(ZOOS / "practised_export.py"))
    chosen = ("--cases", SOUND, "--cases", WRONG)
    session = compilegate("suites/test_export.py", *zoo, *chosen, backend="inductor")
    assert session.status == 1, session.output
    sound = session.verdicts(SOUND)["export"]
    assert sound.outcome == "passed", sound
    assert "not taken: torch._inductor" not in sound.summary
    assert session.failed(WRONG)["export"].startswith(f"{LOADED}, batch=")
    found = complaints(session.run().observations[WRONG])
    lost_bias, first_size, frozen = "output.y", "output.rest[0]", "output.rest[1]"
    assert found[f"{LOADED}, batch=6"] == {lost_bias, frozen, "buffer calls"}
    assert found[f"{LOADED}, batch=7"] == {lost_bias, first_size, frozen, "buffer calls"}
    assert found[f"{PACKAGED}, batch=6"] == {lost_bias, frozen}
    assert found[f"{PACKAGED}, batch=7"] == {lost_bias, first_size, frozen}
    assert not found["the module after torch.export"]
