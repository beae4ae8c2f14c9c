"""``-n 2``: xdist's workers share one run file, and the cases of a model share a worker."""

import re

from tests.integration.conftest import BREAKS, FORWARD, ZOOS

MODELS = {"breaks", "sound", "generalizes"}


def test_one_run_holds_everything_and_a_model_stays_on_one_worker(compilegate, write):
    chosen = [word for model in MODELS for word in ("--models", model)]
    mine = write("mine.toml", "")
    session = compilegate(
        *(FORWARD, BREAKS, "--zoo", str(ZOOS / "faulty.py"), *chosen, "-m", "cpu"),
        *("-n", "2", "-v", "--budgets", mine, "--budgets-update"),
    )
    assert session.status == 1, session.output
    assert session.counts == {"failed": 2, "passed": 10}
    placed = set(re.findall(r"^\[(gw\d)\] .*\[(\w+)-cpu-\S+\]", session.output, re.MULTILINE))
    assert {model for _, model in placed} == MODELS
    assert len(placed) == len(MODELS), placed
    assert {worker for worker, _ in placed} == {"gw0", "gw1"}

    run = session.run()
    assert {case.split("-")[0] for case in run.header.planned} == MODELS
    assert sorted(session.observed) == sorted(run.header.planned)
    assert len(run.verdicts) == 12
    assert run.closing is not None
    with open(mine) as file:
        assert 'reason = "Call to `torch._dynamo.graph_break()`"' in file.read()
