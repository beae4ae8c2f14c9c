"""Work that compiling adds in the candidate alone is found, and the function named."""

import re
import sys

import pytest

from tests.integration.conftest import ZOOS, run_to_its_end

pytestmark = pytest.mark.long

SUITES = ("suites/test_compile_work.py", "suites/test_forward.py", "suites/test_upgrade.py")
STEADY, GROWN = (f"{name}-cpu-train-f32-default-auto" for name in ("steady", "compiles_more"))
#: The function that ``compiles_more`` makes the compiler call.
NAMED = "versions.fuse_nodes"
ACCEPTED = """
[[expected_failure]]
model = "compiles_more"
aspect = "compile_work"
reason = "we need it"
"""


@pytest.fixture
def baseline(compilegate):
    """A run of two processes that differ from the candidate's in nothing but the work."""
    session = compilegate(
        *(*SUITES, "--zoo", str(ZOOS / "versions.py"), "--cases", STEADY, "--cases", GROWN),
        *("--save", "old"),
        env={"COMPILEGATE_SIDE": "baseline"},
    )
    assert session.status == 0, session.output
    assert session.run("old").verdicts[STEADY, "compile_work"].outcome == "skipped"
    return session


def share(text):
    return float(re.search(r"compile work ([+-][\d.]+)%", text)[1])


def test_added_work_is_found_and_two_processes_alike_are_not(compilegate, baseline, write):
    again = ("--zoo", str(ZOOS / "versions.py"), "--cases", STEADY, "--cases", GROWN)
    session = compilegate(*SUITES, *again, "--baseline-run", "old", "--save", "new")
    assert session.status == 1, session.output
    verdicts = session.run("new").verdicts
    steady, grown = (verdicts[case, "compile_work"] for case in (STEADY, GROWN))
    assert (steady.outcome, grown.outcome) == ("passed", "failed")
    assert abs(share(steady.summary)) < 0.5
    assert 4 < share(grown.summary) < 7
    assert re.search(rf"most: {NAMED} (at least )?\+\d", grown.summary), grown.summary
    assert verdicts[STEADY, "upgrade"].outcome == "passed"
    assert verdicts[GROWN, "upgrade"].summary.startswith("regressed: compile_work: compile work +")
    assert "do not upgrade: 1 regressed" in session.output

    compare = [sys.executable, "-m", "compilegate", "compare", "--runs", str(session.runs)]
    compared = run_to_its_end([*compare, "old", "new"], None, session.runs)
    assert compared.status == 1, compared.output
    assert NAMED in compared.output
    back = run_to_its_end([*compare, "new", "old"], None, session.runs)
    assert "1 improved" in back.output, back.output

    accepting = ("--budgets", write("accepted.toml", ACCEPTED))
    accepted = compilegate(*SUITES, "--replay", "new", "--baseline-run", "old", *accepting)
    assert accepted.status == 0, accepted.output
    assert "1 with an accepted cost" in accepted.output
