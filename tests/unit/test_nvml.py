"""NVML: a query that one GPU does not support costs that figure alone."""

import sys
from types import ModuleType

import pytest

from compilegate.observe.device import device
from compilegate.observe.device.cpu import Cpu
from compilegate.observe.device.nvml import NvmlSensors
from compilegate.observe.device.protocol import UnavailableError
from compilegate.observe.measure import energy
from compilegate.observe.measure.rounds import paired_rounds
from compilegate.records.performance import Condition

LATER = "nvmlDeviceGetCurrentClocksEventReasons"
FORMER = "nvmlDeviceGetCurrentClocksThrottleReasons"


class NVMLError(Exception):
    pass


class Nvml:
    """A hot GPU that does not support some queries, and a binding that lacks some."""

    NVMLError = NVMLError
    NVML_CLOCK_SM = NVML_TEMPERATURE_GPU = 1

    def __init__(self, *mute, lacks=FORMER, left=1_000):
        self.mute, self.lacks, self.left = mute, lacks, left

    def __getattr__(self, name):
        answers = {
            LATER: 0x40,
            FORMER: 0x40,
            "nvmlDeviceGetClockInfo": 1980,
            "nvmlDeviceGetTemperature": 91,
            "nvmlDeviceGetPowerUsage": 650_000,
            "nvmlDeviceGetMaxClockInfo": 1980,
            "nvmlDeviceGetPowerManagementLimit": 700_000,
            "nvmlInit": None,
            "nvmlDeviceGetHandleByUUID": "handle",
            "nvmlDeviceGetTotalEnergyConsumption": 5_000,
        }
        if name == self.lacks:
            raise AttributeError(name)

        def query(*arguments):
            self.left -= 1
            if self.left < 0:
                raise NVMLError("GPU is lost")
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
    ],
)
def test_a_query_without_an_answer_leaves_its_figure_unknown(mute, seen):
    assert condition(*mute) == seen


def test_without_the_reasons_of_throttling_the_condition_is_unavailable():
    with pytest.raises(UnavailableError, match=r"^NVML: Not Supported$"):
        condition(LATER, FORMER)


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


class Accelerator(Cpu):
    """The processor, which has the sensors of a GPU."""

    has_sensors = True

    def open_sensors(self):
        return NvmlSensors("0")


def calls(device):
    """The timing and the energy of two calls of a device."""
    steps = (lambda: sum(range(1000)), lambda: sum(range(100)))
    timing = paired_rounds(*steps, device=device, seed=0, threshold=1.0, budget_s=0.2)
    return timing, energy.of_a_call(*steps, device=device)


@pytest.mark.parametrize(
    ("binding", "reason"),
    [
        pytest.param(None, "nvidia-ml-py is not installed", id="no binding"),
        pytest.param(Nvml("nvmlInit"), "NVML: Not Supported", id="no library of the driver"),
        pytest.param(
            Nvml("nvmlDeviceGetHandleByUUID"), "NVML: Not Supported", id="NVML does not know it"
        ),
        pytest.param(
            ModuleType("pynvml"),
            "NVML: module 'pynvml' has no attribute 'nvmlInit'",
            id="another package of that name",
        ),
        pytest.param(Nvml(left=2), "NVML: GPU is lost", id="it is lost after it was found"),
    ],
)
def test_without_nvml_energy_and_clocks_are_unavailable_and_the_rest_is_measured(
    monkeypatch, binding, reason
):
    monkeypatch.setitem(sys.modules, "pynvml", binding)
    timing, found = calls(Accelerator())
    assert (timing.conditions, timing.conditions_unavailable) == ((), reason)
    assert (found.eager_j, found.unavailable) == (0.0, reason)
    assert len(timing.eager_ns) == len(timing.compiled_ns) > 0


def test_conditions_that_were_read_before_nvml_failed_are_kept(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(left=6))  # one condition takes four queries
    timing, _ = calls(Accelerator())
    assert timing.conditions == (Condition(sm_mhz=1980, temperature_c=91, power_w=650.0, **HOT),)
    assert timing.conditions_unavailable == "NVML: GPU is lost"


def test_a_device_without_sensors_misses_nothing():
    timing, _ = calls(device("cpu"))
    assert (timing.conditions, timing.conditions_unavailable) == ((), "")
