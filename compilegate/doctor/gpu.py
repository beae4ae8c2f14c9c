"""What a runner's GPU must be: known to the driver, idle, and at its normal clocks.

https://docs.nvidia.com/deploy/nvml-api/
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from compilegate.doctor.check import Check, has, lacks

#: The share of a GPU's time, in per cent, that nobody may use.
_IDLE_PERCENT = 5
#: Why clocks may be held down so that timing says little: the bits of NVML's clock event reasons.
_HELD = {
    0x08: "hw_slowdown",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake",
}
_DRIVER = "install NVIDIA's driver, and see that nvidia-smi works for this user"


def checks(nvml: Any = None) -> Iterator[Check]:
    """Check the driver and each GPU that it knows.

    Args:
        nvml: The binding of NVML; by default that of ``nvidia-ml-py``.
    """
    if nvml is None:
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError as error:
            yield lacks("driver", f"pynvml cannot be imported: {error}", "pip install nvidia-ml-py")
            return
    try:
        nvml.nvmlInit()
        driver = nvml.nvmlSystemGetDriverVersion()
        cuda = nvml.nvmlSystemGetCudaDriverVersion_v2()
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError as error:
        yield lacks("driver", f"NVML: {error}", _DRIVER)
        return
    if not count:
        yield lacks("driver", f"{driver} knows no GPU", _DRIVER)
        return
    yield has("driver", f"{driver}, for CUDA up to {cuda // 1000}.{cuda % 1000 // 10}")
    for index in range(count):
        try:
            yield from _of_gpu(nvml, index)
        except nvml.NVMLError as error:
            yield lacks(f"GPU {index}", f"NVML: {error}", "nvidia-smi -q; restart the machine")


def _of_gpu(nvml: Any, index: int) -> Iterator[Check]:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    kind = nvml.nvmlDeviceGetName(handle)
    processes = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    percent = nvml.nvmlDeviceGetUtilizationRates(handle).gpu
    name, text = f"idle GPU {index}", f"{kind}: {len(processes)} processes, {percent}% busy"
    if processes or percent > _IDLE_PERCENT:
        numbers = ", ".join(str(process.pid) for process in processes) or "unknown"
        way = f"end what uses it (processes {numbers})"
        yield lacks(name, text, way)
    else:
        yield has(name, text)
    now = nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)
    most = nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)
    bits = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    name, text = f"clocks of GPU {index}", f"{now} of {most} MHz"
    held = [reason for bit, reason in _HELD.items() if bits & bit]
    if held:
        way = "cool it, or check its power supply (nvidia-smi -q -d PERFORMANCE)"
        yield lacks(name, f"{text}, held down: {', '.join(held)}", way)
    else:
        yield has(name, text)
