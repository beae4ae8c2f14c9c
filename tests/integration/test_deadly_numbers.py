"""Eager may die of a NaN in a probing call. The case is then judged without extreme numbers."""

import sys

import pytest

from compilegate.runs import files
from tests.integration.conftest import ZOOS

CASE = "{}-cpu-infer-f32-default-static"
MODELS = ("in_eager_too", "wrong", "only_in_compiled_code", "after_compiled_code")
CALL = "NaN in the first row"
CRASH = {
    "forward": f"crashed in stage 'probe': the process died of SIGSEGV, in the probing call: {CALL}"
}


def test_a_crash_of_compiled_code_names_the_probing_call(compilegate):
    zoo, case = str(ZOOS / "deadly_numbers.py"), CASE.format("of_an_empty_batch")
    session = compilegate("suites/test_forward.py", "--zoo", zoo, "--cases", case)
    assert session.failed(case) == {
        "forward": "crashed in stage 'probe': the process died of SIGFPE, "
        "in the probing call: batch of zero"
    }


@pytest.mark.long
def test_a_case_fails_unless_eager_alone_dies_of_extreme_numbers(compilegate):
    zoo = ["--zoo", str(ZOOS / "deadly_numbers.py")]
    cases = [word for name in MODELS for word in ("--cases", CASE.format(name))]
    session = compilegate("suites/test_forward.py", *zoo, *cases)
    assert session.outcomes(CASE.format("in_eager_too")) == {"passed"}, session.output
    assert "root mean square" in session.failed(CASE.format("wrong"))["forward"]
    assert session.failed(CASE.format("only_in_compiled_code")) == CRASH
    assert session.failed(CASE.format("after_compiled_code")) == CRASH
    observed = session.run().observations
    why = "eager dies of SIGSEGV in the call with NaN in the first row"
    for name in ("in_eager_too", "wrong"):
        left_out = observed[CASE.format(name)].unprobed
        assert f"infinities in two rows: {why}" in left_out
        assert not any(line.startswith("numbers 32 times") for line in left_out)


@pytest.mark.long
def test_both_sides_of_a_comparison_leave_them_out(compilegate):
    zoo, case = str(ZOOS / "deadly_numbers.py"), CASE.format("in_eager_too")
    session = compilegate(
        *("suites/test_forward.py", "suites/test_speedup.py", "--zoo", zoo, "--cases", case),
        *("--baseline-python", sys.executable),
    )
    seen = [files.read(path).observations[case] for path in session.runs.glob("*.jsonl")]
    assert len(seen) == 2, session.output
    for one in seen:
        assert one.status == "completed"
        assert any(line.startswith("NaN in the first row: eager dies") for line in one.unprobed)
