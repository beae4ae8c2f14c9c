"""Pairs distinguish slower compiled code from chance and from a change of eager."""

import dataclasses
import itertools
import math
import random

import pytest

from compilegate.records.pair import Pace
from compilegate.records.performance import Timing
from compilegate.runs.archive import Archive
from compilegate.upgrade.comparison import compare
from compilegate.upgrade.paired_speed import is_suspect, judge, own_spread, screen, speed_changes
from compilegate.upgrade.speed_change import FLOOR
from tests.unit.making import CASE_ID as CASE
from tests.unit.making import (
    make_environment,
    make_inventory,
    make_observation,
    make_pace,
    make_pair,
)
from tests.unit.runs import NEW, OLD, compared, seen, write_run


def pairs(*compiled, eager=1.0, first=None):
    """A screening pair and fresh ones."""
    return [make_pair(0, compiled=first or compiled[0], eager=eager)] + [
        make_pair(k, compiled=c, eager=eager) for k, c in enumerate(compiled, start=1)
    ]


def test_a_pace_is_taken_from_rounds():
    timing = Timing(eager_ns=(4.0, 2.0, 6.0), compiled_ns=(2.0, 2.0, 2.0), iterations=1)
    seen = Pace.of(timing)
    assert seen.disturbance == ""
    assert Pace.of(dataclasses.replace(timing, shares_gpu=True)).disturbance
    assert (seen.eager_ns, seen.compiled_ns, seen.rounds) == (4.0, 2.0, 3)
    assert seen.speedup == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("eager", "compiled", "kind", "suspect"),
    [
        (1.0, 1.0, "unchanged", False),
        (1.0, 1.02, "unchanged", False),
        (1.0, 1.1, "slower", True),
        (1.0, 0.9, "faster", False),
        (1.2, 1.0, "eager moved", False),
        (0.8, 1.0, "eager moved", True),
        (1.2, 1.2, "both moved", False),
        (0.7, 0.9, "both moved", True),
        (1.2, 0.9, "both moved", False),
        (0.8, 1.2, "slower", True),
        (1.02, 0.98, "faster", False),
    ],
)
def test_one_pair_indicates_and_never_judges(eager, compiled, kind, suspect):
    one = make_pair(eager=eager, compiled=compiled)
    seen = screen(one)
    assert (seen.kind, seen.judged) == (kind, False)
    assert is_suspect(one) is suspect
    assert "indicative" in seen.summary


def test_a_side_that_was_not_timed_is_not_compared():
    one = make_pair(candidate=None, failure="the candidate crashed")
    assert screen(one).kind == "not measured"
    assert screen(one).summary == "not compared: the candidate crashed"
    assert not is_suspect(one)
    assert judge([one])[CASE].kind == "not measured"


@pytest.mark.parametrize(
    ("given", "kind", "expected"),
    [
        (pairs(1.10, 1.11, 1.09, 1.10, 1.12), "slower", "compiled code is slower"),
        # The screening pair is no evidence: its fresh ones clear it.
        (pairs(1.0, 1.01, 0.99, 1.0, 1.0, first=1.3), "unchanged", "no difference"),
        # Significant, but of no consequence.
        (pairs(1.020, 1.021, 1.019, 1.020, 1.020, first=1.3), "unchanged", "no difference"),
        (pairs(1.4, 1.0, 1.0, 1.0, 1.0), "unsettled", "the interval reaches zero"),
        (pairs(1.0, 1.01, 0.99, 1.0, 1.0, eager=0.8), "eager moved", "compiled code did not"),
        (pairs(1.1, 1.1), "unsettled", "3 fresh pairs are needed"),
    ],
)
def test_fresh_pairs_judge(given, kind, expected):
    seen = judge(given)[CASE]
    assert seen.kind == kind
    assert expected in seen.summary
    assert seen.judged == (len(given) > 3)


def test_a_pair_that_failed_is_left_out_and_its_reason_is_shown():
    crashed = [make_pair(k, candidate=None, failure="died of SIGSEGV") for k in (1, 2, 3)]
    seen = judge([make_pair(compiled=1.2), *crashed])[CASE]
    assert seen.kind == "unsettled"
    assert "died of SIGSEGV" in seen.summary
    fresh = [make_pair(k, compiled=1.2 + k / 1000) for k in range(4, 8)]
    assert judge([make_pair(compiled=1.2), *crashed, *fresh])[CASE].pairs == 4


@pytest.mark.parametrize(("device", "kind"), [("cpu", "unsettled"), ("cuda", "slower")])
def test_on_a_busy_processor_slower_code_may_only_be_waiting(device, kind):
    case = f"tiny-{device}-infer-f32-default-static"
    busy = {
        "baseline": make_pace(busy=0.5),
        "candidate": make_pace(compiled_ns=1.3e6, busy=0.5),
    }
    seen = judge(make_pair(number, case, **busy) for number in range(6))[case]
    assert seen.kind == kind
    assert ("others took 50% of the processor" in seen.summary) == (kind == "unsettled")


