"""Workers of one session: which model each of them takes."""

from collections import OrderedDict

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
