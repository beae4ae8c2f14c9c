"""Finds out whether a GPU is gone for good, after a case on it has failed.

An error of a model's own kernel ends the process that ran it, and the next process has a working
GPU. A GPU that has fallen off the bus fails every case, or makes each of them hang until its limit.
"""

from __future__ import annotations

import re

from compilegate.processes.child_process import ObserverError
from compilegate.processes.observer import Observer
from compilegate.records.case import device_of
from compilegate.records.observation import Observation

#: How PyTorch, the driver and CUDA's libraries begin an error of the device, not of the model.
_DEVICE_ERROR = re.compile(
    r"AcceleratorError|(CUDA|HIP)( driver| unknown)? error|No CUDA GPUs|no NVIDIA driver"
    r"|GPU is lost|fallen off the bus|\b(CUBLAS|CUDNN|CUFFT|CUSPARSE|NCCL)_STATUS_\w+"
)
#: A new process that does not answer by then waits for a driver that hangs.
_PATIENCE_S = 90.0


def is_suspected(observation: Observation) -> bool:
    """Whether a case ended as it would if its device were lost."""
    failure = observation.failure
    if failure is None or device_of(observation.case) == "cpu":
        return False
    if observation.status == "raised":
        return _DEVICE_ERROR.search(f"{failure.kind}: {failure.message}") is not None
    return observation.status in ("crashed", "timed_out")


def why_gone(observer: Observer, kind: str) -> str:
    """Return why no new process can use a device of this kind; empty if one can.

    Args:
        observer: Starts the process, which lists the devices that it finds.
        kind: As in case ids: ``cuda``.
    """
    try:
        found = observer.environment(timeout_s=_PATIENCE_S)
    except ObserverError as error:
        return next(filter(str.strip, reversed(str(error).splitlines()))).strip(" :")
    return "" if found.device(kind) else f"it finds no {kind} device"
