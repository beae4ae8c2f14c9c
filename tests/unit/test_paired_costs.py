"""Pairs of processes distinguish costs that grew from chance."""

import dataclasses
import math

import pytest

from compilegate.judging.budget import Budget
from compilegate.records.pair import Costs
from compilegate.records.performance import Energy, Timing
from compilegate.upgrade.cost_change import finding
from compilegate.upgrade.costs import COSTS, COUNTED, PAIRED
from compilegate.upgrade.paired_costs import judge, own_spread, screen, suspects
from tests.unit.making import CASE_ID as CASE
from tests.unit.making import (
    make_capture,
    make_compile_time,
    make_costs,
    make_memory,
    make_observation,
    make_pair,
)

CALLS, TAIL, PEAK = "calls", "95th percentile of calls", "peak memory"
FLOOR = math.log1p(Budget().max_slowdown)


def pairs(*compiled, eager=1.0, first=None):
    """A screening pair and fresh ones, whose calls take these multiples of the baseline's."""
    return [make_pair(0, compiled=first or compiled[0], eager=eager)] + [
        make_pair(k, compiled=c, eager=eager) for k, c in enumerate(compiled, start=1)
    ]


def of(changes, cost=CALLS):
    return next(change for change in changes if change.cost == cost)


def judged(given, cost=CALLS, **how):
    return of(judge(given, **how)[CASE], cost)


def names(costs):
    return [cost.name for cost in costs]


def measuring(cost, before, after, number=0, **changed):
    """A pair that measured one figure of compiled code."""
    field = cost.compiled.__reduce__()[1][0]  # the attribute that the registry's getter names
    sides = (Costs(**{field: value}, **changed) for value in (before, after))
    return make_pair(number, **dict(zip(("baseline", "candidate"), sides, strict=True)))


def test_costs_come_from_measurements_of_one_process():
    timing = Timing(eager_ns=(4.0, 2.0, 6.0), compiled_ns=(2.0, 2.0, 2.0), iterations=1)
    memory = dataclasses.replace(make_memory(300, 200), first_call_kept_bytes=70)
    compiling = dataclasses.replace(make_compile_time(9.0), warm_s=1.5)
    measured = make_observation(
        timing=timing,
        memory=memory,
        compile_time=compiling,
        cold=True,
        energy=Energy(eager_j=3.0, compiled_j=2.0),
    )
    seen = Costs.of(measured)
    assert (seen.eager_ns, seen.compiled_ns, seen.rounds, seen.eager_best_ns) == (4.0, 2.0, 3, 2.0)
    assert seen.speedup == pytest.approx(2.0)
    assert (seen.compiled_peak_bytes, seen.first_call_kept_bytes) == (200, 70)
    assert (seen.compile_s, seen.warm_s, seen.compiled_j) == (9.0, 1.5, 2.0)
    assert seen.compiled_reserved_bytes is None  # no allocator reserves on CPU
    shared = dataclasses.replace(measured, timing=dataclasses.replace(timing, shares_gpu=True))
    assert not seen.disturbance
    assert Costs.of(shared).disturbance


def test_a_warm_compilation_is_not_compared_with_a_cold_one():
    assert Costs.of(make_observation(cold=False)).compile_s is None
    nothing = Costs.of(make_observation(compile_time=None, energy=Energy(unavailable="no meter")))
    assert nothing == Costs()


def test_a_model_of_which_nothing_was_compiled_took_no_time_to_compile():
    made = make_observation(cold=True, compile_time=make_compile_time(9.0))
    assert Costs.of(made).compile_s == 9.0
    nothing = dataclasses.replace(made, capture=make_capture(graphs=0))
    assert Costs.of(nothing).compile_s is None


