"""A case is observed again without extreme numbers if eager alone dies of them, and only then."""

import dataclasses

import pytest

from compilegate.processes import deadly_probes
from compilegate.processes.attempt import Attempt
from compilegate.processes.observer import Observer
from compilegate.records.observation import BUSY_MACHINE, EARLIER_ATTEMPTS
from compilegate.records.request import Request
from tests.unit.making import CASE_ID, make_failed_observation, make_observation

REQUEST = Request(case=CASE_ID, wants=("capture",), in_turns=True)


def ended(status="crashed", kind="SIGSEGV", probing="NaN in the first row"):
    made = make_failed_observation(status, stage="probe", kind=kind)
    attempt = Attempt(REQUEST, None, 1.0, made)
    attempt.probing = probing
    return attempt


def returned():
    return Attempt(REQUEST, None, 1.0, make_observation())


def again(first, alone=ended, request=REQUEST):
    """Return the request for another attempt, and the requests of attempts in eager alone."""
    asked = []

    def begin(given):
        asked.append(given)
        return alone()

    return deadly_probes.without_them(request, first, begin), asked


def test_a_case_is_observed_again_if_eager_alone_dies():
    found, asked = again(ended())
    assert found.unprobed == "eager dies of SIGSEGV in the call with NaN in the first row"
    assert (found.in_turns, found.eager_extremes) == (True, False)
    assert [(one.in_turns, one.eager_extremes) for one in asked] == [(False, True)]
    hangs = again(ended("timed_out", "timeout"))[0].unprobed
    assert hangs == "eager does not return in the call with NaN in the first row"


def test_a_gpu_that_eager_alone_loses_is_as_good_as_a_death():
    def lost(probing="NaN in the first row"):
        made = ended("raised", "AcceleratorError", probing)
        message = "CUDA error: device-side assert triggered"
        failure = dataclasses.replace(made.observation.failure, message=message)
        made.observation = dataclasses.replace(made.observation, failure=failure)
        return made

    found, asked = again(lost(), alone=lost)
    ending = "'CUDA error: device-side assert triggered'"
    assert found.unprobed == f"eager ends in {ending} in the call with NaN in the first row"
    assert len(asked) == 1
    assert again(lost(), alone=returned)[0] is None  # compiled code may have lost it
    assert again(lost(probing="")) == (None, [])
    assert again(ended("raised", "RuntimeError")) == (None, [])


def test_a_call_in_which_eager_loses_the_gpu_is_left_out_alone():
    def lost():
        made = ended("raised", "AcceleratorError", probing="")
        made.lost_in = "numbers 32 times as large"
        return made

    found, asked = again(lost())
    assert [*found.unprobed_calls] == ["numbers 32 times as large"]
    assert not found.unprobed
    assert asked == []  # compiled code had done nothing that was not waited for
    often = dataclasses.replace(REQUEST, unprobed_calls=dict.fromkeys("abcd", "eager ends"))
    assert again(lost(), request=often) == (None, [])
    crashed = ended(probing="")
    crashed.lost_in = "numbers 32 times as large"
    assert again(crashed) == (None, [])


class Loses(Observer):
    """Loses the GPU in calls of the given probes, one after the other."""

    def __init__(self, *probes):
        self.left, self.asked = [*probes], []

    def begin(self, request, **how):
        self.asked.append(request)
        if not self.left:
            return returned()
        made = ended("raised", "AcceleratorError", probing="")
        made.observation = dataclasses.replace(made.observation, spent_s={"compile": 2.0})
        made.lost_in = self.left.pop(0)
        return made


def test_a_case_is_observed_again_for_each_call_that_loses_the_gpu():
    observer = Loses("numbers 32 times as large", "other numbers in modules")
    made = observer.observe(REQUEST, model="m", device="cuda", timeout_s=1.0)
    assert made.status == "completed"
    assert [len(one.unprobed_calls) for one in observer.asked] == [0, 1, 2]
    assert made.spent_s[EARLIER_ATTEMPTS] == 4.0


def test_a_death_that_compiled_code_may_have_caused_stays():
    assert again(ended(), alone=returned)[0] is None


@pytest.mark.parametrize(
    "first",
    [
        returned(),
        ended(probing=""),  # compiled code runs
        ended("timed_out", BUSY_MACHINE),
        ended("out_of_memory", "SIGKILL"),
    ],
)
def test_no_other_end_is_looked_into(first):
    assert again(first) == (None, [])


def test_a_case_is_observed_again_only_once():
    without = Request(case=CASE_ID, wants=("capture",), unprobed="eager dies of SIGSEGV")
    assert again(ended(), request=without) == (None, [])
