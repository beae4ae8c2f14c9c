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
            "nvmlDeviceGetMaxClockInfo": 1980,
            "nvmlDeviceGetPowerManagementLimit": 700_000,
        }
        if name == self.lacks:
            raise AttributeError(name)

        def query(handle, *arguments):
            if name in self.mute:
                raise NVMLError("Not Supported")
            return answers[name]

        return query


def sensors(*mute, **binding):
    made = NvmlSensors.__new__(NvmlSensors)
    made._nvml, made._handle = Nvml(*mute, **binding), None
    return made


def condition(*mute, **binding):
    return sensors(*mute, **binding).condition()


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


def test_limits_that_the_gpu_does_not_report_are_left_out():
    limits = {"maximum clock of the GPU": "1980 MHz", "power limit of the GPU": "700 W"}
    assert sensors().limits() == limits
    assert sensors("nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetPowerManagementLimit").limits() == {}
