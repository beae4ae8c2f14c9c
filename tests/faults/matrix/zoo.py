"""A zoo file: ``planted.MODEL`` is a model of the shipped zoo, with the fault that is ordered.

The first builder of a case plants it. The process has nothing planted where the twin is ordered.
"""

from __future__ import annotations

from compilegate import Example, model
from compilegate.zoo import registry
from tests.faults.matrix.cells import FAMILY_OF

_SHIPPED = registry.load()


def _enter(name: str) -> None:
    shipped = _SHIPPED[name]

    @model(
        f"planted.{name}",
        family="matrix",
        vary=shipped.vary,
        vary_cuda=shipped.vary_cuda,
        blocks=shipped.blocks,
        requires=shipped.requires,
    )
    def build(device: str) -> Example:
        from tests.faults.planting import effects

        effects.obey(name)
        return shipped.example(device)


for _name in FAMILY_OF:
    _enter(_name)
