"""A GPU that is gone ends the session once; an error of one model's kernel does not."""

import pytest

from compilegate.processes.child_process import ObserverError
from compilegate.processes.lost_device import is_suspected, why_gone
from compilegate.records.environment import Device
from compilegate.session.observations import Observations
from tests.unit.making import make_environment, make_failure, make_observation
from tests.unit.planned import CPU, GPU, FakeObserver, make_options, make_plan_of

OTHER_GPU = GPU.parse("large-cuda-infer-f32-default-static")
GPUS = make_environment(devices=(Device(kind="cuda", name="H200", memory_bytes=1, cores=1),))
LOST = "CUDA error: GPU is lost"


def failed(status, message="", kind="RuntimeError", case=GPU):
    failure = make_failure(stage="eager", kind=kind, message=message)
    return make_observation(case=case.id, status=status, failure=failure)


@pytest.mark.parametrize(
    "observation",
    [
        failed("raised", LOST),
        failed("raised", "device-side assert triggered", kind="AcceleratorError"),
        failed("raised", "CUDA error: unspecified launch failure"),
        failed("raised", "CUDA driver error: unknown error"),
        failed("raised", "No CUDA GPUs are available"),
        failed("raised", "Found no NVIDIA driver on your system."),
        failed("raised", "cuBLAS failed: CUBLAS_STATUS_EXECUTION_FAILED"),
        failed("crashed", "the process died of SIGABRT", kind="SIGABRT"),
        failed("timed_out", "no progress for 300 s", kind="timeout"),
    ],
)
def test_an_error_of_the_device_a_crash_or_a_hang_raises_a_suspicion(observation):
    assert is_suspected(observation)


@pytest.mark.parametrize(
    "observation",
    [
        make_observation(case=GPU.id),
        failed("raised", "mat1 and mat2 shapes cannot be multiplied"),
        failed("out_of_memory", "CUDA error: out of memory"),
        failed("raised", LOST, case=CPU),
        failed("timed_out", case=CPU),
    ],
)
def test_a_model_s_own_error_raises_none(observation):
    assert not is_suspected(observation)


class Observer(FakeObserver):
    """Every case fails as a lost GPU does; new processes find an environment, or die."""

    def __init__(self, found, status="raised"):
        self.found, self.status, self.asked = found, status, []

    def observe(self, request, **_):
        self.asked.append(request.case)
        return failed(self.status, LOST, case=GPU.parse(request.case))

    def environment(self, timeout_s):
        assert 0 < timeout_s <= 120
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


DEAD = ObserverError(f"python exited with status 1:\n  File …\nRuntimeError: {LOST}\n")
HANGS = ObserverError("python did not answer within 90 s when asked for its environment:")


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (GPUS, ""),
        (make_environment(devices=()), "it finds no cuda device"),
        (DEAD, f"RuntimeError: {LOST}"),
        (HANGS, "python did not answer within 90 s when asked for its environment"),
    ],
)
def test_a_new_process_decides_whether_a_device_is_gone(found, why):
    assert why_gone(Observer(found), "cuda") == why


@pytest.mark.parametrize("status", ["raised", "timed_out"])
@pytest.mark.parametrize("found", [GPUS, DEAD])
def test_a_case_is_judged_and_later_ones_are_unobservable_only_without_a_gpu(
    tmp_path, status, found
):
    observer = Observer(found, status)
    plan = make_plan_of(make_options(tmp_path), cases=[CPU, GPU, OTHER_GPU], observer=observer)
    observations = Observations(plan, lambda *_: None)
    assert observations.why_unobservable(OTHER_GPU) == ""
    assert observations.observe(GPU)[0].status == status
    assert [observations.why_unobservable(case) for case in (CPU, GPU)] == ["", ""]
    why = observations.why_unobservable(OTHER_GPU)
    assert bool(why) is (found is DEAD)
    assert why.endswith(LOST) is (found is DEAD)
