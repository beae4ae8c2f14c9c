"""Runs that were recorded on a GPU are judged again as they were judged there.

Their files are kept as they were written: nothing here needs a GPU, and no rule may drift.
"""

from pathlib import Path

import pytest

from reports import store

DATA = Path(__file__).parents[1] / "data"

#: What was judged otherwise on the day, before these runs became the measure of their budgets.
BUDGETED_SINCE = {
    ("test_resnet-cuda-infer-f32-default-static", "memory"): "passed",
    ("vit_b_16-cuda-train-bf16-reduce_overhead-auto-regional", "recompiles"): "passed",
    ("vit_b_16-cuda-train-f16-reduce_overhead-marked", "recompiles"): "passed",
    ("mlp-cuda-train-f32-default-static", "speedup"): "passed",
    ("t5-cuda-infer-f32-default-static", "forward"): "expected_failure",
}


def recorded(name):
    return DATA / f"{name}.jsonl.gz"


@pytest.mark.parametrize(
    ("name", "cases"),
    [("h200-three-gpus", 39), ("h200-two-gpus", 32), ("h200-one-gpu", 7)],
)
def test_a_recorded_run_is_judged_as_it_was(compilegate, name, cases):
    path = recorded(name)
    live = store.read(path)
    session = compilegate("--replay", str(path), "--save", "again")
    assert session.status == 0, session.output
    again = session.run("again")
    assert len(again.observations) == len(live.observations) == cases
    assert again.verdicts.keys() == live.verdicts.keys()
    differing = {
        key: verdict.outcome
        for key, verdict in again.verdicts.items()
        if verdict.outcome != live.verdicts[key].outcome
    }
    assert differing == {key: o for key, o in BUDGETED_SINCE.items() if key in live.verdicts}


def test_what_was_run_twice_was_judged_alike():
    """On two GPUs at once and on one alone: every verdict on the same cases."""
    two, one = (store.read(recorded(f"h200-{n}")) for n in ("two-gpus", "one-gpu"))
    shared = two.verdicts.keys() & one.verdicts.keys()
    assert len(shared) == 69
    assert all(two.verdicts[key].outcome == one.verdicts[key].outcome for key in shared)
