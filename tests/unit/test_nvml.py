"""NVML: a query that one GPU does not support costs that figure alone."""

import pytest

from compilegate.observe.device.nvml import NvmlSensors
from compilegate.records.performance import Condition

LATER = "nvmlDeviceGetCurrentClocksEventReasons"
FORMER = "nvmlDeviceGetCurrentClocksThrottleReasons"


class NVMLError(Exception):
    pass


class Nvml:
    """A hot GPU that does not support some queries, and a binding that lacks some."""

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

        def query(handle, *arguments):
            if name in self.mute:
                raise NVMLError("Not Supported")
            return answers[name]

        return query


def condition(*mute, **binding):
    sensors = NvmlSensors.__new__(NvmlSensors)
    sensors._nvml, sensors._handle = Nvml(*mute, **binding), None
    return sensors.condition()


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
def test_a_query_without_an_answer_leaves_its_figure_unknown(mute, seen):
    assert condition(*mute) == seen


@pytest.mark.parametrize("lacks", [FORMER, LATER])
def test_the_query_for_throttling_has_the_name_that_the_binding_knows(lacks):
    assert condition(lacks=lacks).throttled == HOT["throttled"]


@pytest.mark.parametrize("mute", [FORMER, LATER])
def test_the_query_for_throttling_has_the_name_that_the_driver_knows(mute):
    assert condition(mute, lacks=None).throttled == HOT["throttled"]
