"""``--baseline-python PATH``: every case under two interpreters that alternate."""

import os
import re
import signal
import subprocess
import sys

import pytest

from compilegate.records.observation import WAITING
from compilegate.records.pair import Pair
from compilegate.records.run import Closing
from compilegate.records.statistics import FEWEST_ROUNDS
from compilegate.runs import files
from compilegate.runs.reader import decode
from compilegate.upgrade.costs import PAIRED as PAIRED_COSTS
from tests.integration.conftest import FORWARD, SPEEDUP, ZOOS, command
from tests.integration.processes import begun, living, soon

SLOWDOWN, UPGRADE = "suites/test_slowdown.py", "suites/test_upgrade.py"
MEMORY = "suites/test_memory_growth.py"
#: Threads that wait for each other on a busy machine make times of calls a lottery.
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
PAIRED = ("two", "two.baseline")
ZOO = ("--zoo", str(ZOOS / "versions.py"))


def case(model):
    return f"{model}-cpu-infer-f32-default-static"


def of(*models):
    return (*ZOO, *(word for model in models for word in ("--cases", case(model))))


def interpreter(path, side):
    """This interpreter with one more variable."""
    path.write_text(f'#!/bin/sh\nCOMPILEGATE_SIDE={side} exec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def baseline(tmp_path):
    """The interpreter of the baseline."""
    return interpreter(tmp_path / "python", "baseline")


@pytest.fixture
def untimed(write):
    """Budgets that allow any growth of times and energy, so that no case gets fresh pairs."""
    keys = [cost.key for cost in PAIRED_COSTS if not cost.is_exact]
    lines = "".join(f"{key} = 1e6\n" for key in keys)
    return ("--budgets", write("untimed.toml", f"[[budget]]\n{lines}"))


def slowdown(session, model):
    return session.run("two").verdicts[case(model), "slowdown"]


def is_found(verdict):
    """Whether a slowdown failed, or was seen and could not be judged on a busy machine."""
    assert re.search(r", [2-9]\.\d× \[.* over [36] fresh pairs", verdict.summary), verdict.summary
    if verdict.outcome == "failed":
        return verdict.summary.startswith("compiled code is slower")
    assert verdict.outcome == "inconclusive"
    return re.search("other processes took|reaches zero|may be chance", verdict.summary)


@pytest.mark.long
def test_slower_compiled_code_fails_whatever_eager_did(compilegate, baseline):
    session = compilegate(
        *(SLOWDOWN, FORWARD, *of("slower_both", "slower_eager")),
        *("--baseline-python", baseline, "--pairs", "3", "--save", "two"),
        env=ONE_THREAD,
    )
    assert "the same as the candidate (A/A" in session.output
    found, sound = (slowdown(session, model) for model in ("slower_both", "slower_eager"))
    assert is_found(found)
    assert "and eager, too (" in found.summary
    assert sound.outcome in ("passed", "inconclusive")
    assert not re.search(r", \d\.\d× \[", sound.summary)
    failed = [v for v in session.run("two").verdicts.values() if v.outcome == "failed"]
    assert session.status == bool(failed), session.output
    assert f"suspect {case('slower_both')}, fresh pair 3: calls" in session.output

    candidate, before = session.run("two"), session.run("two.baseline")
    assert candidate.header.baseline == "two.baseline"
    assert candidate.closing
    assert before.closing
    assert before.header.planned == candidate.header.planned == tuple(before.observations)
    assert {aspect for _, aspect in before.verdicts} == {"forward"}
    rounds = [
        len(run.observations[case("slower_eager")].timing.eager_ns) for run in (candidate, before)
    ]
    assert rounds[0] == rounds[1] >= FEWEST_ROUNDS

    again = compilegate(SLOWDOWN, "--replay", "two", "--save", "again")
    assert again.status == session.status
    assert "suspect" not in again.output.partition("FAILURES")[0]
    assert again.run("again").verdicts[case("slower_both"), "slowdown"] == found


@pytest.mark.long
def test_two_workers_find_what_one_does_and_observe_each_case_once(compilegate, baseline):
    """Two interpreters are timed in one turn, and one worker judges the pairs of both."""
    session = compilegate(
        *(SLOWDOWN, FORWARD, UPGRADE, *of("slower_both", "steady", "fixed"), "-n", "2"),
        *("--baseline-python", baseline, "--pairs", "3", "--save", "two"),
        env=ONE_THREAD,
    )
    found = slowdown(session, "slower_both")
    assert is_found(found)
    assert slowdown(session, "steady").outcome in ("passed", "inconclusive")
    assert not re.search(r", \d\.\d× \[", slowdown(session, "steady").summary)
    candidate, before = (session.run(name) for name in PAIRED)
    assert before.verdicts[case("fixed"), "forward"].outcome == "failed"
    assert re.search(r"\(3 cases,( \d inconclusive,)? 1 fixed", session.output), session.output
    assert session.status == (1 if found.outcome == "failed" else 2), session.output
    assert len(candidate.verdicts) == 9
    assert candidate.closing
    assert before.closing
    for name in PAIRED:
        text = (session.runs / f"{name}.jsonl").read_text()
        assert text.count('"record":"observation"') == 3
    numbers = {key[1] for key in candidate.pairs if key[0] == case("slower_both")}
    assert numbers >= {0, 1, 2, 3}
    for run in (candidate, before):
        for seen in run.observations.values():
            assert WAITING in seen.spent_s
            assert len(seen.timing.eager_ns) >= FEWEST_ROUNDS


@pytest.mark.long
def test_memory_that_grew_fails_after_one_more_observation(compilegate, baseline, untimed):
    session = compilegate(
        *(MEMORY, UPGRADE, *of("steady", "larger"), *untimed),
        *("--baseline-python", baseline, "--save", "two"),
    )
    assert session.status == 1, session.output
    verdicts = session.run("two").verdicts
    found = verdicts[case("larger"), "memory_growth"]
    assert found.outcome == "failed"
    assert found.summary.startswith("compiled code needs more memory at its peak: ")
    assert "and eager, too (" in found.summary
    assert "in 2 pairs, more than 5.0% counts" in found.summary
    assert verdicts[case("steady"), "memory_growth"].outcome == "passed"
    assert "do not upgrade: 1 with more memory (2 cases)" in session.output
    made = {(case("steady"), 0), (case("larger"), 0), (case("larger"), 1)}
    assert {*session.run("two").pairs} == made
    # A session that is stopped in the fresh pairs keeps what it has observed.
    lines = (session.runs / "two.jsonl").read_text().splitlines()
    records = [decode(line) for line in lines if '"record":"verdict"' not in line]
    assert isinstance(records[-2], Pair)
    assert (records[-2].case, records[-2].number) == (case("larger"), 1)
    assert isinstance(records[-1], Closing)


@pytest.mark.long
def test_a_failure_under_the_baseline_alone_is_the_baselines(compilegate, baseline):
    session = compilegate(
        *(SLOWDOWN, FORWARD, UPGRADE, *of("crashed_before", "hung_before", "lacked_before")),
        *("--baseline-python", baseline, "--save", "two", "--case-timeout", "20"),
    )
    assert session.status == 0, session.output
    assert "safe (3 cases, 2 fixed, 1 new)" in session.output
    candidate, before = session.run("two"), session.run("two.baseline")
    assert {seen.status for seen in candidate.observations.values()} == {"completed"}
    statuses = {name.split("-")[0]: seen.status for name, seen in before.observations.items()}
    assert statuses == {
        "crashed_before": "crashed",
        "hung_before": "timed_out",
        "lacked_before": "unavailable",
    }
    verdicts = before.verdicts.items()
    outcomes = {name.split("-")[0]: v.outcome for (name, _), v in verdicts}
    assert outcomes == {
        "crashed_before": "failed",
        "hung_before": "failed",
        "lacked_before": "skipped",
    }
    for model in ("crashed_before", "hung_before", "lacked_before"):
        assert slowdown(session, model).outcome == "skipped"
        assert "the baseline was not measured" in slowdown(session, model).summary
        assert candidate.observations[case(model)].timing is not None


_BARE = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pytest", "_pytest", "msgspec", "tomlkit", "xdist", "pynvml"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""


@pytest.mark.long
def test_the_baseline_needs_nothing_but_torch(compilegate, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(_BARE)
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="{tmp_path}:$PYTHONPATH" exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    words = [python, "-c", "import msgspec"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "No module named 'msgspec'" in done.stderr
    session = compilegate(FORWARD, *of("fixed"), "--baseline-python", str(python), "--save", "two")
    assert session.status == 0, session.output
    assert session.run("two.baseline").verdicts[case("fixed"), "forward"].outcome == "passed"


@pytest.mark.long
def test_without_a_suite_that_times_nothing_is_timed(compilegate, baseline):
    session = compilegate(FORWARD, *of("fixed"), "--baseline-python", baseline, "--save", "two")
    assert session.status == 0, session.output
    assert [pair.candidate.rounds for pair in session.run("two").pairs.values()] == [0]
    assert session.run("two.baseline").observations[case("fixed")].timing is None


@pytest.mark.long
def test_the_speed_of_the_candidate_is_judged_as_without_a_baseline(compilegate, baseline):
    session = compilegate(SPEEDUP, *of("steady"), "--baseline-python", baseline, "--save", "two")
    verdict = session.run("two").verdicts[case("steady"), "speedup"]
    assert re.search(r"over \d+ rounds", verdict.summary)


@pytest.mark.long
def test_ctrl_c_ends_all_processes_and_leaves_a_run_to_resume(compilegate, baseline, runs, untimed):
    arguments = (FORWARD, UPGRADE, *of("steady", "hung_before"), "--baseline-python", baseline)
    arguments += untimed
    with begun(command(*arguments, "--save", "two", runs=runs), runs) as process:
        observed = runs / "two.baseline.jsonl"
        assert soon(lambda: observed.exists() and '"record":"verdict"' in observed.read_text())
        assert soon(lambda: len(living(runs)) >= 4)  # pytest, two servers, the child that hangs
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=240)
        assert process.returncode == 2, output
        assert soon(lambda: not living(runs)), living(runs)
    assert ": cannot say" in output
    assert "1 inconclusive, 1 not comparable, first steady-" in output
    assert "observed, but the session ended before it was judged" in output
    for name in PAIRED:
        assert files.read(runs / f"{name}.jsonl").missing == [case("hung_before")]

    resumed = compilegate(
        *(FORWARD, *ZOO, "--resume", "two", "--case-timeout", "20"),
        *("--baseline-python", baseline),
    )
    assert resumed.status == 0, resumed.output
    for name in PAIRED:
        run = resumed.run(name)
        assert run.closing is not None
        assert list(run.observations) == [case("steady"), case("hung_before")]


@pytest.mark.long
def test_a_fixed_case_counts_for_the_candidate(compilegate, baseline, untimed):
    session = compilegate(
        *(FORWARD, UPGRADE, *of("fixed"), *untimed, "--baseline-python", baseline, "--save", "two")
    )
    assert session.status == 0, session.output
    assert "safe (1 case, 1 fixed)" in session.output
    outcomes = (session.run(name).verdicts[case("fixed"), "forward"].outcome for name in PAIRED)
    assert tuple(outcomes) == ("passed", "failed")


@pytest.mark.long
def test_a_broken_case_counts_against_the_candidate(compilegate, tmp_path, untimed):
    """The versions change places: what was fixed is broken."""
    session = compilegate(
        *(FORWARD, UPGRADE, *of("fixed"), *untimed, "--save", "two"),
        *("--baseline-python", interpreter(tmp_path / "python", "candidate")),
        env={"COMPILEGATE_SIDE": "baseline"},
    )
    assert session.status == 1
    assert "do not upgrade: 1 broken (1 case)" in session.output
    assert "reproduce: " in session.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--baseline-python", "/nowhere/python"), "/nowhere/python cannot be run: No such file"),
        (("--baseline-python", "/bin/false"), "/bin/false is not a Python interpreter"),
        (("--baseline-python", sys.executable, "--pairs", "1"), "at least 3 are needed"),
    ],
)
def test_options_that_prevent_pairs_are_refused_before_compiling(
    compilegate, runs, arguments, message
):
    session = compilegate(FORWARD, *of("steady"), *arguments)
    assert session.status == 4
    assert message in session.output
    assert not runs.exists()
