"""What a GPU says of itself through NVML: clocks, temperature, power, energy.

The binding (``nvidia-ml-py``) is optional: any environment with torch can be observed.
https://docs.nvidia.com/deploy/nvml-api/
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from compilegate.records.performance import Condition

#: Reasons that hold clocks down, of those that NVML knows: idling or a chosen clock is none.
_THROTTLES = {
    0x04: "sw_power_cap",
    0x08: "hw_slowdown",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake",
}
#: The query for them, by its name and by its former one: older bindings and drivers know that only.
_REASONS = (
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
)


class UnavailableError(Exception):
    """NVML does not answer; the text says why."""


class Gpu:
    """The GPU that this process computes on.

    Raises:
        UnavailableError: The binding or the driver's library is absent, or does not know the GPU.
    """

    def __init__(self) -> None:
        try:
            import pynvml
        except ImportError as error:
            raise UnavailableError("nvidia-ml-py is not installed") from error
        self._nvml: Any = pynvml
        try:
            pynvml.nvmlInit()
            uuid = torch.cuda.get_device_properties(torch.cuda.current_device()).uuid
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        except pynvml.NVMLError as error:
            raise UnavailableError(f"NVML: {error}") from error

    def condition(self) -> Condition | None:
        """Its state now; None where NVML does not tell whether clocks are held down."""
        nvml = self._nvml
        queries = (getattr(nvml, name, None) for name in _REASONS)
        answers = (self._told(query) for query in queries if query is not None)
        reasons = next((answer for answer in answers if answer is not None), None)
        if reasons is None:
            return None
        power_mw = self._told(nvml.nvmlDeviceGetPowerUsage)
        return Condition(
            sm_mhz=self._told(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
            temperature_c=self._told(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
            power_w=None if power_mw is None else power_mw / 1000,
            throttled=tuple(name for bit, name in _THROTTLES.items() if reasons & bit),
        )

    def _told(self, ask: Callable[..., int], *what: int) -> int | None:
        """An answer of NVML; None where this GPU has none."""
        try:
            return ask(self._handle, *what)
        except self._nvml.NVMLError:
            return None

    def energy_j(self) -> float:
        """Joules taken since the driver was loaded.

        Raises:
            UnavailableError: The GPU has no such counter.
        """
        try:
            return float(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)) / 1000
        except self._nvml.NVMLError as error:
            raise UnavailableError(f"NVML: {error}") from error
