"""Cases of one worker next to those of others: what they may have spoiled is observed again."""

from types import SimpleNamespace

import pytest

from compilegate.records.request import Request
from compilegate.session.next_to_others import NextToOthers
from compilegate.session.workers import Share
from compilegate.upgrade.paired_baseline import CaseRequest, PairedBaseline
from tests.unit.making import make_environment, make_observation
from tests.unit.planned import CPU, make_options, make_plan_of


class Both:
    """Observes a case at once, under the version in use, too; notes how it was asked."""

    def __init__(self, plan, *statuses, before=()):
        self.plan, self.asked = plan, []
        self._statuses, self._before = iter(statuses), iter(before)

    def __call__(self, asked):
        self.asked.append(asked.request.compiles_alone)
        case = asked.request.case
        if self.plan.paired is not None:
            status = next(self._before, "completed")
            self.plan.paired.observed[case] = make_observation(case=case, status=status)
        return make_observation(case=case, status=next(self._statuses, "completed"))


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
    ("statuses", "before"), [(["out_of_memory"], []), (["completed"], ["out_of_memory"])]
)
def test_either_side_that_lacked_memory_is_observed_again_with_all_of_it(paired, statuses, before):
    both = Both(paired, *statuses, before=before)
    assert observe(paired, both, cold=False).status == "completed"
    assert both.asked == [False, True]


def test_two_versions_hold_the_memory_of_a_case_twice(plan):
    needed = []
    plan.earlier = SimpleNamespace(memory_bytes=lambda case: 1000)
    for version in (None, PairedBaseline(make_environment())):
        plan.paired = version
        needed.append(NextToOthers(plan, print, Both(plan))._needed(CPU))
    assert needed == [1000, 2000]
