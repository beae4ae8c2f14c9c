"""The energy of a call, read from a counter that moves in steps."""

import pytest

from compilegate.observe.device.protocol import UnavailableError
from compilegate.observe.measure import energy
from compilegate.records.performance import Energy


class Accelerator:
    """A device whose counter shows the joules consumed, in steps, and that takes time for calls.

    Attributes:
        synchronized: How often the measurement waited for it.
    """

    def __init__(self, monkeypatch, *, step_j=1.0):
        self.now_s = self.consumed_j = 0.0
        self.synchronized = 0
        self._step_j = step_j
        monkeypatch.setattr(energy, "time", self)

    def monotonic(self):
        self.now_s += 0.0001
        return self.now_s

    def call(self, joules):
        def step():
            self.now_s += 0.001
            self.consumed_j += joules

        return step

    def synchronize(self):
        self.synchronized += 1

    def open_sensors(self):
        return self

    def energy_j(self):
        return self.consumed_j // self._step_j * self._step_j


def test_each_side_has_the_joules_of_one_call(monkeypatch):
    device = Accelerator(monkeypatch)
    found = energy.of_a_call(device.call(0.3), device.call(0.15), device=device)
    assert found.eager_j == pytest.approx(0.3, rel=0.02)
    assert found.compiled_j == pytest.approx(0.15, rel=0.02)
    assert found.unavailable == ""
    assert device.synchronized > 1000


def test_a_gpu_that_warms_up_adds_the_same_to_both_sides(monkeypatch):
    device = Accelerator(monkeypatch)

    def step():
        device.now_s += 0.001
        device.consumed_j += 0.3 * (1 + device.now_s)

    found = energy.of_a_call(step, step, device=device)
    assert found.eager_j > 0.3 * 1.3
    assert found.compiled_j == pytest.approx(found.eager_j, rel=0.02)


def test_a_counter_that_does_not_advance_is_unavailable(monkeypatch):
    device = Accelerator(monkeypatch)
    found = energy.of_a_call(device.call(0.0), device.call(0.0), device=device)
    assert found == Energy(unavailable="NVML: the energy counter does not advance")


def test_sensors_that_do_not_answer_are_unavailable(monkeypatch):
    device = Accelerator(monkeypatch)

    def refuse():
        raise UnavailableError("nvidia-ml-py is not installed")

    device.open_sensors = refuse
    found = energy.of_a_call(device.call(1.0), device.call(1.0), device=device)
    assert found == Energy(unavailable="nvidia-ml-py is not installed")


def test_a_shared_gpu_is_unavailable(monkeypatch):
    device = Accelerator(monkeypatch)
    found = energy.of_a_call(device.call(1.0), device.call(1.0), device=device, shares_gpu=True)
    assert "on the same GPU" in found.unavailable
    assert device.synchronized == 0
