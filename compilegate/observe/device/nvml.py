"""What NVML reports about a GPU: clocks, temperature, power, energy.

The binding (``nvidia-ml-py``) is optional: any environment with torch can be observed.
https://docs.nvidia.com/deploy/nvml-api/
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compilegate.observe.device.protocol import UnavailableError
from compilegate.records.performance import Condition

#: The reasons by which NVML explains clocks that are held down. NVML has other reasons, such as an
#: idle GPU or clocks that an administrator set, which do not count as throttling.
_THROTTLES = {
    0x04: "sw_power_cap",
    0x08: "hw_slowdown",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake",
}
#: The query for them, by its name and by its former name, which older bindings and drivers know.
_REASONS = (
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
)


class NvmlSensors:
    """The sensors of one GPU.

    Args:
        uuid: The GPU's UUID, without the prefix ``GPU-``.

    Raises:
        UnavailableError: The binding or the driver's library is absent, or does not know the GPU.
    """

    def __init__(self, uuid: object) -> None:
        try:
            import pynvml
        except ImportError as error:
            raise UnavailableError("nvidia-ml-py is not installed") from error
        self._nvml: Any = pynvml
        try:
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        except pynvml.NVMLError as error:
            raise UnavailableError(f"NVML: {error}") from error

    def condition(self) -> Condition | None:
        """Return the GPU's condition; None if NVML does not report why it throttles."""
        nvml = self._nvml
        queries = (getattr(nvml, name, None) for name in _REASONS)
        answers = (self._answer(query) for query in queries if query is not None)
        reasons = next((answer for answer in answers if answer is not None), None)
        if reasons is None:
            return None
        power_mw = self._answer(nvml.nvmlDeviceGetPowerUsage)
        return Condition(
            sm_mhz=self._answer(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
            temperature_c=self._answer(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
            power_w=None if power_mw is None else power_mw / 1000,
            throttled=tuple(name for bit, name in _THROTTLES.items() if reasons & bit),
        )

    def _answer(self, query: Callable[..., int], *arguments: int) -> int | None:
        """Return NVML's answer to a query; None where this GPU does not support it."""
        try:
            return query(self._handle, *arguments)
        except self._nvml.NVMLError:
            return None

    def energy_j(self) -> float:
        """Return the joules that the GPU has consumed since the driver was loaded.

        Raises:
            UnavailableError: The GPU has no such counter.
        """
        try:
            return float(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)) / 1000
        except self._nvml.NVMLError as error:
            raise UnavailableError(f"NVML: {error}") from error

    def limits(self) -> dict[str, str]:
        """Return the highest clock and the most power of the GPU, where NVML reports them."""
        nvml = self._nvml
        clock = self._answer(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_SM)
        power_mw = self._answer(nvml.nvmlDeviceGetPowerManagementLimit)
        found = {"maximum clock of the GPU": f"{clock} MHz"} if clock is not None else {}
        if power_mw is not None:
            found["power limit of the GPU"] = f"{power_mw / 1000:.0f} W"
        return found
