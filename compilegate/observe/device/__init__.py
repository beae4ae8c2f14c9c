"""The devices that compilegate supports, behind one protocol: see :mod:`.protocol`."""

from __future__ import annotations

from compilegate.observe.device.cpu import Cpu
from compilegate.observe.device.cuda import Cuda
from compilegate.observe.device.protocol import Device

#: Every device that cases can run on, by kind.
DEVICES: dict[str, Device] = {device.kind: device for device in (Cpu(), Cuda())}


def device(kind: str) -> Device:
    """Return the device of a kind.

    Args:
        kind: ``cpu`` or ``cuda``, as in case ids and as the type of a ``torch.device``.

    Raises:
        KeyError: compilegate does not support such a device.
    """
    return DEVICES[kind]


#: The bytes that the context of a device and its libraries take in each process.
_OF_A_CONTEXT = 1 << 30


def held_bytes() -> int:
    """Return the bytes that this process holds of the devices that it has initialised."""
    used = (d.allocator for d in DEVICES.values() if d.initialized_index() is not None)
    return sum(_OF_A_CONTEXT + each.reserved() for each in used if each is not None)
