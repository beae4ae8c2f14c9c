"""May we move to this PyTorch? compilegate compiles a zoo of models and judges the result.

A zoo file needs :func:`model`, :class:`Example` and :class:`Call` from here, :class:`Catalogue` for
hazards, and :class:`Generation` for decoders. They are imported on first use, because pytest loads
this package in every session of an environment that has it installed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compilegate.zoo.example import Call, Example
    from compilegate.zoo.generation import Generation
    from compilegate.zoo.hazard import Catalogue
    from compilegate.zoo.registry import model

__all__ = ["Call", "Catalogue", "Example", "Generation", "model"]

#: The module of the zoo that defines each name.
_OWNERS = {
    "Call": "example",
    "Catalogue": "hazard",
    "Example": "example",
    "Generation": "generation",
    "model": "registry",
}


def __getattr__(name: str) -> object:
    if name not in _OWNERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"compilegate.zoo.{_OWNERS[name]}"), name)
