"""A zoo of faults: ``FAULT.VICTIM`` has a planted fault, ``sound.VICTIM`` is its sound twin.

A builder plants the fault in its own process, and that process observes this model alone.
"""

from __future__ import annotations

from compilegate import Example, model
from tests.faults.catalogue import COSTS, FAULTS, SOUND
from tests.faults.victims import find


def _enter(fault: str, name: str) -> None:
    victim = find(name)

    @model(f"{fault}.{name}", family="faults", vary=victim.vary, requires=victim.requires)
    def build() -> Example:
        if fault != SOUND:
            from tests.faults.planting import install

            install(fault, name)
        return victim.build()


_planted = [fault for fault in (*FAULTS, *COSTS) if not fault.shipped]
_entered = {(SOUND, name) for fault in _planted for name in fault.victims}
_entered |= {(fault.name, name) for fault in _planted for name in fault.victims}
for _fault, _name in sorted(_entered):
    _enter(_fault, _name)
