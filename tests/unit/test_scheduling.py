"""Workers of one session: which model each of them takes."""

from collections import OrderedDict
from types import SimpleNamespace

import pytest

from compilegate.session.scheduling import ModelScheduling

pytest_plugins = "pytester"

SECONDS = {"quick": 1.0, "slow": 50.0, "medium": 20.0}


def nodeid(model, suite="forward", phase="infer"):
    return f"suites/test_{suite}.py::test_it[{model}-cpu-{phase}-f32-default-static]"


def test_a_worker_takes_the_model_with_the_most_seconds(pytester):
    config = pytester.parseconfig("-p", "xdist", "--tx", "2*popen")
    scheduling = ModelScheduling(config, None, lambda case: SECONDS[case.model])
    tests = [
        *(nodeid("quick", suite) for suite in ("forward", "memory", "speedup")),
        nodeid("slow"),
        *(nodeid("medium", phase=phase) for phase in ("infer", "train")),
        "tests/test_other.py::test_it[no-case]",
    ]
    scheduling.workqueue = OrderedDict()
    for test in tests:
        scheduling.workqueue.setdefault(scheduling._split_scope(test), {})[test] = False
    sent = []

    class Node:
        send_runtest_some = staticmethod(sent.extend)

    node = Node()
    scheduling.registered_collections = {node: tests}
    taken = []
    while scheduling.workqueue:
        before = {*scheduling.workqueue}
        scheduling._assign_work_unit(node)
        taken += before - {*scheduling.workqueue}
    assert taken[:3] == ["slow", "medium", "quick"]
    assert sorted(sent) == [*range(len(tests))]


class Worker:
    """Runs a test when it knows the next one, or that there is none, as xdist's workers do."""

    def __init__(self, name):
        self.name, self.waiting, self.shutting_down = name, [], False
        self.gateway = SimpleNamespace(id=name)

    def send_runtest_some(self, indices):
        self.waiting += indices

    def shutdown(self):
        self.shutting_down = True

    @property
    def can_run(self):
        return len(self.waiting) > (0 if self.shutting_down else 1)


def ran(pytester, tests, workers, prefer):
    """Return what ran where, in order. Of the workers that can run, one runs a test at a time."""
    config = pytester.parseconfig("-p", "xdist", "--tx", f"{workers}*popen")
    scheduling = ModelScheduling(
        config, None, lambda case: SECONDS[case.model], lambda test: "upgrade" in test
    )
    nodes = [Worker(f"gw{number}") for number in range(workers)]
    for node in nodes:
        scheduling.add_node(node)
        scheduling.add_node_collection(node, tests)
    scheduling.schedule()
    found = []
    while able := [node for node in nodes if node.can_run]:
        node = prefer(able)
        index = node.waiting.pop(0)
        scheduling.mark_test_complete(node, index)
        found.append((node.name, tests[index]))
    assert not scheduling.has_pending
    assert all(node.shutting_down for node in nodes)
    return found


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("prefer", [lambda able: able[0], lambda able: able[-1]])
def test_tests_that_wait_run_on_one_worker_after_all_others(pytester, workers, prefer):
    suites = ("forward", "memory", "upgrade")
    tests = [nodeid(model, suite) for suite in suites for model in SECONDS]
    found = ran(pytester, tests, workers, prefer)
    assert sorted(test for _, test in found) == sorted(tests)
    last = found[-len(SECONDS) :]
    assert {test for _, test in last} == {nodeid(model, "upgrade") for model in SECONDS}
    assert len({worker for worker, _ in last}) == 1
    assert len({worker for worker, _ in found}) == min(workers, len(SECONDS))


@pytest.mark.parametrize("suite", ["forward", "upgrade"])
def test_tests_of_one_kind_all_run(pytester, suite):
    tests = [nodeid(model, suite) for model in SECONDS]
    assert len(ran(pytester, tests, 2, lambda able: able[0])) == len(tests)


def test_a_new_worker_runs_what_one_that_died_has_left(pytester):
    """The other one ends as soon as only tests that wait are left for it."""
    config = pytester.parseconfig("-p", "xdist", "--tx", "2*popen")
    scheduling = ModelScheduling(
        config, None, lambda case: SECONDS[case.model], lambda test: "upgrade" in test
    )
    tests = [nodeid(model, s) for s in ("forward", "upgrade") for model in ("quick", "slow")]
    dead, ending, new = map(Worker, ("gw0", "gw1", "gw2"))
    for node in (dead, ending):
        scheduling.add_node(node)
        scheduling.add_node_collection(node, tests)
    scheduling.schedule()
    assert ending.shutting_down
    assert scheduling.remove_node(dead) == tests[dead.waiting[0]]
    scheduling.add_node(new)
    scheduling.add_node_collection(new, tests)
    scheduling.schedule()
    assert not new.can_run  # its last test waits for the other worker's
    for node in (ending, new):
        while node.can_run:
            scheduling.mark_test_complete(node, node.waiting.pop(0))
    assert not scheduling.has_pending
