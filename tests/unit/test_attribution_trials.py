"""What a case shows in an environment: exact results are observed once, costs in pairs."""

from types import SimpleNamespace

import pytest

from compilegate.judging.budget import Budget
from compilegate.processes.child_process import ObserverError
from compilegate.processes.observer import Launch
from compilegate.processes.paired_observer import Both
from compilegate.records.case import Case
from compilegate.records.observation import WANTS
from compilegate.records.request import Request
from compilegate.runs.archive import CaseRecord
from compilegate.upgrade.attribution import observing
from compilegate.upgrade.attribution.observing import RedCase, Trials
from compilegate.upgrade.attribution.symptoms import Symptom
from compilegate.upgrade.paired_baseline import CaseRequest, PairedBaseline
from tests.unit.making import (
    make_capture,
    make_environment,
    make_failed_observation,
    make_observation,
    make_pair,
    make_verdict,
)

BREAKS, SLOW = (f"{name}-cpu-infer-f32-default-static" for name in ("breaks", "slow"))
GOOD, BAD = frozenset({"pip"}), frozenset({"torch"})
ALL = tuple(want for want in WANTS)


class Children:
    """Observes in an environment whose name decides how cases behave."""

    asked: list[tuple[str, tuple[str, ...]]]

    def __init__(self, launch, progress):
        self.python = launch.python
        self.closed = False

    def preload(self, models, *, cpp):
        pass

    def environment(self):
        if self.python == "broken":
            raise ObserverError("broken has no torch")

    def observe(self, request, **_):
        self.asked.append((request.case, request.wants))
        if self.python == "torch":
            return make_failed_observation("crashed", stage="compile", case=request.case)
        return make_observation(case=request.case, capture=make_capture())

    def end_child(self):
        pass

    def close(self):
        self.closed = True


class Pairs:
    """Pairs in which the candidate is a fifth slower in the bad environment."""

    def __init__(self, baseline, candidate):
        self.compiled = 1.2 if candidate.python == "torch" else 1.0

    def observe(self, request, **_):
        made = make_observation(case=request.case)
        return Both(made, made, make_pair(0, request.case, compiled=self.compiled))

    def fresh_pair(self, request, *, number, **_):
        return make_pair(number, request.case, compiled=self.compiled + number / 1000)

    def close(self):
        pass


class Envs:
    """Makes no environment: the interpreter is called after the change."""

    def python_with(self, names):
        (name,) = names
        if name == "unmakeable":
            raise ObserverError("cannot make it")
        return name


def ask(case, wants=()):
    return CaseRequest(case, Request(case=case.id, wants=wants), 60.0)


def red(case, aspects, failure=()):
    before = CaseRecord.of(
        make_observation(case=case, capture=make_capture()),
        [make_verdict("passed", case=case, aspect="forward")],
    )
    return RedCase(Case.parse(case), Symptom(frozenset(aspects), failure), before, ALL)


@pytest.fixture
def trials(monkeypatch):
    Children.asked = []
    monkeypatch.setattr(observing, "Observer", Children)
    monkeypatch.setattr(observing, "PairedObserver", Pairs)
    kind = make_failed_observation("crashed", stage="compile", case=BREAKS).failure.kind
    live = SimpleNamespace(baseline=SimpleNamespace(progress=None))
    return Trials(
        environments=Envs(),
        red={
            BREAKS: red(BREAKS, {"stage compile"}, ("crashed", kind)),
            SLOW: red(SLOW, {"slowdown"}),
        },
        launch=Launch(),
        paired=PairedBaseline(make_environment(), live=live, fresh_pairs=5),
        models=(),
        ask=ask,
        budget_of=lambda case: Budget(),
        writes_cpp=False,
    )


def test_a_crash_and_a_slowdown_are_seen_where_they_are(trials):
    assert trials(BAD, [BREAKS, SLOW]).shown == {BREAKS: "red", SLOW: "red"}
    assert trials(GOOD, [BREAKS, SLOW]).shown == {BREAKS: "green", SLOW: "green"}
    assert trials(BAD, [SLOW]).python == "torch"


def test_a_result_that_is_exact_needs_no_timing(trials):
    trials(BAD, [BREAKS])
    ((case, wants),) = Children.asked
    assert case == BREAKS
    assert {"capture", "vary"} <= {*wants}
    assert not {"time", "memory", "energy"} & {*wants}
    assert {"time", "capture"} <= {*red(SLOW, {"slowdown"}).needed}
    assert "compile_work" in red(SLOW, {"compile_work"}).needed


@pytest.mark.parametrize(
    ("name", "trouble"), [("unmakeable", "cannot make it"), ("broken", "broken has no torch")]
)
def test_an_environment_that_does_not_work_shows_nothing(trials, name, trouble):
    result = trials(frozenset({name}), [BREAKS, SLOW])
    assert (result.shown, result.trouble) == ({}, trouble)
