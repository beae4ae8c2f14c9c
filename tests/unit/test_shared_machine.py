"""What a child times asks for the machine, and the time that it was stopped is not its own."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from compilegate.observe.measure.alternation import ParentConnection
from compilegate.observe.measure.contention import OtherProcesses
from compilegate.observe.measure.processors import confine, settle_threads
from compilegate.observe.measure.shared_machine import OWN_MACHINE, SharedMachine
from compilegate.observe.phases.progress import Progress
from compilegate.processes import attempt_turn
from compilegate.processes.attempt_turn import AttemptTurn
from compilegate.records.observation import WAITING, WAITING_FOR_MEMORY


class Parent:
    """Gives the machine to whoever asks, after it has stopped the child for some seconds."""

    def __init__(self, account, stopped_s=0.0, part=()):
        self.said, self.account, self._stopped_s = [], account, stopped_s
        account.write_text("0")
        connection = ParentConnection(self.hear, self.answers())
        self.machine = SharedMachine(connection, str(account), part)

    def hear(self, text):
        self.said.append(json.loads(text)["alone"])

    def answers(self):
        while True:
            self.account.write_text(str(float(self.account.read_text()) + self._stopped_s))
            yield '{"alone": true}'


@pytest.fixture
def parent(tmp_path):
    return Parent(tmp_path / "account")


def test_the_machine_is_asked_for_once_and_given_back(parent):
    with parent.machine.alone(), parent.machine.alone():
        assert parent.said == [True]
    assert parent.said == [True, False]


@pytest.fixture
def processors():
    """All processors of this process, on which its threads run again afterwards."""
    found, threads = os.sched_getaffinity(0), torch.get_num_threads()
    yield found
    confine(found)
    torch.set_num_threads(threads)


def of_all_threads():
    return {frozenset(os.sched_getaffinity(int(name))) for name in os.listdir("/proc/self/task")}


@pytest.mark.parametrize("turn", ["alone", "on_all_processors"])
def test_outside_of_its_turns_a_process_runs_on_its_part(turn, processors, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5")  # what settling the threads would set
    part, threads = frozenset([min(processors)]), torch.get_num_threads()
    machine = Parent(tmp_path / "account", part=part).machine
    assert of_all_threads() == {part}
    assert torch.get_num_threads() == threads
    with getattr(machine, turn)():
        assert of_all_threads() == {frozenset(processors)}
    assert of_all_threads() == {part}


def test_processes_that_a_confined_one_starts_have_as_many_threads(processors, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    settle_threads()
    confine({min(processors)})
    words = [sys.executable, "-c", "import torch; print(torch.get_num_threads())"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert int(done.stdout) == torch.get_num_threads()


def test_the_machine_is_given_back_after_an_error(parent):
    with pytest.raises(ZeroDivisionError), parent.machine.alone():
        _ = 1 / 0
    assert parent.said == [True, False]


def test_a_process_that_shares_with_no_other_asks_nobody():
    with OWN_MACHINE.alone():
        assert OWN_MACHINE.stopped_s() == 0


def test_a_case_asks_for_memory_after_it_has_reported_what_it_still_holds(tmp_path):
    said = []
    account = tmp_path / "account"
    account.write_text("0")
    connection = ParentConnection(said.append, iter(['{"reserved": true}']))
    allocator = SimpleNamespace(release_unused=lambda: said.append("released"))
    machine = SharedMachine(connection, str(account))
    progress = Progress(said.append, machine, allocator)
    progress.reserve(700)
    assert said == ["released", "build", '{"needed_bytes":700}']
    assert progress.time.spent_s.keys() == {WAITING_FOR_MEMORY}


def test_a_case_that_shares_with_no_other_asks_for_no_memory():
    progress = Progress(lambda stage: None)
    progress.reserve(700)
    assert not progress.time.spent_s


def test_its_clock_stands_still_while_it_is_stopped(parent):
    before = parent.machine.running_s()
    parent.account.write_text("1000")
    assert parent.machine.running_s() - before < 0, "1,000 s were no time of its own"


def test_the_wait_for_a_turn_is_an_activity_of_its_own(parent):
    progress = Progress(lambda stage: None, parent.machine)
    with progress.spend("run"), progress.alone():
        assert WAITING in progress.time.spent_s


def test_a_stop_counts_as_taken_by_others(parent):
    others = OtherProcesses(parent.machine.stopped_s)
    parent.account.write_text("1000")
    assert others.share() == 1.0


class Turns:
    """Notes what is done with the turn."""

    stopped_s = 0.0

    def __init__(self):
        self.done = []

    def take(self, waiting):
        self.done.append("take")

    def give_back(self):
        self.done.append("give back")


class Child:
    def send(self, message):
        self.sent = message


def test_a_turn_ends_with_its_case():
    turns, child = Turns(), Child()
    turn = AttemptTurn(turns, lambda: None)
    turn.over()
    assert turns.done == []
    turn.answer(child, alone=True)
    assert child.sent == {"alone": True}
    turn.over()
    turn.over()
    assert turns.done == ["take", "give back"]


def test_a_child_that_does_nothing_in_its_turn_lets_others_go_on(monkeypatch):
    """A stopped process may hold the lock of a file that it waits for."""
    monkeypatch.setattr(attempt_turn, "_LENT_S", 0.0)
    turns = Turns()
    turn = AttemptTurn(turns, lambda: None)
    for _ in range(20):
        turn.lend(5.0, idle=True)
    assert turns.done == [], "it has no turn"
    turn.answer(Child(), alone=True)
    for _ in range(20):
        turn.lend(5.0, idle=False)
    assert turns.done == ["take"]
    for _ in range(12):
        turn.lend(5.0, idle=True)
    assert turns.done == ["take", "give back", "take"]
