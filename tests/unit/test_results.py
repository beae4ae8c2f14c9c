"""What a session knows of its cases: how much of it is left."""

import time
from types import SimpleNamespace

import pytest

from compilegate.records.case import Case
from compilegate.session.earlier import Earlier, Taken
from compilegate.session.results import Results
from tests.unit.making import make_observation
from tests.unit.planned import make_options, make_plan_of

QUICK, LONG, NEXT = (Case.parse(f"{name}-cpu-infer-f32-default-static") for name in "abc")


@pytest.fixture
def results(tmp_path):
    """The results of a session of three cases, the last of which has three tests."""
    plan = make_plan_of(make_options(tmp_path), cases=[QUICK, LONG, NEXT])
    made = Results(SimpleNamespace(getoption=lambda name: None, args=[]), plan)
    suites = {QUICK: ("forward",), LONG: ("forward",), NEXT: ("forward", "gradients", "caches")}
    made.expect(
        f"suites/test_{aspect}.py::test_it[{case.id}]"
        for case, aspects in suites.items()
        for aspect in aspects
    )
    return made


def test_nothing_is_known_of_what_is_left_before_a_case_was_observed(results):
    assert results.left is None


def test_a_case_weighs_as_many_tests_as_it_has(results):
    results.add(make_observation(case=QUICK.id))
    assert results.left == 4.0
    results.add(make_observation(case=LONG.id))
    assert results.left == 1.5


def test_a_case_weighs_what_it_took_in_an_earlier_run(results):
    taken = {QUICK.id: Taken(2.0), LONG.id: Taken(20.0), NEXT.id: Taken(4.0)}
    results.plan.earlier = Earlier(family=str, is_slow=lambda _: False, taken=taken)
    results.add(make_observation(case=QUICK.id))
    assert results.left == 12.0


def test_a_case_that_began_and_was_not_observed_did_not_end(results, monkeypatch):
    now = iter([10.0, 20.0, 30.0, 50.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    for case in (QUICK, LONG, NEXT):
        results.note_start(f"suites/test_forward.py::test_it[{case.id}]")
    results.note_start("tests/test_own.py::test_it")
    results.add(make_observation(case=QUICK.id))
    skipped = f"suites/test_forward.py::test_it[{LONG.id}]"
    results.note_report(SimpleNamespace(nodeid=skipped, when="teardown"))
    assert results.unfinished == {NEXT.id: 20.0}
