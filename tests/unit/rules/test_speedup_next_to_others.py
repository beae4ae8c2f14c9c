"""A slow call next to other processes: how much of the processor may they take?"""

import dataclasses

import pytest

from compilegate.judging.budget import Budget
from compilegate.suites import test_speedup
from tests.unit.making import make_observation, make_timing


@pytest.mark.parametrize(
    ("threads", "share", "outcome"),
    [(16, 0.12, "inconclusive"), (16, 0.02, "failed"), (2, 0.12, "failed"), (0, 0.12, "failed")],
    ids=["two cores of sixteen", "a third of a core", "a quarter of a core", "on a GPU"],
)
def test_threads_that_wait_for_each_other_need_more_quiet(threads, share, outcome):
    timing = dataclasses.replace(make_timing(1.0), busy=share, threads=threads)
    finding = test_speedup.rule(make_observation(timing=timing), Budget(min_speedup=1.5))
    assert finding.outcome == outcome
    waits = "other processes took 12% of the processor, and the 16 threads of a call wait for"
    assert (waits in finding.summary) == (outcome == "inconclusive")


@pytest.mark.parametrize(
    ("one_thread_ns", "outcome"), [(30e3, "inconclusive"), (6e6, "passed"), (0.0, "passed")]
)
def test_calls_that_threads_lengthen_show_no_speedup(one_thread_ns, outcome):
    timing = make_timing(1.02, eager_ns=7e6)
    timing = dataclasses.replace(timing, busy=0.6, threads=2, one_thread_ns=one_thread_ns)
    finding = test_speedup.rule(make_observation(timing=timing), Budget(min_speedup=1.0))
    assert finding.outcome == outcome
    waits = "threads waited for each other: an eager call took 7 ms, with one thread 0.03 ms"
    assert finding.summary.endswith(waits) == (outcome == "inconclusive")
