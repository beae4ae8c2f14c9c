"""The observations of a session: each case is observed once, and stored ones are kept."""

import pytest

from compilegate.runs.files import read
from compilegate.session.observations import Observations
from compilegate.session.workers import Share
from tests.unit.making import make_failure, make_header, make_memory, make_observation
from tests.unit.planned import CPU, GPU, make_options, make_plan_of, write_run


@pytest.fixture
def plan(tmp_path):
    return make_plan_of(make_options(tmp_path))


@pytest.fixture
def progress():
    return []


@pytest.fixture
def observations(plan, progress):
    return Observations(plan, lambda *what: progress.append(what))


def test_wants_are_the_union_in_the_order_of_observing(observations):
    observations.want({CPU.id: ["vary", "time", "capture", "vary"]})
    assert observations.wants == {CPU.id: ("capture", "time", "vary")}


def test_a_case_is_observed_once(observations, progress):
    observations.want({CPU.id: ["capture"]})
    made, new = observations.observe(CPU)
    assert new
    assert made.wants == ("capture",)
    again, new = observations.observe(CPU)
    assert not new
    assert again is made
    assert progress == [(CPU.id, "compile", 1.5, "2 cc1plus")]


def test_a_replay_takes_every_case_from_the_run(tmp_path):
    made = make_observation(case=CPU.id, cold=True, wants=("capture",))
    write_run(tmp_path / "a.jsonl", make_header(), made)
    plan = make_plan_of(make_options(tmp_path, replay="a"), stored=read(tmp_path / "a.jsonl"))
    observations = Observations(plan, print)
    observations.want({CPU.id: ["capture", "time"]})
    assert observations.observe(CPU) == (made, False)


def test_missing_wants_are_observed_and_measurements_stay(plan, observations, tmp_path):
    there = make_observation(case=CPU.id, wants=("memory", "vary"), memory=make_memory())
    write_run(tmp_path / "a.jsonl", make_header(), there)
    plan.stored = read(tmp_path / "a.jsonl")
    observations.want({CPU.id: ["capture", "time"]})
    made, new = observations.observe(CPU)
    assert new
    assert made.wants == ("capture", "time", "memory", "vary")
    assert plan.observer.asked.wants == ("capture", "time", "vary")
    assert (made.memory, made.timing) == (there.memory, plan.observer.timing)


def test_a_failed_case_is_observed_again_with_all_wants(plan, observations, tmp_path):
    there = make_observation(
        case=CPU.id, status="timed_out", failure=make_failure(), wants=("memory", "vary")
    )
    write_run(tmp_path / "a.jsonl", make_header(), there)
    plan.stored = read(tmp_path / "a.jsonl")
    observations.want({CPU.id: ["capture", "time"]})
    assert observations.observe(CPU)[0].wants == ("capture", "time", "memory", "vary")
    assert plan.observer.asked.wants == ("capture", "time", "memory", "vary")


@pytest.mark.parametrize(("shares", "on_gpu"), [(True, True), (False, False)])
def test_a_child_knows_whether_others_use_its_gpu(plan, observations, shares, on_gpu):
    plan.share = Share(2, "0", shares_gpu=shares)
    assert observations.ask(GPU).request.shares_gpu is on_gpu
    assert not observations.ask(CPU).request.shares_gpu


def test_no_case_is_begun_too_late_and_stored_ones_are_taken(tmp_path):
    made = make_observation(case=CPU.id, wants=("capture",))
    write_run(tmp_path / "a.jsonl", make_header(), made)
    plan = make_plan_of(make_options(tmp_path), stored=read(tmp_path / "a.jsonl"))
    late, early = (Observations(plan, print, ends_at=at) for at in (1.0, 1e12))
    for observations in (late, early):
        observations.want({CPU.id: ["capture"], GPU.id: ["capture"]})
    assert not late.is_too_late(CPU)
    assert late.is_too_late(GPU)
    assert late.unobserved == []
    assert not early.is_too_late(GPU)
