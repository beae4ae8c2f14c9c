"""Regional compilation is observed, and a fault of blocks compiled alone turns it red."""

import pytest

from tests.integration.conftest import ZOOS

pytestmark = pytest.mark.long

NAMES = ("sound_blocks", "without_blocks", "blocks_with_a_guard", "wrong_when_compiled_alone")


def case(model):
    return f"{model}-cpu-infer-f32-default-static"


def test_faults_of_blocks_fail_regional_and_their_twin_passes(compilegate):
    chosen = [word for name in NAMES for word in ("--cases", case(name))]
    session = compilegate(
        "suites/test_regional.py",
        "suites/test_graph_breaks.py",
        "--zoo",
        str(ZOOS / "practised_regional.py"),
        *chosen,
    )
    assert session.status == 1, session.output
    assert session.outcomes(case("sound_blocks")) == {"passed"}
    assert session.outcomes(case("without_blocks")) == {"passed", "skipped"}
    guarded = session.failed(case("blocks_with_a_guard"))
    assert [*guarded] == ["regional"]
    line = "compile() of each block: 3 compilations, 1 needed: 0/0: self.number == 0"
    assert guarded["regional"].startswith(line)
    wrong = session.failed(case("wrong_when_compiled_alone"))
    assert [*wrong] == ["regional"]
    assert wrong["regional"].startswith("compile() of each block: output (float32)")
