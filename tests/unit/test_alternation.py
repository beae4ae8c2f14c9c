"""Alternating rounds: the parent asks for them, and nothing is held between them."""

import contextlib
import json
from dataclasses import replace

from compilegate.observe.device import device
from compilegate.observe.measure import contention
from compilegate.observe.measure.alternation import AlternatingRounds, ParentConnection
from compilegate.observe.measure.contention import OtherProcesses, _Seconds
from compilegate.observe.measure.rounds import paired_rounds

CPU = device("cpu")


class Parent:
    """The parent process: asks for these numbers of rounds, and keeps the messages it receives."""

    def __init__(self, *rounds):
        self.messages = []
        self._rounds = iter(rounds)

    @property
    def connection(self):
        requests = (json.dumps({"rounds": n, "iterations": 2}) for n in self._rounds)
        return ParentConnection(
            lambda text: self.messages.append(json.loads(text)["turn"]), requests
        )


def timed(connection, steps=(lambda: None, lambda: None), drop=lambda: None):
    return paired_rounds(
        *steps,
        device=CPU,
        seed=0,
        threshold=1.0,
        budget_s=0.0,
        alternating=AlternatingRounds(connection, CPU, drop),
    )


def rounds(parent):
    return timed(parent.connection)


def test_it_reports_that_it_is_ready_and_ends_when_asked_for_no_rounds():
    parent = Parent(0)
    timing = rounds(parent)
    (turn,) = parent.messages
    assert turn.pop("iterations") >= 1
    assert turn == {"eager_ns": [], "compiled_ns": []}
    assert timing.eager_ns == timing.compiled_ns == ()


def test_each_message_has_the_rounds_since_the_last_and_the_record_has_all():
    parent = Parent(3, 2, 4, 0)
    timing = rounds(parent)
    assert [len(turn["eager_ns"]) for turn in parent.messages] == [0, 3, 2, 4]
    assert len(timing.eager_ns) == len(timing.compiled_ns) == 9
    sent = [ns for turn in parent.messages for ns in turn["compiled_ns"]]
    assert [f"{ns:.6g}" for ns in sent] == [f"{ns:.6g}" for ns in timing.compiled_ns]


def test_neither_the_budget_nor_the_most_rounds_end_it():
    parent = Parent(150, 0)
    assert len(rounds(parent).eager_ns) == 150


def test_each_side_is_called_once_untimed_after_a_wait():
    calls = []
    parent = Parent(1, 1, 0)
    connection = parent.connection
    marked = ParentConnection(
        lambda text: calls.append("sent") or connection.send(text), connection.received
    )
    timing = timed(marked, (lambda: calls.append("eager"), lambda: calls.append("compiled")))
    _, *turns, _ = " ".join(calls).split("sent")
    for turn in turns:
        assert turn.split()[:2] == ["eager", "compiled"]
        assert turn.split().count("eager") == turn.split().count("compiled") == 1 + 2
    assert timing.iterations == 2


def test_it_drops_results_before_every_wait():
    order = []
    parent = Parent(2, 0)
    connection = parent.connection
    marked = ParentConnection(
        lambda text: order.append("sent") or connection.send(text), connection.received
    )
    timed(marked, drop=lambda: order.append("dropped"))
    assert order == ["dropped", "sent", "dropped", "sent"]


def test_the_load_of_others_during_a_wait_does_not_count(monkeypatch):
    clocks = [(0.0, 0.0, 0.0), (1.0, 1.0, 0.0), (9.0, 9.0, 0.0), (10.0, 9.0, 0.0)]
    seconds = iter(_Seconds(*values) for values in clocks)
    monkeypatch.setattr(OtherProcesses, "_now", staticmethod(lambda: next(seconds)))
    monkeypatch.setattr(contention.os, "sched_getaffinity", lambda _: {0, 1})
    others = OtherProcesses()
    with others.paused():  # from second 1 to 9
        pass
    # Of two seconds of two cores, others took one.
    assert others.share() == 0.25


def test_warming_up_takes_the_machine_and_the_rounds_take_it_from_the_parent():
    """The child gives the machine back before it reports that it is ready."""
    said = []

    @contextlib.contextmanager
    def alone():
        said.append("takes")
        yield
        said.append("gives back")

    parent = Parent(2, 0)
    connection = replace(parent.connection, send=lambda text: said.append("reports"))
    calls = []
    paired_rounds(
        *(lambda: calls.append(list(said)), lambda: None),
        device=CPU,
        seed=0,
        threshold=1.0,
        budget_s=0.0,
        alternating=AlternatingRounds(connection, CPU, lambda: None),
        alone=alone,
    )
    assert said == ["takes", "gives back", "reports", "reports", "takes", "gives back"]
    assert [one[-1] for one in calls if len(one) < 3] == ["takes"] * calls.count(["takes"])
    assert ["gives back"] not in [one[-1:] for one in calls]
