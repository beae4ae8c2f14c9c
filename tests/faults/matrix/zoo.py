"""A zoo file: ``KIND.MODEL`` is a model of the shipped zoo with a fault planted in its process.

``sound.MODEL`` is its twin without a fault, which keeps the results of compiled code.
"""

from __future__ import annotations

from compilegate import Example, model
from compilegate.zoo import registry
from tests.faults.catalogue import SOUND
from tests.faults.matrix.cells import FAMILIES
from tests.faults.matrix.kinds import KINDS

_SHIPPED = registry.load()


def _enter(kind: str, name: str) -> None:
    shipped = _SHIPPED[name]

    @model(
        f"{kind}.{name}",
        family="matrix",
        vary=shipped.vary,
        vary_cuda=shipped.vary_cuda,
        blocks=shipped.blocks,
        requires=shipped.requires,
    )
    def build(device: str) -> Example:
        from tests.faults.planting import effects, install

        install(kind, name, effects.around(keeps=kind == SOUND))
        return shipped.example(device)


for _name in (name for family in FAMILIES.values() for name in family):
    for _kind in (SOUND, *KINDS):
        _enter(_kind, _name)
