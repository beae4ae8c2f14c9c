"""compilegate judges runs that were recorded on H200 GPUs exactly as it judged them there.

The files in ``tests/data`` are whole and unedited. Replaying them needs no GPU, so a change to a
rule, a tolerance or a shipped budget that alters any recorded verdict fails here.
"""

import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from compilegate.judging import budgets_toml
from compilegate.judging.aspects import ASPECTS
from compilegate.judging.budgets import Machine
from compilegate.layout import SHIPPED_BUDGETS
from compilegate.records.case import Case
from compilegate.runs import files
from compilegate.runs.archive import Archive
from compilegate.suites import test_speedup
from compilegate.upgrade import paired_costs

CHECKOUT = Path(__file__).parents[2]
DATA = CHECKOUT / "tests" / "data"

#: The number of cases in each recorded run.
RECORDED = {
    "autotuned": 11,
    "autotuned-2": 2,
    "claims": 8,
    "known-bugs": 38,
    "large-2": 7,
    "live-1": 30,
    "live-2": 30,
    "live-4": 30,
    "max-autotune": 2,
    "resnet50": 3,
    "six-workers": 30,
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

#: The case of a run whose verdicts passed when they were recorded, although eager raised in all
#: calls: nothing was compared.
FAILED_SINCE = {"known-bugs": "gh191308_int8_matmul-cuda-infer-f32-default-static"}

#: Both sides of a session whose environments differ in Triton alone, on an H100.
TRITON = tuple(DATA / f"h100-triton{side}.jsonl.gz" for side in (".baseline", ""))

#: Healthy runs of the same small models, with speed and memory.
LIVE = ("live-1", "live-2", "live-4", "two-gpus")


def recorded(name):
    return DATA / f"h200-{name}.jsonl.gz"


def outcomes(verdicts):
    return {key: verdict.outcome for key, verdict in verdicts.items()}


def make_thresholds(*words):
    """Run ``compilegate thresholds``, and return the file that it prints."""
    command = [sys.executable, "-m", "compilegate", "thresholds", *words]
    return subprocess.run(
        command, cwd=CHECKOUT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def test_the_recorded_runs_cover_every_suite():
    names = {recorded(name).name for name in RECORDED} | {path.name for path in TRITON}
    assert {path.name for path in DATA.iterdir()} == names
    judged = {aspect for name in RECORDED for _, aspect in files.read(recorded(name)).verdicts}
    # Recorded sessions did not count the work of compiling, and observed no practice.
    left_out = {n for n, a in ASPECTS.items() if a.needs or a.sampled or a.practice}
    assert judged == ASPECTS.keys() - left_out


@pytest.mark.parametrize(("name", "cases"), RECORDED.items())
def test_a_recorded_run_is_judged_as_it_was(compilegate, name, cases):
    live = files.read(recorded(name))
    session = compilegate("--replay", str(recorded(name)), "--save", "again")
    again = session.run("again")
    status = 2 if live.missing else 1 if name in FAILED_SINCE else 0
    assert session.status == status, session.output
    assert len(again.observations) == len(live.observations) == cases
    assert again.verdicts.keys() >= live.verdicts.keys()  # some recorded sessions ran a few suites
    then = outcomes(live.verdicts)
    since = {key: BUDGETED_SINCE[key] for key in BUDGETED_SINCE if then.get(key) == "failed"}
    since |= {key: "failed" for key in then if key[0] == FAILED_SINCE.get(name)}
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
def test_two_sessions_reach_the_same_verdicts(one, other, verdicts):
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


def test_the_shipped_thresholds_of_h200_are_made_of_the_live_runs():
    """Of kernels and memory alone, from machines of 16 and of 32 cores."""
    runs = [f"tests/data/h200-{name}.jsonl.gz" for name in LIVE]
    shipped = (SHIPPED_BUDGETS / "h200.toml").read_text()
    assert make_thresholds("--any-host", "--margin", "0.25", *runs) == shipped


def test_thresholds_of_two_runs_hold_on_them_and_on_a_third(compilegate, tmp_path):
    """The margins cover what differs between two machines of one kind."""
    mine = tmp_path / "mine.toml"
    mine.write_text(make_thresholds(*map(recorded, ("live-1", "two-gpus"))))
    made = {entry["case"] for entry in tomllib.loads(mine.read_text())["budget"]}
    assert made <= files.read(recorded("live-1")).observations.keys()
    assert len(made) >= 20
    for name in ("live-1", "two-gpus", "live-2"):
        session = compilegate(
            "--replay", str(recorded(name)), "--budgets", str(mine), "--save", name
        )
        assert session.status == 0, session.output
        judged = session.run(name).verdicts
        outcomes_of_speed = [judged[case, "speedup"].outcome for case in made]
        assert outcomes_of_speed.count("passed") >= 0.9 * len(made)  # a few may be inconclusive


def test_twice_the_time_fails_by_the_thresholds_of_the_machine(tmp_path):
    """Where it is more than a call needs; on another host, less than half of the cases fail."""
    mine = tmp_path / "mine.toml"
    mine.write_text(make_thresholds(*map(recorded, ("live-1", "two-gpus"))))
    made = {entry["case"] for entry in tomllib.loads(mine.read_text())["budget"]}
    budgets = budgets_toml.read([mine], sorted(SHIPPED_BUDGETS.glob("*.toml")))
    run = files.read(recorded("live-1"))
    here = Machine.of(run.header.environment, "cuda")
    there = Machine(here.hardware, "another host")
    failed_here, failed_there = (
        [case for case in made if slowed(run, case, budgets, machine) == "failed"]
        for machine in (here, there)
    )
    assert len(failed_here) >= 0.8 * len(made)
    assert len(failed_there) <= 0.5 * len(made)


def slowed(run, case, budgets, machine):
    """The outcome of a case whose compiled calls take twice as long as they did."""
    seen = run.observations[case]
    twice = tuple(2 * value for value in seen.timing.compiled_ns)
    seen = replace(seen, timing=replace(seen.timing, compiled_ns=twice))
    budget = budgets.budget(Case.parse(case), machine, "2.11.0")
    return test_speedup.rule(seen, budget).outcome


def test_a_run_of_known_bugs_gives_no_thresholds():
    words = ["thresholds", "--any-host", *map(str, map(recorded, ("live-1", "known-bugs")))]
    command = [sys.executable, "-m", "compilegate", *words]
    ended = subprocess.run(command, cwd=CHECKOUT, check=False, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 2
    assert "h200-known-bugs.jsonl.gz: nothing in it was compiled, or only" in ended.stderr


@pytest.mark.parametrize(
    ("runs", "headline"),
    [
        (TRITON, "triton 3.6.0 → 3.7.0 on NVIDIA H100 80GB HBM3: safe (6 cases)"),
        (TRITON[::-1], "triton 3.7.0 → 3.6.0 on NVIDIA H100 80GB HBM3: "),
        (TRITON[:1] * 2, "on NVIDIA H100 80GB HBM3: safe (6 cases)"),
    ],
    ids=["another Triton", "the former one", "the same"],
)
def test_the_headline_names_the_triton_that_differs(runs, headline):
    words = [sys.executable, "-m", "compilegate", "compare", *map(str, runs)]
    done = subprocess.run(words, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, check=False)
    assert headline in " ".join(done.stdout.split())  # the lines are as wide as the terminal
    assert ("triton" in done.stdout) == (runs[0] != runs[1])


def test_fresh_pairs_judged_the_costs_of_another_triton():
    changes = paired_costs.cost_changes(*map(Archive, TRITON))
    judged = {case: [c.cost for c in some if c.judged] for case, some in changes.items()}
    assert sum(map(bool, judged.values())) == 5
    assert not any(change.fails for some in changes.values() for change in some)
