"""The energy of a call, eager against compiled, by the device's own counter.

The counter moves in steps of up to a tenth of a second. Each block of calls therefore begins and
ends at a step, and compilegate counts the calls between the two. A block begins where the one
before it ends. Two blocks of eager enclose a longer one of compiled code, so that a GPU that warms
up adds the same to both sides.
"""

from __future__ import annotations

import time

from compilegate.observe.device.protocol import Device, Sensors, Step, UnavailableError
from compilegate.records.performance import Energy

#: The blocks of each side last this many seconds together at least, which are six such steps. With
#: four, two measurements of the same call differed by 5% in the median.
_SIDE_S = 0.6
#: A counter that does not move for this many seconds is unavailable.
_PATIENCE_S = 2.0


def of_a_call(eager: Step, compiled: Step, *, device: Device, shares_gpu: bool = False) -> Energy:
    """Return the joules of one call of each, from blocks eager, compiled, eager.

    Args:
        eager: One eager call.
        compiled: One compiled call.
        device: Runs them, and has sensors.
        shares_gpu: Whether other cases run on this GPU at the same time: its counter adds them up.
    """
    if shares_gpu:
        return Energy(unavailable="other cases were observed on the same GPU")
    try:
        sensors = device.open_sensors()
        start_j, _ = _at_next_step(device, sensors, eager)
        joules = []
        for step, seconds in ((eager, _SIDE_S / 2), (compiled, _SIDE_S), (eager, _SIDE_S / 2)):
            calls = _calls_for(seconds, device, step)
            end_j, more = _at_next_step(device, sensors, step)
            joules.append((end_j - start_j) / (calls + more))
            start_j = end_j
    except UnavailableError as error:
        return Energy(unavailable=str(error))
    before, between, after = joules
    return Energy(eager_j=(before + after) / 2, compiled_j=between)


def _calls_for(seconds: float, device: Device, step: Step) -> int:
    """Make calls for some seconds; return how many."""
    calls, deadline = 0, time.monotonic() + seconds
    while time.monotonic() < deadline:
        step()
        device.synchronize()
        calls += 1
    return calls


def _at_next_step(device: Device, sensors: Sensors, step: Step) -> tuple[float, int]:
    """Call until the counter moves; return its joules then, and how many calls were made."""
    before = sensors.energy_j()
    calls, deadline = 0, time.monotonic() + _PATIENCE_S
    while (now := sensors.energy_j()) == before:
        if time.monotonic() > deadline:
            raise UnavailableError("NVML: the energy counter does not advance")
        step()
        device.synchronize()
        calls += 1
    return now, calls
