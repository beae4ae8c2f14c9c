"""Runs that were recorded on a GPU are judged again as they were judged there.

Their files are kept as they were written: nothing here needs a GPU, and no rule may drift.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from compilegate.runs import files

DATA = Path(__file__).parents[1] / "data"
SUITES = DATA.parents[1] / "suites"

BLOCKS = "cuda-train-bf16-reduce_overhead-auto-regional"
DYNAMIC_BLOCKS = "cuda-train-bf16-reduce_overhead-dynamic-regional"
GRAPHS = "cuda-infer-f16-reduce_overhead-dynamic"
#: What failed on the day, before these runs became the measure of their budgets.
BUDGETED_SINCE = {
    ("test_resnet-cuda-infer-f32-default-static", "memory"): "passed",
    (f"vit_b_16-{BLOCKS}", "recompiles"): "passed",
    ("vit_b_16-cuda-train-f16-reduce_overhead-marked", "recompiles"): "passed",
    ("mlp-cuda-train-f32-default-static", "speedup"): "passed",
    ("t5-cuda-infer-f32-default-static", "forward"): "expected_failure",
    (f"qwen3-{DYNAMIC_BLOCKS}", "recompiles"): "expected_failure",
    (f"lraspp_mobilenet_v3_large-{GRAPHS}", "forward"): "expected_failure",
    ("lraspp_mobilenet_v3_large-cuda-train-f16-default-marked", "forward"): "expected_failure",
    (
        "lraspp_mobilenet_v3_large-cuda-train-bf16-reduce_overhead-auto",
        "forward",
    ): "expected_failure",
    ("test_mambaout-cuda-train-bf16-reduce_overhead-auto", "gradients"): "passed",
    ("test_nfnet-cuda-train-f16-reduce_overhead-static", "gradients"): "passed",
    ("eva02_tiny_patch14_224-cuda-infer-f16-default-static", "forward"): "expected_failure",
    ("t5-cuda-train-f16-reduce_overhead-marked", "forward"): "expected_failure",
    ("t5-cuda-train-f16-reduce_overhead-marked", "gradients"): "expected_failure",
    ("hrnet_w18_small-cuda-infer-f32-default-static", "memory"): "passed",
    ("swin_v2_t-cuda-train-bf16-default-static-regional", "recompiles"): "expected_failure",
    ("maxvit_t-cuda-train-f16-reduce_overhead-static-regional", "recompiles"): "expected_failure",
    ("conv_pool_linear-cuda-infer-bf16-max_autotune-static", "forward"): "expected_failure",
    (f"phi-{GRAPHS}", "cuda_graphs"): "passed",
    (f"bart-{GRAPHS}", "cuda_graphs"): "passed",
    (f"qwen3-{DYNAMIC_BLOCKS}", "cuda_graphs"): "passed",
    **{
        (case, aspect): "expected_failure"
        for case in [
            f"eca_nfnet_l0-{BLOCKS}",
            f"whisper-{DYNAMIC_BLOCKS}",
        ]
        for aspect in [
            "forward",
            "gradients",
            "side_effects",
            "graph_breaks",
            "recompiles",
            "randomness",
            "memory",
            "cuda_graphs",
        ]
    },
}


#: Runs with failures that stay: it was not recorded yet that a dozen processes had taken the memory
#: that three cases lacked.
FAILED = {"h200-train"}


#: Runs that the thresholds of ``suites/budgets/h200.toml`` come from.
MEASURES = (
    *("live-1", "live-2", "live-3", "live-4", "three-gpus", "two-gpus"),
    *("resnet50", "speed", "large", "large-2", "sample", "efficientnet"),
)


def recorded(name):
    return DATA / f"{name}.jsonl.gz"


@pytest.mark.parametrize(
    ("name", "cases"),
    [
        ("h200-three-gpus", 39),
        ("h200-two-gpus", 32),
        ("h200-known-bugs", 38),
        ("h200-live-1", 30),
        ("h200-live-2", 30),
        ("h200-live-3", 30),
        ("h200-live-4", 30),
        ("h200-standard", 238),
        ("h200-standard-2", 10),
        ("h200-standard-3", 34),
        ("h200-standard-4", 6),
        ("h200-standard-5", 4),
        ("h200-train", 62),
        ("h200-large", 10),
        ("h200-large-2", 7),
        ("h200-sample", 35),
        ("h200-efficientnet", 4),
        ("h200-speed", 115),
        ("h200-max-autotune", 2),
        ("h200-slow", 35),
        ("h200-autotuned", 11),
        ("h200-autotuned-2", 2),
        ("h200-autotuned-3", 6),
        ("h200-graphs", 87),
    ],
)
def test_a_recorded_run_is_judged_as_it_was(compilegate, name, cases):
    path = recorded(name)
    live = files.read(path)
    session = compilegate("--replay", str(path), "--save", "again")
    again = session.run("again")
    failed = any(verdict.outcome == "failed" for verdict in again.verdicts.values())
    assert session.status == failed, session.output
    assert failed == (name in FAILED)
    assert len(again.observations) == len(live.observations) == cases
    assert again.verdicts.keys() >= live.verdicts.keys()  # the live session may have been a part
    now = {key: again.verdicts[key].outcome for key in live.verdicts}
    then = {key: verdict.outcome for key, verdict in live.verdicts.items()}
    since = {
        (case, aspect): outcome
        for (case, aspect), outcome in BUDGETED_SINCE.items()
        if then.get((case, aspect)) == "failed"
        and live.observations[case].status != "out_of_memory"
    }
    assert now == then | since


def test_the_thresholds_of_the_h200_are_those_of_its_runs(tmp_path):
    shipped = SUITES / "budgets" / "h200.toml"
    again = tmp_path / "h200.toml"
    again.write_text(shipped.read_text())
    runs = [str(recorded(f"h200-{name}")) for name in MEASURES]
    subprocess.run(
        [sys.executable, "-m", "compilegate.calibration.thresholds", again, *runs],
        cwd=SUITES.parent,
        check=True,
    )
    assert tomllib.loads(again.read_text()) == tomllib.loads(shipped.read_text())


@pytest.mark.parametrize(
    ("one", "other", "verdicts"),
    [
        ("three-gpus", "two-gpus", 90),
        ("live-1", "live-2", 291),
        ("live-1", "live-3", 291),
        ("live-1", "live-4", 291),
        ("live-1", "three-gpus", 119),
        ("live-1", "two-gpus", 262),
    ],
)
def test_what_was_run_twice_was_judged_alike(one, other, verdicts):
    """On several machines, one GPU or more: all but thresholds of speed that were set since."""
    first, second = (files.read(recorded(f"h200-{name}")).verdicts for name in (one, other))
    shared = first.keys() & second.keys()
    assert len(shared) == verdicts
    differing = {key for key in shared if first[key].outcome != second[key].outcome}
    assert differing <= BUDGETED_SINCE.keys()
    assert all(aspect == "speedup" for _, aspect in differing)
