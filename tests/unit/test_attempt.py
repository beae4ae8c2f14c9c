"""An attempt to observe a case: its progress, and its observation when the child dies."""

import contextlib
import json
import signal

import msgspec
import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.expected_failure import ExpectedFailure
from compilegate.judging.finding import Finding
from compilegate.judging.judge import judge
from compilegate.processes import attempt
from compilegate.processes.attempt import Attempt, death
from compilegate.processes.case_clock import Work
from compilegate.processes.child_process import Ended
from compilegate.processes.observer import Observer
from compilegate.processes.protocol import SILENCE, Message, Turn
from compilegate.processes.server_process import Launch
from compilegate.records.practice import Practice
from compilegate.records.request import Request
from compilegate.records.run import encode
from tests.unit.making import CASE_ID, make_observation

REQUEST = Request(case=CASE_ID, wants=("capture",), seed=3, tf32=True)


class Child:
    """Sends messages, and ends. Its processes do the same in each second."""

    def __init__(self, clock, *messages, work=None, lack=""):
        self.lack = lack
        self.stage, self.ended, self._clock, self._messages = "start", None, clock, [*messages]
        self._work = work or Work()

    def listen(self, *, every_s):
        assert 0 < every_s <= 5
        while self._messages:
            seconds, message = self._messages.pop(0)
            self._clock.now += seconds
            self.stage = message.get("stage", self.stage)
            yield msgspec.convert(message, Message) if message else SILENCE
        self.ended = Ended(signal.SIGSEGV)

    def work(self):
        return self._work

    def ask(self, request):
        pass

    def output(self):
        return "last words"

    def refuse_more(self):
        pass

    def ask_for_stacks(self):
        pass

    def lack_of_memory(self):
        return self.lack


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
        work=Work(helpers=("cc1plus", "as", "cc1plus")),
    )
    Attempt(REQUEST, child, 60.0, progress=lambda *what: reported.append(what)).finish()
    assert reported == [
        (CASE_ID, "build", 1.0, ""),
        (CASE_ID, "compile", 2.0, ""),
        (CASE_ID, "compile", 10.0, "2 cc1plus, 1 as"),
        (CASE_ID, "compile", 16.0, "2 cc1plus, 1 as"),
        (CASE_ID, "call", 17.0, "2 cc1plus, 1 as"),
    ]


def test_a_child_that_dies_leaves_a_failed_observation(clock):
    died = []
    child = Child(clock, (2, {"stage": "compile"}))
    made = Attempt(REQUEST, child, 60.0, died=lambda *what: died.append(what)).finish()
    assert (made.status, made.failure.stage, made.failure.kind) == ("crashed", "compile", "SIGSEGV")
    assert made.failure.message == "the process died of SIGSEGV"
    assert (made.seed, made.tf32, made.output) == (3, True, "last words")
    assert died == [("crashed", made.failure)]


def verdicts_of(observation, aspects, **budget):
    """Return the outcome of each aspect by rules that pass."""

    def passes(*_):
        return Finding("passed", "fine")

    judged = (judge(observation, Budget(**budget), aspect, passes) for aspect in aspects)
    return [judgement.verdict.outcome for judgement in judged]


@pytest.mark.parametrize("dies_in", ["serving", "probe"])
def test_a_practice_that_ends_the_process_spoils_nothing_that_was_observed_before(clock, dies_in):
    seen = make_observation(practices={"backends": Practice()}, spent_s={"compile": 1.5})
    so_far = {"so_far": json.loads(encode(seen))}
    child = Child(clock, (1, {"stage": "backends"}), (1, so_far), (1, {"stage": dies_in}))
    made = Attempt(REQUEST, child, 60.0).finish()
    assert (made.status, made.failure.stage) == ("crashed", dies_in)
    outcomes = verdicts_of(made, ["forward", "backends", "serving", "twins"])
    if dies_in == "serving":
        assert made.spent_s == {"compile": 1.5, "lost to crashes": 1.5}
        assert outcomes == ["passed", "passed", "failed", "failed"]
    else:  # no practice: nothing can be said
        assert made.calls == ()
        assert outcomes == ["failed"] * 4


def test_an_expected_death_in_a_practice_is_no_failure_that_other_aspects_lack(clock):
    seen = {"so_far": json.loads(encode(make_observation(wants=("capture", "serving"))))}
    child = Child(clock, (1, seen), (1, {"stage": "serving"}))
    made = Attempt(REQUEST, child, 60.0).finish()
    expected = ExpectedFailure(stage="serving", reason="threads")
    outcomes = verdicts_of(made, ["forward", "serving"], expected_failures=(expected,))
    assert outcomes == ["passed", "expected_failure"]


def test_what_is_observed_of_another_case_is_refused(clock):
    other = make_observation(case="other-cpu-infer-f32-default-static")
    child = Child(clock, (1, {"so_far": json.loads(encode(other))}))
    made = Attempt(REQUEST, child, 60.0).finish()
    assert made.failure.kind == "garbled answer"


def test_a_child_that_memory_ended_ran_out_of_memory(clock):
    child = Child(clock, (2, {"stage": "compile"}), lack="the kernel killed it; 2 GiB")
    made = Attempt(REQUEST, child, 60.0).finish()
    assert (made.status, made.failure.kind) == ("out_of_memory", "SIGSEGV")
    assert judge(made, Budget(), "forward", lambda *_: None).verdict.summary == (
        "ran out of memory in stage 'compile': the kernel killed it; 2 GiB"
    )