@pytest.mark.parametrize(
    ("eager", "compiled", "kind"),
    [
        (1.0, 1.0, "unchanged"),
        (1.0, 1.02, "unchanged"),
        (1.0, 1.1, "worse"),
        (1.0, 0.9, "better"),
        (0.8, 1.0, "unchanged"),  # the speedup fell, production did not get slower
        (1.2, 1.2, "worse"),  # whatever eager did
        (4.0, 4.0, "worse"),
    ],
)
def test_one_pair_indicates_and_never_judges(eager, compiled, kind):
    one = make_pair(eager=eager, compiled=compiled)
    change = of(screen(one))
    assert (change.kind, change.judged) == (kind, False)
    assert names(suspects(one)) == ([CALLS] if kind == "worse" else [])
    assert "indicative" in change.summary
    assert finding(screen(one), "slowdown").outcome == (
        "inconclusive" if kind == "worse" else "passed"
    )


def test_a_side_that_was_not_measured_is_not_compared():
    one = make_pair(candidate=None, failure="the candidate crashed")
    assert of(screen(one)).summary == "calls not compared: the candidate crashed"
    assert not suspects(one)
    assert judged([one]).kind == "not measured"
    assert finding(judge([one])[CASE], "slowdown").outcome == "skipped"


@pytest.mark.parametrize(
    ("given", "kind", "expected"),
    [
        (pairs(1.10, 1.11, 1.09, 1.10, 1.12), "worse", "compiled code is slower: 1 → 1.1 ms"),
        # The screening pair is no evidence: its fresh ones clear it.
        (pairs(1.0, 1.01, 0.99, 1.0, 1.0, first=1.3), "unchanged", "no difference"),
        # Significant, but of no consequence.
        (pairs(1.020, 1.021, 1.019, 1.020, 1.020, first=1.3), "unchanged", "no difference"),
        (pairs(1.4, 1.0, 1.0, 1.0, 1.0), "unsettled", "the interval reaches zero"),
        (pairs(1.1, 1.1), "unsettled", "3 fresh pairs are needed"),
    ],
)
def test_fresh_pairs_judge(given, kind, expected):
    change = judged(given)
    assert change.kind == kind
    assert expected in change.summary
    assert change.judged == (len(given) > 3)


def test_what_eager_did_explains_a_slowdown_and_excuses_nothing():
    alike = judged(pairs(4.0, 4.1, 3.9, 4.0, 4.0, eager=4.0))
    assert alike.fails
    assert "compiled code is slower: 1 → 4 ms, 4.0× [" in alike.summary
    assert "and eager, too (4.0×" in alike.summary
    assert "not the compiler" in alike.summary
    alone = judged(pairs(4.0, 4.1, 3.9, 4.0, 4.0))
    assert "; eager +0.0%" in alone.summary
    assert "not the compiler" not in alone.summary


@pytest.mark.parametrize("cost", PAIRED, ids=names(PAIRED))
def test_every_cost_that_doubles_is_found_and_one_that_stays_is_not(cost):
    size = 1000 * max(cost.slack, 1.0)
    doubled = [measuring(cost, size, size * (2 + k / 100), k) for k in range(6)]
    change = judged(doubled, cost.name)
    assert change.fails
    assert change.summary.startswith(cost.worse)
    assert finding(judge(doubled)[CASE], cost.aspect).outcome == "failed"
    same = [measuring(cost, size, size * (1 + k / 1000), k) for k in range(6)]
    assert judged(same, cost.name).kind == "unchanged"
    assert finding(judge(same)[CASE], cost.aspect).outcome == "passed"


def test_every_aspect_that_counts_costs_has_some():
    assert {cost.aspect for cost in PAIRED} == set(COUNTED)


@pytest.mark.parametrize("cost", PAIRED, ids=names(PAIRED))
def test_a_budget_sets_the_growth_that_passes(cost):
    size = 1000 * max(cost.slack, 1.0)
    grown = [measuring(cost, size, size * (1.5 + k / 1000), k) for k in range(6)]
    lax = dataclasses.replace(Budget(), **{cost.key: 0.6})
    assert judged(grown, cost.name).fails
    assert judged(grown, cost.name, budget_of=lambda case: lax).kind == "unchanged"


