"""The PyTorch in use: refused in a sentence where it cannot observe; suspects get their pairs."""

import sys
from dataclasses import replace

import pytest

from compilegate.processes.child_process import ObserverError
from compilegate.processes.interpreter import check_interpreter
from compilegate.processes.paired_observer import Both
from compilegate.records.case import Case
from compilegate.records.environment import Device
from compilegate.records.request import Request
from compilegate.records.run import Closing
from compilegate.runs import files as run_files
from compilegate.runs.reader import RunError
from compilegate.runs.writer import Writer
from compilegate.upgrade import paired_baseline
from compilegate.upgrade.costs import COSTS
from compilegate.upgrade.paired_baseline import CaseRequest, PairedBaseline
from compilegate.upgrade.paired_costs import default_budget
from tests.unit.making import (
    make_environment,
    make_header,
    make_inventory,
    make_observation,
    make_pair,
    make_verdict,
)

SLOW, STEADY, SLOWER = (f"{name}-cpu-infer-f32-default-static" for name in "abc")


@pytest.fixture
def script(tmp_path):
    """Makes an interpreter of a shell script."""

    def make(text):
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    return make


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f'exec {sys.executable} -S "$@"', "has no torch: install it there"),
        ("echo 3 9 1", "is Python 3.9: at least 3.11 is needed"),
        ("echo hello", "is not a Python interpreter: it answered 'hello'"),
        ("echo broken >&2; exit 3", "is not a Python interpreter: it answered 'broken'"),
        ("exit 0", "is not a Python interpreter: it answered 'nothing'"),
    ],
)
def test_an_interpreter_that_cannot_observe_is_refused(script, text, expected):
    python = script(text)
    with pytest.raises(ObserverError) as refused:
        check_interpreter(python)
    assert str(refused.value).startswith(f"--baseline-python {python} ")
    assert expected in str(refused.value)


def test_a_missing_interpreter_is_refused(tmp_path):
    with pytest.raises(ObserverError, match="cannot be run: No such file"):
        check_interpreter(str(tmp_path / "python"))
    with pytest.raises(ObserverError, match="is a directory: name its interpreter"):
        check_interpreter(str(tmp_path))


def test_our_own_interpreter_is_accepted():
    check_interpreter(sys.executable)


class Live:
    """Two interpreters, of which the candidate's is slower in some cases, and so in fresh pairs."""

    def __init__(self, *slower):
        self.slower, self.asked = slower, []
        self.closed_before = []
        self.compiled = lambda number: 1.2 + number / 1000

    def observe(self, request, *, model, device, timeout_s):
        made = make_observation(case=request.case)
        compiled = 1.2 if request.case in self.slower else 1.0
        return Both(made, made, make_pair(0, request.case, compiled=compiled))

    def close(self):
        self.closed_before.append(len(self.asked))

    def fresh_pair(self, request, *, model, device, timeout_s, number):
        self.asked.append((request.case, number))
        return make_pair(number, request.case, compiled=self.compiled(number))


def calls(screened, case):
    """What pairs show of the time of a case's calls."""
    return screened.cost_changes(default_budget)[case][0]


def settled(screened):
    """The fresh pairs that settling makes."""
    return list(screened.settle(ask, default_budget))


def ask(case):
    return CaseRequest(case, Request(case=case.id, wants=("capture", "time")), 60.0)


@pytest.fixture
def live():
    return Live(SLOW, SLOWER)


@pytest.fixture
def screened(live):
    made = PairedBaseline(make_environment(), live=live, fresh_pairs=3)
    for case in (SLOW, STEADY, SLOWER):
        made.observe(ask(Case.parse(case)), candidate=None)
    return made


def test_suspects_get_fresh_pairs_one_round_after_another(screened, live):
    assert [*screened.suspects(default_budget)] == [SLOW, SLOWER]
    made = settled(screened)
    assert live.asked == [(case, k) for k in (1, 2, 3) for case in (SLOW, SLOWER)]
    assert [(pair.case, pair.number) for pair in made] == live.asked
    assert calls(screened, SLOW).kind == "worse"
    assert calls(screened, SLOW).pairs == 3
    assert calls(screened, STEADY).kind == "unchanged"


@pytest.mark.parametrize(
    ("suspects", "number", "wants"),
    [
        (["calls"], 1, ("capture", "time")),
        (["peak memory"], 1, ("capture", "memory")),
        (["peak memory"], 2, ()),  # it is the same in each process
        (["peak memory", "compiling"], 2, ("capture",)),
        (["warm start", "calls", "energy"], 5, ("capture", "time", "energy", "start")),
        ([], 1, ()),
    ],
)
def test_a_fresh_pair_measures_what_its_suspects_need(suspects, number, wants):
    costs = [COSTS[name] for name in suspects]
    assert paired_baseline.wants_of(costs, number) == wants


