"""NVML: what one GPU does not answer costs that figure only."""

import pytest

from compilegate.observe.device.nvml import Gpu
from compilegate.records.performance import Condition

LATER = "nvmlDeviceGetCurrentClocksEventReasons"
FORMER = "nvmlDeviceGetCurrentClocksThrottleReasons"


class NVMLError(Exception):
    pass


class Nvml:
    """A GPU that is hot, and does not answer some queries; some the binding does not have."""

    NVMLError = NVMLError
    NVML_CLOCK_SM = NVML_TEMPERATURE_GPU = 1

    def __init__(self, *mute, lacks=FORMER):
        self.mute, self.lacks = mute, lacks

    def __getattr__(self, name):
        answers = {
            LATER: 0x40,
            FORMER: 0x40,
            "nvmlDeviceGetClockInfo": 1980,
            "nvmlDeviceGetTemperature": 91,
            "nvmlDeviceGetPowerUsage": 650_000,
        }
        if name == self.lacks:
            raise AttributeError(name)

        def ask(handle, *what):
            if name in self.mute:
                raise NVMLError("Not Supported")
            return answers[name]

        return ask


def condition(*mute, **binding):
    gpu = Gpu.__new__(Gpu)
    gpu._nvml, gpu._handle = Nvml(*mute, **binding), None
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
        ((LATER, FORMER), None),
    ],
)
def test_what_is_not_answered_is_not_known(mute, seen):
    assert condition(*mute) == seen


@pytest.mark.parametrize("lacks", [FORMER, LATER])
def test_why_clocks_are_held_down_is_asked_by_the_name_that_the_binding_has(lacks):
    assert condition(lacks=lacks).throttled == HOT["throttled"]


@pytest.mark.parametrize("mute", [FORMER, LATER])
def test_why_clocks_are_held_down_is_asked_by_the_name_that_the_driver_knows(mute):
    assert condition(mute, lacks=None).throttled == HOT["throttled"]