@pytest.mark.parametrize("cost", PAIRED, ids=names(PAIRED))
def test_growth_below_the_slack_of_a_cost_does_not_count(cost):
    slack = cost.slack_on("cpu")
    small = [measuring(cost, slack / 4, slack, k) for k in range(6)]
    assert judged(small, cost.name).kind == "unchanged"


@pytest.mark.parametrize(("again", "kind"), [(1.2, "worse"), (1.0, "unchanged")])
def test_memory_is_judged_by_one_more_observation(again, kind):
    mib = 2.0**20
    sides = [
        measuring(COSTS[PEAK], 100 * mib, 100 * grown * mib, k)
        for k, grown in enumerate((1.3, again))
    ]
    change = judged(sides, PEAK)
    assert (change.kind, change.judged) == (kind, True)
    if change.fails:  # the smaller of both growths is the one that is certain
        assert "peak: 100 → 120 MiB, +20.0%; in 2 pairs, more than 5.0% counts" in change.summary


@pytest.mark.parametrize(("grown", "kind"), [(1.3, "worse"), (1.04, "unchanged"), (0.7, "better")])
def test_the_memory_of_a_tiny_model_on_cpu_is_judged_to_the_byte(grown, kind):
    """Its peak is 0.3 MiB. A slack of 1 MiB, as for a GPU's allocator, would hide any growth."""
    peak = 0.3 * 2**20
    sides = [measuring(COSTS[PEAK], peak, grown * peak, k) for k in range(2)]
    assert judged(sides, PEAK).kind == kind


def test_memory_that_was_not_observed_again_is_not_settled():
    alone = measuring(COSTS[PEAK], 100 * 2.0**20, 130 * 2.0**20)
    change = judged([alone], PEAK)
    assert (change.kind, change.judged) == ("unsettled", False)
    assert "it was not observed again" in change.summary


@pytest.mark.parametrize(
    ("gaps", "kind"),
    [
        ((None, None), "worse"),  # an earlier version recorded the run
        ((20, 20), "worse"),
        ((20, 40), "worse"),
        ((20, 900), "not measured"),
        ((900, 20), "not measured"),
    ],
)
def test_reserved_memory_compares_where_earlier_calls_left_the_same_gaps(gaps, kind):
    mib, cost = 2**20, COSTS["reserved memory"]
    sides = [
        Costs(compiled_reserved_bytes=size * mib, compiled_unused_bytes=gap and gap * mib)
        for size, gap in zip((244, 1124), gaps, strict=True)
    ]
    given = [make_pair(k, baseline=sides[0], candidate=sides[1]) for k in range(2)]
    change = judged(given, cost.name)
    assert change.kind == kind
    if kind == "not measured":
        shown = "reserved memory not compared: it includes gaps that earlier calls left, "
        assert change.summary == shown + f"{gaps[0]} → {gaps[1]} MiB"


def test_a_tail_that_doubles_is_found_where_the_median_stays():
    given = [
        make_pair(
            k,
            baseline=make_costs(compiled_p95_ns=1.1e6),
            candidate=make_costs(compiled_p95_ns=(2.2 + k / 50) * 1e6),
        )
        for k in range(6)
    ]
    assert judged(given, TAIL).fails
    assert judged(given, CALLS).kind == "unchanged"
    found = finding(judge(given)[CASE], "slowdown")
    assert found.outcome == "failed"
    assert found.summary.startswith("the 95th percentile of compiled calls is slower")
    assert any(line.startswith("calls: no difference") for line in found.details)


def test_a_pair_that_failed_is_left_out_and_its_reason_is_shown():
    crashed = [make_pair(k, candidate=None, failure="died of SIGSEGV") for k in (1, 2, 3)]
    change = judged([make_pair(compiled=1.2), *crashed])
    assert change.kind == "unsettled"
    assert "died of SIGSEGV" in change.summary
    fresh = [make_pair(k, compiled=1.2 + k / 1000) for k in range(4, 8)]
    assert judged([make_pair(compiled=1.2), *crashed, *fresh]).pairs == 4


