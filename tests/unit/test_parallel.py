"""Work on many cases is the same in one process and in several."""

import os

import pytest

from compilegate.runs.parallel import MANY, over
from compilegate.runs.reader import RunError

CASES = [f"case {index}" for index in range(50)]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_results_come_in_the_order_of_the_cases(workers):
    suffix = object()  # a process gets by forking what could not be sent to it
    found = over(CASES, lambda case: f"{case}{'' if suffix else '!'}", workers)
    assert found == CASES


def test_the_work_is_shared_between_processes():
    pids = set(over(CASES, lambda case: os.getpid(), 2))
    assert os.getpid() not in pids
    assert set(over(CASES, lambda case: os.getpid(), 1)) == {os.getpid()}


def test_few_cases_need_no_other_process():
    assert set(over(CASES, lambda case: os.getpid())) == {os.getpid()}
    assert len(CASES) < MANY


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_the_work_is_raised_by_the_caller(workers):
    def work(case):
        raise RunError(f"{case}: not a record")

    with pytest.raises(RunError, match=r"case \d+: not a record"):
        over(CASES, work, workers)


def test_no_cases_give_no_results():
    assert over([], str) == []
