"""A wrong answer without a break and a rewrite that breaks fail, and their twins pass."""

import re

import pytest

from tests.integration.conftest import ZOOS

pytestmark = pytest.mark.long

ZOO = ("--zoo", str(ZOOS / "practised_hazards.py"))


def test_planted_faults_of_hazards_fail_and_an_improvement_passes(compilegate):
    session = compilegate(
        "suites/test_hazards.py",
        *ZOO,
        "--models",
        "*_hazard",
        "--models",
        "*_rewrite",
        "--models",
        "*_break",
    )
    assert session.status == 1, session.output
    verdicts = {case.split("-")[0]: v for (case, _), v in session.run().verdicts.items()}
    assert {name: v.outcome for name, v in verdicts.items()} == {
        "sound_hazard": "passed",
        "improved_hazard": "passed",
        "relabelled_hazard": "passed",
        "silently_wrong_hazard": "failed",
        "breaking_rewrite": "failed",
        "unknown_break": "failed",
        "second_break": "failed",
        "broken_twice_hazard": "passed",
    }
    assert "improvements: improved_hazard breaks no graph (known: GB0059)" in (
        verdicts["improved_hazard"].summary
    )
    wrong, rewrite, unknown, second = (
        verdicts[name].summary
        for name in ("silently_wrong_hazard", "breaking_rewrite", "unknown_break", "second_break")
    )
    assert wrong.startswith("silently_wrong_hazard, as written: output")
    assert "fullgraph=True refuses the rewrite" in rewrite
    assert "fullgraph=True refuses it" in unknown
    assert re.search(
        r"with GB0059 at \S+:\d+ in prints_twice, GB0059 at .*, known is GB0059$", second
    )