@pytest.mark.parametrize("side", ["baseline", "candidate"])
@pytest.mark.parametrize(("disturbed", "kind", "count"), [(2, "slower", 3), (3, "unsettled", 5)])
def test_pairs_on_a_gpu_that_is_held_back_do_not_settle_it(side, disturbed, kind, count):
    case = "tiny-cuda-infer-f32-default-static"
    held = "the GPU held its clocks down: hw_thermal_slowdown"
    given = [make_pair(number, case, compiled=1.3) for number in range(6)]
    for number in range(1, disturbed + 1):
        pace = dataclasses.replace(getattr(given[number], side), disturbance=held)
        given[number] = dataclasses.replace(given[number], **{side: pace})
    seen = judge(given)[case]
    assert (seen.kind, seen.pairs) == (kind, count)
    assert (held in seen.summary) == (kind == "unsettled")


def test_what_could_be_one_of_many_chance_findings_is_not_settled():
    """p = 0.04 among a hundred suspects is nothing; alone it would count."""
    doubtful = [0.10, 0.01, 0.12, 0.02, 0.05]
    cases = [f"m{index}-cpu-infer-f32-default-static" for index in range(100)]
    many = []
    for case in cases:
        many.append(make_pair(0, case, compiled=1.1))
        spread = doubtful if case == cases[0] else [0.008, -0.008, 0.008, -0.008, 0.0]
        many += [make_pair(k, case, compiled=1 + s) for k, s in enumerate(spread, start=1)]
    alone = [one for one in many if one.case == cases[0]]
    assert judge(alone)[cases[0]].kind == "slower"
    seen = judge(many)[cases[0]]
    assert seen.kind == "unsettled"


def test_the_floor_rises_with_the_machines_own_spread():
    calm = [make_pair(k) for k in range(1, 6)]
    assert own_spread([calm]) == 0.0  # too few differences to tell
    restless = [
        [
            make_pair(k, baseline=make_pace(2e6 * (1 + 0.1 * (k % 2))), candidate=make_pace())
            for k in range(1, 6)
        ]
    ] * 4
    assert own_spread(restless) > 2 * FLOOR
    assert own_spread([calm], [make_pair(compiled=1.05)] * 40) == pytest.approx(
        math.log(1.05), rel=0.01
    )


def test_the_floor_is_that_of_a_mean_of_as_many_pairs():
    """Ten pairs of one case, five of another: the spread of a mean is the lower, the more."""
    restless = {"baseline": make_pace(2e6), "candidate": make_pace(2e6 * 1.2, 1.2e6)}
    given = [
        make_pair(k, f"{model}-cpu-infer-f32-default-static", **restless)
        if k % 2
        else make_pair(k, f"{model}-cpu-infer-f32-default-static", compiled=1.2)
        for model, count in (("a", 5), ("b", 10))
        for k in range(count + 1)
    ]
    few, many = judge(given).values()
    assert (few.pairs, many.pairs) == (5, 10)
    assert few.floor == pytest.approx(many.floor * math.sqrt(2))
    assert many.floor > FLOOR


@pytest.mark.parametrize(
    ("compiled", "fails", "wants_more"),
    [
        ((1.05, 1.06, 1.05, 1.06, 1.05), True, True),
        ((1.10, 1.11, 1.09, 1.10, 1.12), True, False),
        ((1.4, 1.0, 1.0, 1.0, 1.0), False, False),
        ((1.0, 1.01, 0.99, 1.0, 1.0), False, False),
    ],
)
def test_a_small_slowdown_needs_more_pairs(compiled, fails, wants_more):
    seen = judge(pairs(*compiled, first=1.2))[CASE]
    assert (seen.fails, seen.wants_more) == (fails, wants_more)


# Simulations: processes have a mood of 2%, rounds within them none that matters.

MOOD = 0.02


def session(draw, count, slower=(), mood=MOOD):
    """The judgement of a session of which some cases are slower by a tenth; K = 5."""

    def between(number, index):
        factor = 1.1 if index in slower else 1.0
        sides = {
            side: make_pace(2e6, 1e6 * math.exp(draw.gauss(0, mood)) * planted)
            for side, planted in (("baseline", 1.0), ("candidate", factor))
        }
        return make_pair(number, f"m{index}-cpu-infer-f32-default-static", **sides)

    made = {index: [between(0, index)] for index in range(count)}
    for index, (first,) in made.items():
        if is_suspect(first):
            made[index] += [between(k, index) for k in range(1, 6)]
    judged = judge(itertools.chain(*made.values()))
    for index, change in enumerate(judged.values()):
        if change.wants_more:
            made[index] += [between(k, index) for k in range(6, 11)]
    judged = judge(itertools.chain(*made.values()))
    return {index for index, change in enumerate(judged.values()) if change.fails}