def test_each_round_of_fresh_pairs_starts_new_processes(screened, live):
    """Not of the fork servers of another round, which hand on what chance gave them."""
    made = len(settled(screened))
    rounds = len({number for _, number in live.asked})
    assert live.closed_before == list(range(0, made, made // rounds))


@pytest.mark.parametrize(
    ("compiled", "kind"),
    [
        (lambda number: 1.05 + number % 3 / 100, "worse"),
        (lambda number: 1.05 + number % 3 / 100 if number <= 3 else 1.0, "unchanged"),
    ],
    ids=("confirmed", "cleared"),
)
def test_a_small_slowdown_gets_twice_as_many_pairs(screened, live, compiled, kind):
    live.compiled = compiled
    settled(screened)
    assert live.asked == [(case, k) for k in (1, 2, 3, 4, 5, 6) for case in (SLOW, SLOWER)]
    seen = calls(screened, SLOW)
    assert (seen.kind, seen.pairs) == (kind, 6)


def test_a_resumed_session_confirms_what_the_first_pairs_found(screened, live):
    """Also where pairs that it holds already would clear it: all that is planned is made."""
    live.compiled = lambda number: 1.05 + number % 3 / 100 if number <= 3 else 1.0
    made = screened.settle(ask, default_budget)
    for _ in range(7):  # both suspects' first three, and one of the next
        next(made)
    live.asked.clear()
    settled(screened)
    assert live.asked == [(SLOWER, 4), *((case, k) for k in (5, 6) for case in (SLOW, SLOWER))]


def test_pairs_that_a_resumed_run_holds_are_not_made_again(screened, live):
    held = make_pair(1, SLOW, compiled=1.2)
    screened.pairs[SLOW, 1] = held
    settled(screened)
    assert (SLOW, 1) not in live.asked
    assert len(live.asked) == 5


def test_a_case_that_is_observed_again_loses_its_old_pairs(screened):
    settled(screened)
    screened.observe(ask(Case.parse(SLOW)), candidate=None)
    assert [number for case, number in screened.pairs if case == SLOW] == [0]


def test_autotuning_modes_are_timed_again_without_their_cache(screened, live):
    colds = []
    live.fresh_pair = lambda request, **known: (
        colds.append(request.cold) or make_pair(known["number"], request.case)
    )
    case = SLOW.replace("-default-", "-max_autotune-")
    screened.pairs = {(case, 0): make_pair(0, case, compiled=1.2)}
    settled(screened)
    assert colds == [True] * 3


def test_a_device_that_the_baseline_lacks_leaves_the_candidate_alone(screened, live):
    class Candidate:
        def observe(self, request, **_):
            return make_observation(case=request.case)

    case = SLOW.replace("-cpu-", "-cuda-")
    made = screened.observe(ask(Case.parse(case)), Candidate())
    assert made.status == "completed"
    assert screened.observed[case].status == "unavailable"
    assert calls(screened, case).kind == "not measured"
    assert "no cuda device that torch 2.15.0+cpu can use" in calls(screened, case).summary


def test_stored_pairs_are_judged_without_interpreters(tmp_path):
    header = make_header(planned=(SLOW,), baseline="night.baseline")
    gpu = make_environment(devices=(Device(kind="cuda", name="H200", memory_bytes=1),))
    files = {
        "night": [
            header,
            make_observation(case=SLOW),
            *(make_pair(k, SLOW, compiled=1.25) for k in range(6)),
        ],
        "night.baseline": [
            replace(header, environment=gpu, baseline=""),
            theirs := make_observation(case=SLOW, seed=3),
            verdict := make_verdict(case=SLOW),
        ],
    }
    for name, records in files.items():
        writer = Writer.create(tmp_path / f"{name}.jsonl")
        for record in (*records, Closing(cases=1, wall_s=1.0)):
            writer.write(record)
        writer.close()
    made = paired_baseline.stored(run_files.read(tmp_path / "night.jsonl"))
    assert made.environment == gpu
    assert made.observed == {SLOW: theirs}
    assert made.verdicts == {(SLOW, "forward"): verdict}
    assert settled(made) == []
    assert calls(made, SLOW).kind == "worse"


def test_a_run_that_was_not_paired_has_no_baseline(tmp_path):
    writer = Writer.create(tmp_path / "plain.jsonl")
    writer.write(make_header())
    writer.close()
    assert paired_baseline.stored(run_files.read(tmp_path / "plain.jsonl")) is None


def test_a_baseline_that_is_not_next_to_its_run_is_reported_missing(tmp_path):
    writer = Writer.create(tmp_path / "night.jsonl")
    writer.write(make_header(baseline="night.baseline"))
    writer.close()
    with pytest.raises(RunError, match=r"no run 'night\.baseline'"):
        paired_baseline.stored(run_files.read(tmp_path / "night.jsonl"))


def test_equal_environments_are_one_version():
    made = PairedBaseline(make_environment())
    made.compare_with(make_environment(platform="another kernel"))
    assert made.is_candidate
    assert made.describe() == (
        "baseline: torch 2.15.0+cpu, the same as the candidate (A/A: nothing should differ)"
    )


def test_two_environments_of_one_torch_are_two_versions():
    made = PairedBaseline(make_environment())
    variables = {"OMP_NUM_THREADS": "8"}
    made.compare_with(make_environment(inventory=make_inventory(variables=variables)))
    assert not made.is_candidate
    assert made.describe() == (
        "baseline: torch 2.15.0+cpu, in another environment than the candidate's: "
        "OMP_NUM_THREADS 4 → 8"
    )


def test_two_versions_are_not_called_two_environments():
    made = PairedBaseline(make_environment())
    made.compare_with(make_environment(versions={"torch": "2.16.0"}))
    assert not made.is_candidate
    assert made.describe() == "baseline: torch 2.15.0+cpu"


def test_runs_that_record_versions_only_are_the_same_in_what_they_record():
    made = PairedBaseline(make_environment(inventory=None))
    made.compare_with(make_environment())
    assert made.is_candidate
    assert "the same as the candidate in what the runs record (A/A" in made.describe()


def test_an_environment_that_was_not_compared_is_no_candidate():
    assert not PairedBaseline(make_environment()).is_candidate
