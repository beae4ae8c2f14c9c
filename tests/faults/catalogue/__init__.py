"""The faults: what each does, where it shows, and what must be said of it.

The modules here are data, and import no torch. Those of :mod:`tests.faults.planting` say how these
faults are planted; they have the same names.
"""

from __future__ import annotations

from tests.faults.catalogue.compiling import CAPTURE, COSTS
from tests.faults.catalogue.drawing import DRAWING
from tests.faults.catalogue.fault import SOUND, Fault
from tests.faults.catalogue.forward import FORWARD
from tests.faults.catalogue.sizes import SIZES
from tests.faults.catalogue.state import STATE, TENSORS
from tests.faults.catalogue.training import AUTOCAST, GRADIENTS

__all__ = ["COSTS", "FAULTS", "SOUND", "Fault"]

#: Faults whose verdicts do not depend on how busy a machine is; those of cost are judged apart.
FAULTS = (*FORWARD, *GRADIENTS, *AUTOCAST, *TENSORS, *STATE, *DRAWING, *SIZES, *CAPTURE)
