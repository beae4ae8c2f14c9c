"""Rounds in turns: timed only when told to, told as they are made, nothing held meanwhile."""

import json

from compilegate.observe.measure import contention
from compilegate.observe.measure.alternation import Line, Turns
from compilegate.observe.measure.contention import OtherLoad
from compilegate.observe.measure.rounds import paired_rounds


class Pytest:
    """The other end of the line: gives turns of these lengths, and keeps what it is told."""

    def __init__(self, *lengths):
        self.told = []
        self._lengths = iter(lengths)

    @property
    def line(self):
        heard = (json.dumps({"rounds": n, "iterations": 2}) for n in self._lengths)
        return Line(lambda text: self.told.append(json.loads(text)["turn"]), heard)


def timed(line, steps=(lambda: None, lambda: None), rest=lambda: None):
    return paired_rounds(
        *steps, device="cpu", seed=0, threshold=1.0, budget_s=0.0, turns=Turns(line, "cpu", rest)
    )


def rounds(other):
    return timed(other.line)


def test_it_is_ready_before_its_first_turn_and_ends_when_told():
    other = Pytest(0)
    timing = rounds(other)
    (turn,) = other.told
    assert turn.pop("iterations") >= 1
    assert turn == {"eager_ns": [], "compiled_ns": []}
    assert timing.eager_ns == timing.compiled_ns == ()


def test_each_turn_tells_its_own_rounds_and_the_record_holds_all():
    other = Pytest(3, 2, 4, 0)
    timing = rounds(other)
    assert [len(turn["eager_ns"]) for turn in other.told] == [0, 3, 2, 4]
    assert len(timing.eager_ns) == len(timing.compiled_ns) == 9
    told = [ns for turn in other.told for ns in turn["compiled_ns"]]
    assert [f"{ns:.6g}" for ns in told] == [f"{ns:.6g}" for ns in timing.compiled_ns]


def test_neither_the_budget_nor_the_most_rounds_end_it():
    other = Pytest(150, 0)
    assert len(rounds(other).eager_ns) == 150


def test_a_turn_begins_with_a_call_of_each_that_does_not_count():
    calls = []
    other = Pytest(1, 1, 0)
    line = other.line
    marked = Line(lambda text: calls.append("told") or line.say(text), line.heard)
    timing = timed(marked, (lambda: calls.append("eager"), lambda: calls.append("compiled")))
    _, *turns, _ = " ".join(calls).split("told")
    for turn in turns:
        assert turn.split()[:2] == ["eager", "compiled"]
        assert turn.split().count("eager") == turn.split().count("compiled") == 1 + 2
    assert timing.iterations == 2


def test_it_lets_go_before_every_wait():
    order = []
    other = Pytest(2, 0)
    line = other.line
    told = Line(lambda text: order.append("told") or line.say(text), line.heard)
    timed(told, rest=lambda: order.append("rest"))
    assert order == ["rest", "told", "rest", "told"]


def test_what_others_do_while_it_waits_is_not_counted_as_disturbance(monkeypatch):
    seconds = iter([(0.0, 0.0, 0.0), (1.0, 1.0, 0.0), (9.0, 9.0, 0.0), (10.0, 9.0, 0.0)])
    monkeypatch.setattr(OtherLoad, "_now", staticmethod(lambda: next(seconds)))
    monkeypatch.setattr(contention.os, "sched_getaffinity", lambda _: {0, 1})
    seen = OtherLoad()
    with seen.ignored():  # from second 1 to 9
        pass
    # Of two seconds of two cores, others took one.
    assert seen.share() == 0.25
