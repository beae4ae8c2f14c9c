"""Workers of one session: which case each of them takes."""

from collections import Counter
from types import SimpleNamespace

import pytest

from compilegate.records.case import case_id_of, model_of, suite_of
from compilegate.session.scheduling import CaseScheduling

pytest_plugins = "pytester"

SECONDS = {"quick": 1.0, "slow": 50.0, "medium": 20.0}


#: Eight settings.
SETTINGS = [
    f"{p}-default-{d}" for p in ("f32", "bf16") for d in ("static", "auto", "dynamic", "marked")
]


def nodeid(model, suite="forward", phase="infer", setting="f32-default-static"):
    return f"suites/test_{suite}.py::test_it[{model}-cpu-{phase}-{setting}]"


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


def ran(pytester, tests, workers, prefer, took=lambda test: 0.0):
    """Return what ran where, in order. Of the workers that can run, one runs a test at a time."""
    config = pytester.parseconfig("-p", "xdist", "--tx", f"{workers}*popen")
    scheduling = CaseScheduling(
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
        scheduling.mark_test_complete(node, index, took(tests[index]))
        found.append((node.name, tests[index]))
    assert not scheduling.has_pending
    assert all(node.shutting_down for node in nodes)
    return found


def in_turns():
    """Return what lets workers run one test each, one after the other."""
    order = []

    def prefer(able):
        node = min(able, key=lambda node: (order.count(node.name), node.name))
        order.append(node.name)
        return node

    return prefer


def models_by_worker(found):
    taken = {}
    for worker, test in found:
        models = taken.setdefault(worker, [])
        if (model := model_of(case_id_of(test))) not in models[-1:]:
            models.append(model)
    return taken


def test_a_worker_takes_the_model_with_the_most_seconds_and_stays_with_it(pytester):
    suites, phases = ("forward", "memory", "speedup"), ("infer", "train")
    tests = [nodeid(m, suite, p) for suite in suites for m in SECONDS for p in phases]
    found = ran(pytester, tests, 1, lambda able: able[0])
    assert models_by_worker(found) == {"gw0": ["slow", "medium", "quick"]}
    cases = [*dict.fromkeys(case_id_of(test) for _, test in found)]
    assert [case.split("-")[2] for case in cases] == ["train", "infer"] * 3
    assert [suite_of(test) for _, test in found] == [*suites] * len(cases)


def test_a_worker_without_a_model_helps_the_one_with_the_most_left(pytester):
    tests = [nodeid("quick"), *(nodeid("slow", setting=setting) for setting in SETTINGS)]
    found = ran(pytester, tests, 3, in_turns())
    taken = models_by_worker(found)
    assert sum("slow" in models for models in taken.values()) == 3
    assert sorted(test for _, test in found) == sorted(tests)


@pytest.mark.parametrize(("takes_s", "helped"), [(1.0, {"quick", "slow"}), (99.0, {"slow"})])
def test_a_model_whose_cases_took_longer_than_planned_is_helped_first(
    pytester, monkeypatch, takes_s, helped
):
    for model in SECONDS:
        monkeypatch.setitem(SECONDS, model, 10.0)
    tests = [nodeid(model, setting=setting) for model in sorted(SECONDS) for setting in SETTINGS]
    found = ran(pytester, tests, 4, in_turns(), lambda test: takes_s if "slow" in test else 1.0)
    taken = models_by_worker(found)
    first = Counter(models[0] for models in taken.values())
    shared = first.most_common(1)[0][0]
    assert {models[1] for models in taken.values() if models[0] == shared} == helped, taken


def test_half_of_the_workers_begin_with_training(pytester):
    tests = [nodeid(model, phase=phase) for model in SECONDS for phase in ("infer", "train")]
    found = ran(pytester, tests, 2, in_turns())
    phases = {worker: case_id_of(test).split("-")[2] for worker, test in reversed(found)}
    assert phases == {"gw0": "train", "gw1": "infer"}


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
    scheduling = CaseScheduling(
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


@pytest.mark.parametrize("suites", [("forward",), ("forward", "upgrade")])
def test_the_new_worker_of_a_session_with_one_runs_all_that_is_left(pytester, suites):
    """It needs two tests to begin, and each case has one."""
    config = pytester.parseconfig("-p", "xdist", "--tx", "1*popen")
    scheduling = CaseScheduling(
        config, None, lambda case: SECONDS[case.model], lambda test: "upgrade" in test
    )
    tests = [nodeid("quick", suite, phase) for suite in suites for phase in ("infer", "train")]
    dead, new = map(Worker, ("gw0", "gw1"))
    scheduling.add_node(dead)
    scheduling.add_node_collection(dead, tests)
    scheduling.schedule()
    assert scheduling.remove_node(dead)
    scheduling.add_node(new)
    scheduling.add_node_collection(new, tests)
    scheduling.schedule()
    while new.can_run:
        scheduling.mark_test_complete(new, new.waiting.pop(0))
    assert not scheduling.has_pending
    assert new.shutting_down
