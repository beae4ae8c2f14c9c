"""Cases of one worker next to those of others: what they may have spoiled is observed again."""

import contextlib
from dataclasses import replace
from types import SimpleNamespace

import pytest

from compilegate.judging.budget import Budget
from compilegate.records.observation import EARLIER_ATTEMPTS, WAITING_FOR_MEMORY
from compilegate.records.request import Request
from compilegate.session.next_to_others import NextToOthers
from compilegate.session.workers import Share
from compilegate.upgrade.paired_baseline import CaseRequest, PairedBaseline
from tests.unit.making import make_compile_time, make_environment, make_observation
from tests.unit.planned import CPU, make_options, make_plan_of


class Both:
    """Observes a case at once, under the version in use, too; notes how it was asked."""

    def __init__(self, plan, *statuses, before=(), **seen):
        self.plan, self.asked, self._seen = plan, [], seen
        self._statuses, self._before = iter(statuses), iter(before)

    def __call__(self, asked):
        self.asked.append(asked.request.compiles_alone)
        case = asked.request.case
        if self.plan.paired is not None:
            status = next(self._before, "completed")
            self.plan.paired.observed[case] = make_observation(case=case, status=status)
        return make_observation(case=case, status=next(self._statuses, "completed"), **self._seen)


def earlier(own=0, most=0):
    """Return an earlier run that has seen a case, or cases like it, with these bytes."""
    return SimpleNamespace(memory_bytes=lambda _: own, most_memory_bytes=lambda _: most)


def taken_by(plan, monkeypatch, needs=0):
    """Return a list of the bytes that each observation takes, of 100,000.

    While it lasts, each asks for what it turns out to need.
    """
    plan.earlier = earlier(own=500)
    plan.observer = SimpleNamespace(memory=None)
    taken = []

    class Shares:
        capacity = 100_000

        @contextlib.contextmanager
        def taken(self, wanted, waiting, *, at_least):
            taken.append(wanted)
            yield SimpleNamespace(planned=max(wanted, needs), at_least=at_least)

    monkeypatch.setattr(NextToOthers, "_shares", lambda self, device: Shares())
    return taken


@pytest.fixture
def plan(tmp_path):
    return make_plan_of(make_options(tmp_path), share=Share(2, turns=str(tmp_path)))


@pytest.fixture
def paired(plan):
    plan.paired = PairedBaseline(make_environment())
    return plan


def observe(plan, both, *, cold):
    request = Request(case=CPU.id, wants=("capture",), cold=cold)
    return NextToOthers(plan, print, both).observe(CaseRequest(CPU, request, 10.0))


@pytest.mark.parametrize("cold", [True, False])
def test_a_case_of_one_version_compiles_next_to_others(plan, cold):
    both = Both(plan)
    observe(plan, both, cold=cold)
    assert both.asked == [False]


@pytest.mark.parametrize("cold", [True, False])
def test_two_versions_compile_in_a_turn_where_seconds_are_compared(paired, cold):
    both = Both(paired)
    observe(paired, both, cold=cold)
    assert both.asked == [cold]


@pytest.mark.parametrize(
    ("statuses", "before", "then"),
    [
        ([], [], []),
        (["out_of_memory"], [], [3000]),
        (["completed"], ["out_of_memory"], [3000]),
        (["out_of_memory"] * 2, [], [3000, 100_000]),
    ],
)
def test_either_side_that_lacked_memory_is_observed_again_with_more_of_it(
    paired, monkeypatch, statuses, before, then
):
    both = Both(paired, *statuses, before=before)
    taken = taken_by(paired, monkeypatch)
    assert observe(paired, both, cold=False).status == "completed"
    assert both.asked == [False, *(False for _ in then)]
    assert taken == [1000, *then]


@pytest.mark.parametrize(("needed", "then"), [(60_000, [100_000]), (100_000, [])])
def test_no_case_waits_for_more_memory_than_there_is(plan, monkeypatch, needed, then):
    both = Both(plan, "out_of_memory", "out_of_memory")
    taken = taken_by(plan, monkeypatch)
    plan.earlier = earlier(own=needed)
    assert observe(plan, both, cold=False).status == "out_of_memory"
    assert taken == [needed, *then]


def test_a_case_that_lacked_more_than_was_planned_gets_three_times_as_much(plan, monkeypatch):
    taken = taken_by(plan, monkeypatch, needs=20_000)
    observe(plan, Both(plan, "out_of_memory"), cold=False)
    assert taken == [500, 60_000]


@pytest.mark.parametrize("again", [False, True])
def test_what_an_earlier_attempt_took_is_spent_on_the_case(plan, monkeypatch, again):
    taken_by(plan, monkeypatch)
    statuses = ["out_of_memory"] if again else []
    made = observe(plan, Both(plan, *statuses, spent_s={"compile": 3.0}), cold=False)
    waited_s = made.spent_s.pop(WAITING_FOR_MEMORY)
    assert 0.0 <= waited_s < 1.0
    assert made.spent_s.pop("compile") == 3.0
    earlier_s = made.spent_s.pop(EARLIER_ATTEMPTS, 0.0)
    assert made.spent_s == {}
    assert earlier_s >= 3.0 if again else earlier_s == 0.0


@pytest.mark.parametrize(
    ("own", "most", "begins_with"),
    [(0, 0, 50_000), (500, 70_000, 500), (70_000, 0, 70_000), (0, 700, 700), (0, 70_000, 50_000)],
)
def test_a_case_keeps_what_it_needed_before_and_begins_with_what_cases_like_it_need(
    plan, monkeypatch, own, most, begins_with
):
    taken = taken_by(plan, monkeypatch)
    plan.earlier = earlier(own, most)
    observe(plan, Both(plan), cold=False)
    assert taken == [begins_with]
    assert plan.observer.memory.at_least == own


def test_no_child_of_two_versions_has_a_share_of_its_own(paired, monkeypatch):
    taken_by(paired, monkeypatch)
    observe(paired, Both(paired), cold=False)
    assert paired.observer.memory is None


@pytest.mark.parametrize(("busy", "asked"), [(0.5, [False, True]), (0.0, [False])])
def test_a_case_that_compiled_for_long_next_to_others_is_compiled_in_a_turn(
    plan, monkeypatch, busy, asked
):
    monkeypatch.setattr(type(plan), "budget", lambda self, case: Budget(max_compile_s=300.0))
    seen = replace(make_compile_time(301.0), busy=busy)
    both = Both(plan, compile_time=seen, cold=True)
    taken = taken_by(plan, monkeypatch)
    observe(plan, both, cold=True)
    assert both.asked == asked
    assert set(taken) == {500}


@pytest.mark.parametrize(
    ("own", "most", "begin_with"), [(0, 0, 50_000), (500, 0, 1000), (0, 70_000, 140_000)]
)
def test_two_versions_hold_the_memory_of_a_case_twice(paired, monkeypatch, own, most, begin_with):
    taken = taken_by(paired, monkeypatch)
    paired.earlier = earlier(own, most)
    observe(paired, Both(paired), cold=False)
    assert taken == [begin_with]
