"""compilegate judges runs that were recorded on H200 GPUs exactly as it judged them there.

The files in ``tests/data`` are whole and unedited. Replaying them needs no GPU, so a change to a
rule, a tolerance or a shipped budget that alters any recorded verdict fails here.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from compilegate.judging.aspects import ASPECTS
from compilegate.layout import SHIPPED_BUDGETS
from compilegate.records.case import model_of
from compilegate.runs import files

CHECKOUT = Path(__file__).parents[2]
DATA = CHECKOUT / "tests" / "data"

#: The number of cases in each recorded run.
RECORDED = {
    "autotuned": 11,
    "autotuned-2": 2,
    "claims": 8,
    "efficientnet": 4,
    "known-bugs": 38,
    "large-2": 7,
    "live-1": 30,
    "live-2": 30,
    "live-4": 30,
    "max-autotune": 2,
    "resnet50": 3,
    "standard-4": 6,
    "standard-5": 4,
    "two-gpus": 32,
}

LRASPP = "lraspp_mobilenet_v3_large-cuda-train"
#: Verdicts that failed when they were recorded, and their outcome under today's shipped budgets.
BUDGETED_SINCE = {
    ("mlp-cuda-train-f32-default-static", "speedup"): "passed",
    ("conv_pool_linear-cuda-infer-bf16-max_autotune-static", "forward"): "expected_failure",
    (f"{LRASPP}-f16-default-marked", "forward"): "expected_failure",
    (f"{LRASPP}-bf16-reduce_overhead-auto", "forward"): "expected_failure",
}

#: Healthy runs with speed, memory and compile time. The shipped thresholds allow what they took.
MEASURED = ("efficientnet", "large-2", "live-1", "live-2", "live-4", "two-gpus")


def recorded(name):
    return DATA / f"h200-{name}.jsonl.gz"


def outcomes(verdicts):
    return {key: verdict.outcome for key, verdict in verdicts.items()}


def make_thresholds(file, *names):
    """Run ``compilegate thresholds``, and return the entries that it writes, by case."""
    words = [sys.executable, "-m", "compilegate", "thresholds", file]
    subprocess.run([*words, *map(recorded, names)], cwd=CHECKOUT, check=True)
    return entries_of(file)


def entries_of(file):
    return {entry["case"]: entry for entry in tomllib.loads(file.read_text())["budget"]}


def test_the_recorded_runs_cover_every_suite():
    assert {path.name for path in DATA.iterdir()} == {recorded(name).name for name in RECORDED}
    judged = {aspect for name in RECORDED for _, aspect in files.read(recorded(name)).verdicts}
    assert judged == {name for name, aspect in ASPECTS.items() if not aspect.needs}


@pytest.mark.parametrize(("name", "cases"), RECORDED.items())
def test_a_recorded_run_is_judged_as_it_was(compilegate, name, cases):
    live = files.read(recorded(name))
    session = compilegate("--replay", str(recorded(name)), "--save", "again")
    again = session.run("again")
    assert session.status == (2 if live.missing else 0), session.output
    assert len(again.observations) == len(live.observations) == cases
    assert again.verdicts.keys() >= live.verdicts.keys()  # some recorded sessions ran a few suites
    then = outcomes(live.verdicts)
    since = {key: BUDGETED_SINCE[key] for key in BUDGETED_SINCE if then.get(key) == "failed"}
    assert {key: again.verdicts[key].outcome for key in then} == then | since


@pytest.mark.parametrize(
    ("one", "other", "verdicts"),
    [
        ("live-1", "live-2", 291),
        ("live-1", "live-4", 291),
        ("live-2", "live-4", 291),
        ("live-1", "two-gpus", 262),
    ],
)
def test_two_sessions_judge_the_same_cases_alike(one, other, verdicts):
    """On several machines, with one GPU or two: only a speedup without a threshold differs."""
    first, second = (outcomes(files.read(recorded(name)).verdicts) for name in (one, other))
    shared = first.keys() & second.keys()
    assert len(shared) == verdicts
    differing = {key for key in shared if first[key] != second[key]}
    assert differing <= {key for key in BUDGETED_SINCE if key[1] == "speedup"}


@pytest.mark.parametrize(("baseline", "candidate"), [("live-1", "live-2"), ("live-2", "live-1")])
def test_no_upgrade_verdict_fails_between_two_runs_of_one_pytorch(compilegate, baseline, candidate):
    replay = ("--replay", str(recorded(candidate)), "--baseline-run", str(recorded(baseline)))
    session = compilegate(*replay, "--save", "again")
    assert session.status == 0, session.output
    verdicts = session.run("again").verdicts
    upgrades = [verdict for (_, aspect), verdict in verdicts.items() if aspect == "upgrade"]
    assert len(upgrades) == RECORDED[candidate]
    assert {verdict.outcome for verdict in upgrades} == {"passed"}


def test_the_shipped_thresholds_allow_what_recorded_runs_took(tmp_path):
    """More runs can only lower a speedup's threshold and raise the others."""
    shipped = entries_of(SHIPPED_BUDGETS / "h200.toml")
    made = make_thresholds(tmp_path / "h200.toml", *MEASURED)
    assert len(made) >= 43
    for case, entry in made.items():
        allowed = shipped[case]
        assert allowed["hardware"] == entry["hardware"] == "NVIDIA H200"
        assert allowed["min_speedup"] <= entry["min_speedup"]
        assert allowed["max_compile_s"] >= entry["max_compile_s"]
        assert allowed.get("max_memory_ratio", 0) >= entry.get("max_memory_ratio", 0)
        assert allowed.get("max_call_overhead_us", 0) >= entry.get("max_call_overhead_us", 0)


def test_thresholds_of_one_run_hold_on_it_and_on_another(compilegate, tmp_path):
    """The margins cover what differs between two machines of one kind."""
    mine = tmp_path / "mine.toml"
    made = make_thresholds(mine, "live-1")
    assert made.keys() == files.read(recorded("live-1")).observations.keys()
    budgets = ("--budgets", str(mine))
    session = compilegate("--replay", str(recorded("live-1")), *budgets, "--save", "one")
    assert session.status == 0, session.output
    judged = session.run("one").verdicts
    assert {judged[case, "speedup"].outcome for case in made} == {"passed"}
    other = compilegate("--replay", str(recorded("live-2")), *budgets, "--save", "other")
    assert other.status == 0, other.output  # a few speedups may be inconclusive


def test_known_bugs_give_no_thresholds(tmp_path):
    made = make_thresholds(tmp_path / "mine.toml", "known-bugs", "two-gpus")
    assert made.keys() == files.read(recorded("two-gpus")).observations.keys()
    assert not any(model_of(case).startswith("gh") for case in made)
