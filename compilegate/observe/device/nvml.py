"""What NVML reports about a GPU: clocks, temperature, power, energy.

The binding (``nvidia-ml-py``) is optional: any environment with torch can be observed.
https://docs.nvidia.com/deploy/nvml-api/
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

from compilegate.observe import error_text
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
        UnavailableError: The binding or the driver's library is absent or broken, or does not know
            the GPU.
    """

    def __init__(self, uuid: object) -> None:
        try:
            import pynvml
        except ImportError as error:
            raise UnavailableError("nvidia-ml-py is not installed") from error
        except Exception as error:  # another package of that name
            text = error_text.with_kind(error)
            raise UnavailableError(f"pynvml cannot be imported: {text}") from error
        self._nvml: Any = pynvml
        self._ask("nvmlInit")
        self._handle = self._ask("nvmlDeviceGetHandleByUUID", f"GPU-{uuid}")

    def condition(self) -> Condition:
        """Return the GPU's condition.

        Raises:
            UnavailableError: NVML does not report why the GPU throttles.
        """
        nvml = self._nvml
        reasons, failure = None, UnavailableError("the binding of NVML has no query for throttling")
        for query in filter(partial(hasattr, nvml), _REASONS):
            try:
                reasons = int(self._ask(query, self._handle))
                break
            except UnavailableError as error:
                failure = error
        if reasons is None:
            raise failure
        power_mw = self._answer("nvmlDeviceGetPowerUsage")
        return Condition(
            sm_mhz=self._answer("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
            temperature_c=self._answer("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
            power_w=None if power_mw is None else power_mw / 1000,
            throttled=tuple(name for bit, name in _THROTTLES.items() if reasons & bit),
        )

    def _ask(self, query: str, *arguments: object) -> Any:
        """Return NVML's answer to a query.

        Raises:
            UnavailableError: There is none: NVML refuses, the GPU is lost, the binding is older
                than the query. Whatever it is, a case goes on without its sensors.
        """
        try:
            return getattr(self._nvml, query)(*arguments)
        except Exception as error:
            raise UnavailableError(f"NVML: {error_text.of(error)}") from error

    def _answer(self, query: str, *arguments: object) -> int | None:
        """Return NVML's answer about the GPU; None where there is none."""
        with contextlib.suppress(UnavailableError):
            return int(self._ask(query, self._handle, *arguments))
        return None

    def energy_j(self) -> float:
        """Return the joules that the GPU has consumed since the driver was loaded.

        Raises:
            UnavailableError: The GPU has no such counter.
        """
        return float(self._ask("nvmlDeviceGetTotalEnergyConsumption", self._handle)) / 1000

    def limits(self) -> dict[str, str]:
        """Return the highest clock and the most power of the GPU, where NVML reports them."""
        nvml = self._nvml
        clock = self._answer("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM)
        power_mw = self._answer("nvmlDeviceGetPowerManagementLimit")
        found = {"maximum clock of the GPU": f"{clock} MHz"} if clock is not None else {}
        if power_mw is not None:
            found["power limit of the GPU"] = f"{power_mw / 1000:.0f} W"
        return found
