"""How the faults of the catalogue are planted. Imported only where a fault is: it imports torch."""

from tests.faults.planting import compiling, drawing, forward, sizes, state, training
from tests.faults.planting.hooks import install

__all__ = ["compiling", "drawing", "forward", "install", "sizes", "state", "training"]