@pytest.mark.parametrize(("device", "kind"), [("cpu", "unsettled"), ("cuda", "worse")])
def test_on_a_busy_processor_slower_code_may_only_be_waiting(device, kind):
    case = f"tiny-{device}-infer-f32-default-static"
    busy = {
        "baseline": make_costs(busy=0.5),
        "candidate": make_costs(compiled_ns=1.3e6, busy=0.5),
    }
    change = of(judge(make_pair(number, case, **busy) for number in range(6))[case])
    assert change.kind == kind
    assert ("other processes took 50% of the processor" in change.summary) == (kind == "unsettled")


@pytest.mark.parametrize("side", ["baseline", "candidate"])
@pytest.mark.parametrize(("disturbed", "kind", "count"), [(2, "worse", 3), (3, "unsettled", 5)])
def test_pairs_on_a_throttled_gpu_do_not_decide(side, disturbed, kind, count):
    case = "tiny-cuda-infer-f32-default-static"
    held = "the GPU throttled: hw_thermal_slowdown"
    given = [make_pair(number, case, compiled=1.3) for number in range(6)]
    for number in range(1, disturbed + 1):
        costs = dataclasses.replace(getattr(given[number], side), disturbance=held)
        given[number] = dataclasses.replace(given[number], **{side: costs})
    change = of(judge(given)[case])
    assert (change.kind, change.pairs) == (kind, count)
    assert (held in change.summary) == (kind == "unsettled")


def test_a_possible_chance_finding_is_inconclusive():
    """p = 0.04 among a hundred suspects is nothing; alone it would count."""
    doubtful = [0.10, 0.01, 0.12, 0.02, 0.05]
    cases = [f"m{index}-cpu-infer-f32-default-static" for index in range(100)]
    many = []
    for case in cases:
        many.append(make_pair(0, case, compiled=1.1))
        spread = doubtful if case == cases[0] else [0.008, -0.008, 0.008, -0.008, 0.0]
        many += [make_pair(k, case, compiled=1 + s) for k, s in enumerate(spread, start=1)]
    alone = [one for one in many if one.case == cases[0]]
    assert of(judge(alone)[cases[0]]).kind == "worse"
    assert of(judge(many)[cases[0]]).kind == "unsettled"


# The machine's own spread.


def test_the_spread_of_a_machine_is_that_of_processes_of_one_version():
    assert own_spread([[0.1, 0.0, 0.1]]) == 0.0  # too few differences to tell
    assert own_spread([[-0.1] * 6, [-0.4] * 6] * 2) == 0.0  # versions may differ by anything
    assert own_spread([[0.0, 0.1] * 3] * 4) == pytest.approx(0.1)
    assert own_spread([], [0.05] * 40) == pytest.approx(0.05)


def test_the_floor_is_that_of_a_mean_of_as_many_pairs():
    """Ten pairs of one case, five of another: the spread of a mean is the lower, the more."""
    given = [
        make_pair(k, f"{model}-cpu-infer-f32-default-static", compiled=1.5 if k % 2 else 1.2)
        for model, count in (("a", 5), ("b", 10))
        for k in range(count + 1)
    ]
    few, many = map(of, judge(given).values())
    assert (few.pairs, many.pairs) == (5, 10)
    assert few.floor == pytest.approx(many.floor * math.sqrt(2))
    assert many.floor > FLOOR


def test_a_comparison_of_one_version_shows_the_spread_of_the_machine():
    """Screening pairs of one version differ by 20%: so may two versions that are alike."""
    same = [make_pair(0, f"m{k}-cpu-infer-f32-default-static", compiled=1.2) for k in range(20)]
    given = [*same, *pairs(1.04, 1.05, 1.04, 1.05, 1.04)]
    assert judged(given).fails
    assert judged(given, one_version=True).kind == "unchanged"


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
    change = judged(pairs(*compiled, first=1.2))
    assert (change.fails, change.wants_more) == (fails, wants_more)