def test_one_pair_alone_would_raise_the_alarm_in_one_case_of_seven():
    draw = random.Random(7)
    paces = (make_pace(2e6, 1e6 * math.exp(draw.gauss(0, MOOD))) for _ in itertools.count())
    screening = (make_pair(baseline=next(paces), candidate=next(paces)) for _ in range(8000))
    assert 0.10 < sum(map(is_suspect, screening)) / 8000 < 0.20


@pytest.mark.parametrize(("count", "sessions"), [(1, 4000), (6, 2000), (200, 50)])
@pytest.mark.parametrize(("mood", "rate"), [(MOOD, 0.001), (2 * MOOD, 0.003)])
def test_false_alarms_are_rare_where_nothing_changed(count, sessions, mood, rate):
    """Judged by the first five pairs alone, 0.4% and 1.3% of sessions of six cases raise one."""
    draw = random.Random(7)
    alarms = sum(bool(session(draw, count, mood=mood)) for _ in range(sessions))
    assert alarms / sessions <= rate, alarms


def test_a_slowdown_of_a_tenth_is_found_and_few_others():
    draw = random.Random(8)
    planted = set(range(0, 200, 40))
    found = false = 0
    for _ in range(40):
        slower = session(draw, 200, planted)
        found += len(slower & planted)
        false += len(slower - planted)
    assert found / (40 * len(planted)) > 0.9
    assert false / max(found + false, 1) < 0.05


# As comparisons of runs take it.


@pytest.mark.parametrize("threads", ["4", "8"])
def test_screening_pairs_show_the_spread_of_the_machine_only_in_one_environment(tmp_path, threads):
    """Forty screening pairs that differ by 10% are noise in A/A, and may be a change otherwise."""
    ids = [f"m{i}-cpu-infer-f32-default-static" for i in range(40)]
    moved = [make_pair(0, case, compiled=1.1 if i % 2 else 0.9) for i, case in enumerate(ids)]
    fresh = [make_pair(k, ids[1], compiled=1.05) for k in range(1, 6)]
    variables = make_inventory(variables={"OMP_NUM_THREADS": threads})
    sides = {
        "a": make_environment(inventory=variables),
        "a.baseline": make_environment(inventory=make_inventory()),
    }
    for name, environment in sides.items():
        records = [make_observation(case=case) for case in ids]
        records += [*moved, *fresh] if name == "a" else []
        baseline = "a.baseline" if name == "a" else ""
        write_run(tmp_path / f"{name}.jsonl", *records, environment=environment, baseline=baseline)
    with (
        Archive(tmp_path / "a.jsonl") as candidate,
        Archive(tmp_path / "a.baseline.jsonl") as baseline,
    ):
        seen = speed_changes(baseline, candidate)[ids[1]]
    assert seen.fails is (threads == "8")


def test_stored_pairs_count_where_both_runs_are_of_one_session(tmp_path):
    now = [make_observation(), *pairs(1.25, 1.26, 1.24, 1.25, 1.25)]
    write_run(tmp_path / "a.jsonl", *now, environment=NEW, baseline="a.baseline")
    write_run(tmp_path / "a.baseline.jsonl", make_observation(), environment=OLD)
    write_run(tmp_path / "b.jsonl", make_observation(), environment=OLD)
    with (
        Archive(tmp_path / "a.jsonl") as candidate,
        Archive(tmp_path / "a.baseline.jsonl") as baseline,
        Archive(tmp_path / "b.jsonl") as other,
    ):
        change = speed_changes(baseline, candidate)[CASE]
        assert speed_changes(other, candidate) == {}
        assert speed_changes(baseline, other) == {}
        comparison = compare(baseline, candidate, {CASE: change})
    assert (change.kind, change.judged) == ("slower", True)
    assert change.speedup.low < change.speedup.mean < change.speedup.high
    assert math.exp(change.speedup.mean) == pytest.approx(0.8, abs=0.002)
    (case,) = comparison.cases
    assert case.kind == "regressed"
    assert case.is_slower


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (pairs(1.4, 1.0, 1.0, 1.0, 1.0), "inconclusive"),
        (pairs(1.0, 1.01, 0.99, 1.0, 1.0, eager=0.8), "unchanged"),
        ([make_pair(compiled=1.3)], "inconclusive"),  # a suspect without its pairs
        ([make_pair(compiled=0.5)], "unchanged"),
        ([make_pair(candidate=None, failure="crashed")], "unchanged"),
    ],
)
def test_only_slower_code_that_was_judged_counts(given, kind):
    change = judge(given)[CASE]
    assert compared(seen(), seen(), case=CASE, speed=change).kind == kind
