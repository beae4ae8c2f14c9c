"""``--cases GLOB``: only cases whose id matches; an id in full is taken from any tier."""

import pytest

from tests.integration.conftest import FORWARD

COLLECT = (FORWARD, "-m", "cpu", "--collect-only", "-q")


def test_globs_select_within_the_tier_and_full_ids_beyond_it(compilegate):
    beyond = "mlp-cpu-train-bf16-default-dynamic"
    session = compilegate(*COLLECT, "--cases", "matvec-*-infer-*", "--cases", beyond)
    assert session.status == 0, session.output
    ids = [line.partition("[")[2].rstrip("]") for line in session.output.splitlines()]
    assert {case.split("-")[0] for case in ids if case} == {"matvec", "mlp"}
    assert beyond in ids
    assert all("-infer-" in case for case in ids if case.startswith("matvec"))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("matvek-cpu-infer-f32-default-static", "did you mean 'matvec'?"),
        ("matvec-cpu-infer-f32-default-statik", "did you mean 'static'?"),
        ("matvec-cpu-infer-f16-default-static", "there is no f16 on cpu"),
        ("matvec-cpu", "malformed case id 'matvec-cpu'"),
        ("matvec-cuda-*", "matches --cases 'matvec-cuda-*'"),
    ],
)
def test_a_case_that_does_not_exist_is_refused(compilegate, given, expected):
    session = compilegate("-m", "cpu", "--cases", given)
    assert session.status == 4
    assert expected in session.output
