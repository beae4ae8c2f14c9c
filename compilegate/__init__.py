"""May we move to this PyTorch? compilegate compiles a zoo of models and judges the result.

A zoo file needs :func:`model`, :class:`Example` and :class:`Call` from here, and :class:`Catalogue`
for hazards. They are imported on first use, because pytest loads this package in every session of
an environment that has it installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compilegate.zoo.example import Call, Example
    from compilegate.zoo.hazard import Catalogue
    from compilegate.zoo.registry import model

__all__ = ["Call", "Catalogue", "Example", "model"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from compilegate.zoo import example, hazard, registry  # noqa: PLC0415 (for a zoo file only)

    owners = {"model": registry, "Catalogue": hazard}
    return getattr(owners.get(name, example), name)
