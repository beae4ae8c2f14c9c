"""What workers find out about two versions, on its way to the controller and to the last worker."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from compilegate.judging.aspects import ASPECTS, Aspect
from compilegate.runs.reader import decode
from compilegate.session.forwarding import Forwarder, note, take_waiting, waiting
from compilegate.session.observations import Observations
from compilegate.upgrade.paired_baseline import PairedBaseline
from tests.unit.making import (
    make_environment,
    make_header,
    make_observation,
    make_pair,
    make_verdict,
)
from tests.unit.planned import CPU, GPU, make_options, make_plan_of, write_run


@pytest.fixture
def plan(tmp_path):
    return make_plan_of(make_options(tmp_path), paired=PairedBaseline(make_environment()))


@pytest.fixture
def run(tmp_path):
    """What the controller has written when all cases were observed: this worker made none."""
    header = make_header(planned=(CPU.id,), baseline="two.baseline")
    made = make_observation(case=CPU.id, wants=("capture",))
    write_run(tmp_path / "two.jsonl", header, made, make_pair(0, CPU.id))
    theirs = replace(header, baseline="")
    write_run(tmp_path / "two.baseline.jsonl", theirs, made, make_verdict(case=CPU.id))
    return tmp_path / "two.jsonl"


def test_a_worker_reads_what_others_observed_before_the_first_test_that_waits(
    plan, run, monkeypatch
):
    observations = Observations(plan, print)
    observations.want({CPU.id: ["capture"]})
    forwarder = Forwarder(plan, observations, run)
    monkeypatch.setattr(Aspect, "of", lambda item: ASPECTS[item.name])
    forwarder.pytest_runtest_setup(SimpleNamespace(name="forward"))
    assert not plan.paired.pairs
    forwarder.pytest_runtest_setup(SimpleNamespace(name="slowdown"))
    assert [*plan.paired.pairs] == [(CPU.id, 0)]
    assert [*plan.paired.observed] == [CPU.id]
    assert [*plan.paired.verdicts] == [(CPU.id, "forward")]
    assert observations.observe(CPU)[1] is False


def test_records_leave_with_the_next_setup_and_once(plan, run):
    forwarder = Forwarder(plan, Observations(plan, print), run)
    forwarder.pytest_compilegate_observed({"candidate": ["a"], "baseline": ["b"]})
    forwarder.pytest_compilegate_pair(make_pair(1, GPU.id))

    def reported(when):
        steps = forwarder.pytest_runtest_makereport(SimpleNamespace(when=when))
        next(steps)
        with pytest.raises(StopIteration) as ended:
            steps.send(SimpleNamespace())
        return getattr(ended.value.value, "compilegate_forwarded", None)

    assert reported("call") is None
    assert waiting(run).exists()
    given = reported("setup")
    assert given["observed"] == [{"candidate": ["a"], "baseline": ["b"]}]
    assert [decode(line).number for line in given["pairs"]] == [1]
    assert reported("setup") is None
    assert not waiting(run).exists()


def test_pairs_of_a_worker_that_is_stopped_before_its_report_are_taken_once(plan, run):
    forwarder = Forwarder(plan, Observations(plan, print), run)
    for number in (1, 2):
        forwarder.pytest_compilegate_pair(make_pair(number, GPU.id))
    with waiting(run).open("a") as file:
        file.write('{"record":"pa')  # the worker was killed while it wrote
    assert [decode(line).number for line in take_waiting(run)] == [1, 2]
    assert take_waiting(run) == []


def test_a_session_of_one_version_notes_nothing():
    note(None, make_pair(0, CPU.id))