def watched(clock, *messages, timeout_s=10.0, **child):
    """The observation of a child that its limit ends, and its verdict."""
    ended = []
    child = Child(clock, *messages, **child)
    made = Attempt(REQUEST, child, timeout_s, end=lambda: ended.append(True)).finish()
    assert ended
    return made, judge(made, Budget(), "forward", lambda *_: pytest.fail("it did not end")).verdict


QUIET = [(0.5, {})] * 1000
BEATING = [(0.5, {"stage": "call"})] * 1000
BUILDING = [(0.5, {"stage": "build"}), *QUIET]
STARVED = Work(ran_s=0.05, waited_s=0.45)


def test_a_child_without_progress_hangs_and_fails(clock):
    made, verdict = watched(clock, (2, {"stage": "compile"}), *QUIET)
    failure = made.failure
    assert (made.status, failure.kind, failure.others_took) == ("timed_out", "timeout", 0.0)
    assert failure.message == "no progress for 10 s"
    assert (verdict.outcome, verdict.summary) == (
        "failed",
        "timed out in stage 'compile': no progress for 10 s",
    )
    assert made.spent_s == {"lost to crashes": 12.0}


@pytest.mark.parametrize(
    ("messages", "work"),
    [
        pytest.param(BEATING, Work(ran_s=0.5), id="it makes calls"),
        pytest.param(QUIET, Work(ran_s=0.5, helpers=("cc1plus",)), id="compilers work"),
    ],
)
def test_a_child_that_makes_progress_goes_on_until_the_cap(clock, messages, work):
    made, verdict = watched(clock, *messages, work=work)
    assert made.failure.message == "it made progress, but did not end within 30 s"
    assert (made.failure.kind, verdict.outcome) == ("timeout", "failed")
    assert clock.now == 130.0


@pytest.mark.parametrize("messages", [BEATING, QUIET], ids=["beats", "quiet"])
def test_a_busy_machine_is_inconclusive_for_every_aspect(clock, messages):
    made, verdict = watched(clock, *messages, work=STARVED)
    failure = made.failure
    assert (made.status, failure.kind) == ("timed_out", "busy machine")
    assert failure.others_took == pytest.approx(0.9)
    assert verdict.outcome == "inconclusive"
    assert (
        "the machine was busy (other processes took 90%): it did not end within 60 s"
        in verdict.summary
    )
    assert clock.now == 160.0


def test_a_child_that_is_slow_on_a_busy_machine_ends_by_itself(clock):
    answer = {"observation": {"case": CASE_ID, "status": "completed"}, "last": False}
    child = Child(clock, *[(0.5, {})] * 100, (0.5, answer), work=STARVED)
    assert Attempt(REQUEST, child, 10.0).finish().status == "completed"
    assert clock.now == 150.5


@pytest.mark.parametrize(("work", "built_again"), [(Work(), False), (STARVED, True)])
def test_a_model_that_hangs_in_its_build_is_not_built_again(monkeypatch, clock, work, built_again):
    observer, started = Observer(Launch()), []

    def start(model):
        started.append(model)
        return Child(clock, *BUILDING, work=work)

    monkeypatch.setattr(observer, "_start_child", start)
    for _ in range(2):
        made = observer.observe(REQUEST, model="tiny", device="cpu", timeout_s=10.0)
        assert (made.status, made.failure.stage) == ("timed_out", "build")
    assert (len(started) == 2) is built_again


def test_only_listening_counts(clock):
    turn = (1, {"turn": {"iterations": 1}})
    child = Child(clock, turn, turn, *QUIET)
    attempt = Attempt(REQUEST, child, 10.0)
    for _ in range(2):
        assert attempt.hear_turn() == Turn(iterations=1)
        clock.now += 1000  # another process has its turn
    assert attempt.finish().spent_s == {"lost to crashes": 12.5}


@pytest.mark.parametrize(
    ("status", "kind", "how"),
    [
        (None, "exit", "vanished"),
        (3 << 8, "exit", "exited with status 3 without an answer"),
        (signal.SIGSEGV, "SIGSEGV", "died of SIGSEGV"),
        (signal.SIGKILL, "SIGKILL", "was killed by SIGKILL"),
        (40, "signal 40", "died of signal 40"),
    ],
)
def test_the_end_of_a_process_is_described(status, kind, how):
    seen_kind, seen_how = death(status)
    assert seen_kind == kind
    assert seen_how.startswith(how)


class Stopping:
    """The turns of others: from the start on, the child is stopped for half of the time."""

    def __init__(self, clock):
        self._clock, self._since = clock, clock.now

    @property
    def stopped_s(self):
        return (self._clock.now - self._since) / 2

    @contextlib.contextmanager
    def starting(self):
        yield


@pytest.mark.parametrize(("seconds", "status"), [(110, "crashed"), (130, "timed_out")])
def test_a_child_loses_no_time_while_it_is_stopped(clock, seconds, status):
    """Its limit is 60 s; what ends without an answer has crashed."""
    child = Child(clock, *[(5, {})] * (seconds // 5))
    seen = Attempt(REQUEST, child, 60.0, turns=Stopping(clock)).finish()
    assert seen.status == status
