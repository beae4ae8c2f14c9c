"""A device that a case loses costs that case alone: the process observes no further one."""

import pytest
import torch

from compilegate.observe.device import DEVICES
from compilegate.observe.device.cpu import Cpu
from compilegate.observe.model_session import ModelSession
from compilegate.records.request import Request
from compilegate.zoo.example import Example
from compilegate.zoo.registry import Model
from tests.unit.observed import Linear

LOST = "CUDA error: GPU is lost"
CASE = "m-cpu-infer-f32-default-static"


class Losable(Cpu):
    """The processor, which answers everything with an error once it is lost."""

    can_be_lost = True
    error = None

    def _answer(self):
        if self.error is not None:
            raise self.error

    def synchronize(self):
        self._answer()

    def generator_state(self):
        self._answer()
        return super().generator_state()


@pytest.fixture
def device(monkeypatch):
    losable = Losable()
    monkeypatch.setitem(DEVICES, "cpu", losable)
    return losable


def observe(action, backend="eager"):
    build = lambda: Example(Linear(action), inputs=(torch.ones(2, 4),))  # noqa: E731
    session = ModelSession({"m": Model("m", "m", build=build)}, lambda stage: None)
    request = Request(case=CASE, wants=("capture",), backend=backend)
    return session.observe(request), session.is_spoiled


@pytest.mark.parametrize("kind", [torch.AcceleratorError, RuntimeError])
@pytest.mark.parametrize(
    "text",
    [
        LOST,
        "CUDA error: device-side assert triggered\nCompile with `TORCH_USE_CUDA_DSA` to enable …",
        "CUDA error: unspecified launch failure",
        "CUDA error: an illegal memory access was encountered",
    ],
)
@pytest.mark.parametrize("is_lost", [True, False])
def test_an_error_that_loses_the_device_is_the_case_s_and_the_last_of_its_process(
    device, kind, text, is_lost
):
    def lose(x, y):
        error = kind(text)
        device.error = error if is_lost else None
        raise error

    seen, is_spoiled = observe(lose)
    first = text.partition("\n")[0]
    assert (seen.status, seen.failure.kind, seen.failure.message) == (
        "raised",
        kind.__name__,
        first,
    )
    assert is_spoiled is is_lost


def test_a_device_that_compiled_code_alone_loses_is_lost_in_the_stage_that_compiles(device):
    def backend(graph, inputs):
        def run(*arguments):
            device.error = torch.AcceleratorError(LOST)
            raise device.error

        return run

    seen, is_spoiled = observe(lambda x, y: y, backend)
    assert (seen.status, seen.failure.stage, seen.failure.message) == ("raised", "compile", LOST)
    assert is_spoiled


def test_a_process_whose_device_works_observes_the_next_case(device):
    seen, is_spoiled = observe(lambda x, y: y)
    assert (seen.status, is_spoiled) == ("completed", False)
