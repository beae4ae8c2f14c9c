"""Caches are observed, and faults of what is looked up or taken from them turn it red."""

import pytest

from tests.integration.conftest import ZOOS

pytestmark = pytest.mark.long

NAMES = (
    "sound_caches",
    "another_key_in_each_process",
    "takes_truncated_graphs",
)


def case(model):
    return f"{model}-cpu-infer-f32-default-static"


def test_faults_of_caches_fail_and_their_twin_passes(compilegate):
    chosen = [word for name in NAMES for word in ("--cases", case(name))]
    session = compilegate(
        "suites/test_caches.py",
        "suites/test_graph_breaks.py",
        "--zoo",
        str(ZOOS / "practised_caches.py"),
        *chosen,
        backend="inductor",
    )
    assert session.status == 1, session.output
    assert session.outcomes(case("sound_caches")) == {"passed"}
    failed = {name: session.failed(case(name)) for name in NAMES[1:]}
    assert all([*found] == ["caches"] for found in failed.values())
    another, truncated = (found["caches"] for found in failed.values())
    assert "call in another process, with the filled cache: lookups" in another
    assert "lookups in the cache: 1 miss, where a hit for 1 graph is required" in another
    assert truncated.startswith("call with truncated graphs in the cache: output (float32)")
