"""Two processes that alternate in the order A B B A, and stop together even if one dies."""

import itertools
from dataclasses import replace

import pytest

from compilegate.processes.paired_observer import PairedObserver
from compilegate.processes.protocol import Turn
from compilegate.records.request import Request
from tests.unit.making import CASE_ID, make_failed_observation, make_observation, make_timing

TIMED = Request(case=CASE_ID, wants=("capture", "time"), timing_budget_s=60.0)


class Machine:
    """Whether the children of this worker have their turn of it."""

    is_ours = False


class Attempt:
    """A child that times rounds on request, and may die after some of them.

    The turn of the machine ends with the child. No child times without it.
    """

    def __init__(self, log, machine, side, request, *, compiled_ns, dies_after):
        self._machine = machine
        self.log, self.side, self.request = log, side, request
        self.observation, self.probing, self.lost_in = None, "", ""
        self._compiled_ns, self._left = compiled_ns, dies_after
        self._iterations = {"A": 4, "B": 7}[side]
        self._rounds = self._wanted = self._agreed = 0
        log.append(("begins", side))

    def take_turn(self):
        self._machine.is_ours = True

    def send(self, rounds, iterations):
        assert self._machine.is_ours
        self._wanted, self._agreed = rounds, iterations
        self.log.append(("turn" if rounds else "goes on", self.side))

    def hear_turn(self):
        if self._left == 0:
            self._machine.is_ours = False
            self.observation = make_failed_observation("crashed", stage="time")
            return None
        self._left -= 1
        self._rounds += self._wanted
        return Turn(
            iterations=self._iterations,
            eager_ns=(2e6,) * self._wanted,
            compiled_ns=(self._compiled_ns,) * self._wanted,
        )

    def finish(self):
        self._machine.is_ours = False
        if self.observation is None:
            self.log.append(("finishes", self.side))
            timing = make_timing(2e6 / self._compiled_ns, self._rounds, 2e6)
            timing = replace(timing, iterations=self._agreed)
            self.observation = make_observation(timing=timing if self.request.in_turns else None)
        return self.observation


class Observer:
    def __init__(self, log, machine, side, compiled_ns=1e6, dies_after=-1):
        self._made = (log, machine, side)
        self._acts = {"compiled_ns": compiled_ns, "dies_after": dies_after}

    def begin(self, request, **_):
        return Attempt(*self._made, request, **self._acts)

    def end_child(self):
        log, _, side = self._made
        log.append(("ends", side))


def paired(log, baseline=None, candidate=None):
    machine = Machine()
    return PairedObserver(
        Observer(log, machine, "A", **(baseline or {})),
        Observer(log, machine, "B", **(candidate or {})),
    )


def observe(observer, request=TIMED, **changed):
    return observer.observe(request, model="tiny", device="cpu", timeout_s=60.0, **changed)


def sequence(log):
    return "".join(side for what, side in log if what == "turn")


@pytest.mark.parametrize(("first", "order"), [("baseline", "AB"), ("candidate", "BA")])
def test_the_sides_alternate_a_b_b_a(first, order):
    log = []
    made = observe(paired(log), first=first)
    assert log[:2] == [("begins", order[0]), ("begins", order[1])]
    assert sequence(log) == (order + order[::-1]) * 5
    assert log[-4:] == [
        (what, side) for side in order for what in ("goes on", "finishes")
    ]  # alone, one side after the other
    assert made.pair.baseline.rounds == made.pair.candidate.rounds == 30
    assert made.baseline.timing.iterations == made.candidate.timing.iterations == 7


def test_a_pair_holds_the_speed_of_both_sides():
    made = observe(paired([], candidate={"compiled_ns": 1.25e6}), number=3)
    assert (made.pair.case, made.pair.number, made.pair.first) == (CASE_ID, 3, "baseline")
    assert made.pair.baseline.speedup == pytest.approx(2.0)
    assert made.pair.candidate.speedup == pytest.approx(1.6)
    assert made.pair.failure == ""


def test_more_rounds_follow_while_the_speedup_is_unclear():
    log = []
    observe(paired(log, candidate={"compiled_ns": 2e6}))  # a speedup of exactly 1
    assert sequence(log).count("B") == 40  # 120 rounds


def test_the_time_limit_ends_the_rounds_of_both():
    log = []
    request = Request(case=CASE_ID, wants=("time",), timing_budget_s=0.0)
    made = observe(paired(log, candidate={"compiled_ns": 2e6}), request)
    assert sequence(log) == "ABBAABBA"  # the fewest that have an interval
    assert made.pair.candidate.rounds == 12


@pytest.mark.parametrize("dies_after", [0, 1, 2, 3, 8])
@pytest.mark.parametrize(
    ("dying", "living"), [("baseline", "candidate"), ("candidate", "baseline")]
)
def test_one_side_finishes_its_rounds_when_the_other_dies(dying, living, dies_after):
    made = observe(paired([], **{dying: {"dies_after": dies_after}}))
    assert getattr(made, dying).status == "crashed"
    assert getattr(made, living).status == "completed"
    assert len(getattr(made, living).timing.eager_ns) == 30
    assert getattr(made.pair, dying) is None
    assert getattr(made.pair, living) is not None
    assert f"the {dying} was not measured (time: it broke)" in made.pair.failure


@pytest.mark.parametrize("counts", [(0, 0), (0, 2), (2, 0), (2, 2)])
def test_both_sides_may_die(counts):
    made = observe(paired([], *({"dies_after": count} for count in counts)))
    assert made.pair.baseline is made.pair.candidate is None
    assert "baseline was not measured" in made.pair.failure
    assert "candidate was not measured" in made.pair.failure


def test_without_timing_the_sides_run_one_after_the_other():
    log = []
    made = observe(paired(log), Request(case=CASE_ID, wants=("capture",)))
    assert log == list(itertools.product(("begins", "finishes"), "A")) + list(
        itertools.product(("begins", "finishes"), "B")
    )
    assert made.pair.candidate.compiled_ns is None


def test_fresh_pairs_use_new_processes_and_alternate_which_side_begins():
    begun = []
    for number in (1, 2, 3, 4):
        log = []
        pair = paired(log).fresh_pair(
            Request(case=CASE_ID, wants=("capture", "vary"), timing_budget_s=60.0),
            model="tiny",
            device="cpu",
            timeout_s=60.0,
            number=number,
        )
        assert log[-2:] == [("ends", "A"), ("ends", "B")]
        assert pair.number == number
        begun += [side for what, side in log if what == "begins"]
    assert "".join(begun) == "ABBAABBA"
