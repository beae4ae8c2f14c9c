"""The code that plants the faults of the catalogue. Only children import it and its torch."""

from tests.faults.planting import compiling, drawing, forward, generic, sizes, state, training
from tests.faults.planting.hooks import install

__all__ = ["compiling", "drawing", "forward", "generic", "install", "sizes", "state", "training"]
