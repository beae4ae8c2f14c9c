"""NVML: what one GPU does not answer costs that figure only."""

import pytest

from fixtures.observation import Condition
from fixtures.observe.nvml import Gpu


class NVMLError(Exception):
    pass


class Nvml:
    """A GPU that is hot, and does not answer some queries."""

    NVMLError = NVMLError
    NVML_CLOCK_SM = NVML_TEMPERATURE_GPU = 1

    def __init__(self, *mute):
        self.mute = mute

    def __getattr__(self, name):
        answers = {
            "nvmlDeviceGetCurrentClocksThrottleReasons": 0x40,
            "nvmlDeviceGetClockInfo": 1980,
            "nvmlDeviceGetTemperature": 91,
            "nvmlDeviceGetPowerUsage": 650_000,
        }

        def ask(handle, *what):
            if name in self.mute:
                raise NVMLError("Not Supported")
            return answers[name]

        return ask


def condition(*mute):
    gpu = Gpu.__new__(Gpu)
    gpu._nvml, gpu._handle = Nvml(*mute), None
    return gpu.condition()


HOT = {"throttled": ("hw_thermal_slowdown",)}


@pytest.mark.parametrize(
    ("mute", "seen"),
    [
        ((), Condition(sm_mhz=1980, temperature_c=91, power_w=650.0, **HOT)),
        (
            ("nvmlDeviceGetPowerUsage",),
            Condition(sm_mhz=1980, temperature_c=91, power_w=None, **HOT),
        ),
        (
            ("nvmlDeviceGetClockInfo", "nvmlDeviceGetTemperature"),
            Condition(sm_mhz=None, temperature_c=None, power_w=650.0, **HOT),
        ),
        (("nvmlDeviceGetCurrentClocksThrottleReasons",), None),
    ],
)
def test_what_is_not_answered_is_not_known(mute, seen):
    assert condition(*mute) == seen
