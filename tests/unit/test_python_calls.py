"""Calls of Python functions are counted one by one, whichever way Python reports them."""

import sys
import threading

import pytest

from compilegate.observe.measure.python_calls import Monitored, Profiled, counter

COUNTERS = [Profiled, Monitored] if sys.version_info >= (3, 12) else [Profiled]


class Made:
    def __init__(self):
        self.value = 1


def descend(depth):
    return descend(depth - 1) if depth else 0


def fail():
    raise KeyError


def generate(count):
    for number in range(count):
        try:
            yield number
        except ValueError:
            yield -1


def work():
    descend(9)
    list(generate(3))
    generated = generate(5)
    next(generated)
    generated.throw(ValueError)
    sorted([Made() for _ in range(10)], key=id)
    try:
        fail()
    except KeyError:
        return


def counted(counting, action):
    with counting as calls:
        action()
    return {code.co_qualname: count for code, count in calls.by_code()}


@pytest.mark.parametrize("kind", COUNTERS)
def test_every_entry_into_a_python_function_counts_once(kind):
    found = counted(kind(), work)
    # Both generators start. One goes on after each of three items; the other is given an error, and
    # another when it is closed. Python 3.11 calls a comprehension.
    found.pop("work.<locals>.<listcomp>", None)
    assert found == {
        "work": 1,
        "descend": 10,
        "generate": 7,
        "Made.__init__": 10,
        "fail": 1,
    }


@pytest.mark.parametrize("kind", COUNTERS)
def test_counting_ends_with_the_block_and_can_be_repeated(kind):
    counting = kind()
    with counting:
        pass
    work()
    assert counted(kind(), work) == counted(kind(), work)
    assert counting.by_code() == []


def test_other_threads_do_not_count():
    def in_a_thread():
        thread = threading.Thread(target=descend, args=(50,))
        thread.start()
        thread.join()

    assert "descend" not in counted(counter(), in_a_thread)
    assert counted(counter(), lambda: descend(50))["descend"] == 51


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with Python 3.12")
def test_a_tool_that_is_in_use_is_left_alone():
    sys.monitoring.use_tool_id(sys.monitoring.PROFILER_ID, "another")
    try:
        assert counted(Monitored(), work)["descend"] == 10
        assert sys.monitoring.get_tool(sys.monitoring.PROFILER_ID) == "another"
    finally:
        sys.monitoring.free_tool_id(sys.monitoring.PROFILER_ID)
