"""The code that plants the faults of the catalogue. Only children import it and its torch."""

from tests.faults.planting import (
    compiling,
    drawing,
    effects,
    forward,
    generic,
    sizes,
    slices,
    state,
    training,
)
from tests.faults.planting.hooks import install, replace

__all__ = [
    "compiling",
    "drawing",
    "effects",
    "forward",
    "generic",
    "install",
    "replace",
    "sizes",
    "slices",
    "state",
    "training",
]
