"""Generation is observed, and faults that only a cache shows turn it red."""

import pytest

from tests.integration.conftest import ZOOS

pytestmark = pytest.mark.long

#: Each fault, and the beginning of the line that names it.
FAULTS = {
    "one_place_off": "first 2 tokens, static cache: logits of token 2 (float32)",
    "ignores_padding": "prompt of 13 tokens, static cache: logits of the prompt (float32)",
    "keeps_a_stale_row": "another text after reset(), static cache: logits of token 8 (float32)",
    "compiles_each_token": "first 2 tokens, static cache: 2 compilations, 1 needed",
    "grows_wrongly": "first 2 tokens, dynamic cache: logits of token 1 (float32)",
}
NAMES = ("sound_generation", "silent_about_generation", *FAULTS)


def case(model):
    return f"{model}-cpu-infer-f32-default-auto"


def test_faults_of_a_cache_fail_generation_and_their_twin_passes(compilegate):
    chosen = [word for name in NAMES for word in ("--cases", case(name))]
    session = compilegate(
        "suites/test_generation.py",
        "suites/test_graph_breaks.py",
        "--backend",
        "aot_eager",
        "--zoo",
        str(ZOOS / "practised_generation.py"),
        *chosen,
    )
    assert session.status == 1, session.output
    assert session.outcomes(case("sound_generation")) == {"passed"}
    assert session.outcomes(case("silent_about_generation")) == {"passed", "skipped"}
    failed = {name: session.failed(case(name)) for name in FAULTS}
    assert {name: [*found] for name, found in failed.items()} == {n: ["generation"] for n in FAULTS}
    for name, line in FAULTS.items():
        assert failed[name]["generation"].startswith(line), failed[name]
