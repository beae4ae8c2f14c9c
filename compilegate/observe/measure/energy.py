"""The energy of a call, eager against compiled, by the device's own counter.

The counter moves in steps of up to a tenth of a second. Each block of calls therefore begins and
ends at a step, and compilegate counts the calls between the two. Two blocks of eager enclose a
longer one of compiled code, so that a GPU that warms up adds the same to both sides.
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
        before = _block(device, sensors, eager, _SIDE_S / 2)
        between = _block(device, sensors, compiled, _SIDE_S)
        after = _block(device, sensors, eager, _SIDE_S / 2)
    except UnavailableError as error:
        return Energy(unavailable=str(error))
    return Energy(eager_j=(before + after) / 2, compiled_j=between)


def _block(device: Device, sensors: Sensors, step: Step, seconds: float) -> float:
    """Return the joules of one call, averaged over a block of them."""
    start = _at_next_step(device, sensors, step)[0]
    calls, deadline = 0, time.monotonic() + seconds
    while time.monotonic() < deadline:
        step()
        device.synchronize()
        calls += 1
    end, more = _at_next_step(device, sensors, step)
    return (end - start) / (calls + more)


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
