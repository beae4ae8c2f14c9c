"""An attempt to observe a case: its progress, and its observation when the child dies."""

import signal

import pytest

from compilegate.processes import attempt
from compilegate.processes.attempt import Attempt, death
from compilegate.processes.child_process import Ended
from compilegate.records.request import Request
from tests.unit.making import CASE_ID

REQUEST = Request(case=CASE_ID, wants=("capture",), seed=3, tf32=True)


class Child:
    """Sends messages, and ends."""

    def __init__(self, clock, *messages):
        self.stage, self.ended, self._clock, self._messages = "start", None, clock, messages

    def listen(self, deadline, *, every_s=None):
        for seconds, message in self._messages:
            self._clock.now += seconds
            if self._clock.now > deadline:
                raise TimeoutError
            self.stage = message.get("stage", self.stage)
            yield message
        self.ended = Ended(signal.SIGSEGV)

    def output(self):
        return "last words"

    def ask_for_stacks(self):
        pass


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 100.0

    monkeypatch.setattr(attempt.time, "monotonic", lambda: Clock.now)
    return Clock


def test_progress_is_reported_when_the_stage_changes_and_every_five_seconds(clock):
    reported = []
    child = Child(
        clock,
        *((1, {"stage": "build"}), (1, {"stage": "compile"}), (4, {}), (4, {}), (1, {})),
        *((5, {}), (1, {"stage": "call"})),
    )
    Attempt(REQUEST, child, 60.0, progress=lambda *what: reported.append(what)).finish()
    assert reported == [
        (CASE_ID, "build", 1.0),
        (CASE_ID, "compile", 2.0),
        (CASE_ID, "compile", 10.0),
        (CASE_ID, "compile", 16.0),
        (CASE_ID, "call", 17.0),
    ]


def test_a_child_that_dies_leaves_a_failed_observation(clock):
    died = []
    child = Child(clock, (2, {"stage": "compile"}))
    made = Attempt(REQUEST, child, 60.0, died=lambda *what: died.append(what)).finish()
    assert (made.status, made.failure.stage, made.failure.kind) == ("crashed", "compile", "SIGSEGV")
    assert made.failure.message == "the process died of SIGSEGV"
    assert (made.seed, made.tf32, made.output) == (3, True, "last words")
    assert died == [("crashed", made.failure)]


def test_a_child_that_takes_too_long_is_killed(clock):
    ended = []
    child = Child(clock, (2, {"stage": "compile"}), (10, {}))
    made = Attempt(REQUEST, child, 10.0, end=lambda: ended.append(True)).finish()
    assert (made.status, made.failure.message) == ("timed_out", "the process was killed after 10 s")
    assert ended


@pytest.mark.parametrize(
    ("status", "kind", "how"),
    [
        (None, "exit", "vanished"),
        (3 << 8, "exit", "exited with status 3 without an answer"),
        (signal.SIGSEGV, "SIGSEGV", "died of SIGSEGV"),
        (
            signal.SIGKILL,
            "SIGKILL",
            "was killed by another process, most likely because memory ran out",
        ),
    ],
)
def test_the_end_of_a_process_is_described(status, kind, how):
    seen_kind, seen_how = death(status)
    assert seen_kind == kind
    assert seen_how.startswith(how)
