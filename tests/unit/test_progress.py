"""The progress of a case: each stage is reported, and again while it lasts."""

from types import SimpleNamespace

import pytest

from compilegate.observe.phases import progress
from compilegate.observe.phases.progress import Progress


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 100.0

    monkeypatch.setattr(progress.time, "monotonic", lambda: Clock.now)
    return Clock


def test_a_stage_that_lasts_is_reported_again_once_a_second(clock):
    reported = []
    case = Progress(lambda stage: reported.append((clock.now, stage)))
    case.enter("time")
    for _ in range(50):
        clock.now += 0.0625
        case.beat()
    assert reported == [(100.0, "time"), (101.0, "time"), (102.0, "time"), (103.0, "time")]


def test_calls_at_varied_sizes_are_reported_as_such(clock):
    reported = []
    case = Progress(reported.append)
    for stage in ("eager", "compile"):
        case.enter_call(stage)
    case.enter("vary")
    case.enter_call("eager")
    assert reported == ["eager", "compile", "vary"]


@pytest.mark.parametrize("is_shared", [True, False])
def test_unused_memory_goes_to_others_with_each_new_stage(is_shared):
    released = []
    machine = SimpleNamespace(is_shared=is_shared, running_s=lambda: 0.0, stopped_s=lambda: 0.0)
    allocator = SimpleNamespace(release_unused=lambda: released.append(case.stage))
    case = Progress(lambda stage: None, machine, allocator)
    for stage in ("eager", "eager", "time"):
        case.enter(stage)
    assert released == (["build", "eager"] if is_shared else [])
