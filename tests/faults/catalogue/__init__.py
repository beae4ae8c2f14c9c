"""The faults: what each does, the setting that shows it, and the text that its verdict must have.

These modules hold data and import no torch. The modules of the same names in
:mod:`tests.faults.planting` hold the code that plants the faults.
"""

from __future__ import annotations

from tests.faults.catalogue.compiling import CAPTURE, COSTS
from tests.faults.catalogue.drawing import DRAWING
from tests.faults.catalogue.fault import SOUND, Fault
from tests.faults.catalogue.forward import FORWARD
from tests.faults.catalogue.sizes import SIZES
from tests.faults.catalogue.slices import SLICES
from tests.faults.catalogue.state import STATE, TENSORS
from tests.faults.catalogue.training import AUTOCAST, GRADIENTS

__all__ = ["COSTS", "FAULTS", "SOUND", "Fault"]

#: Faults whose verdicts do not depend on how busy the machine is, so faults of cost are not here.
FAULTS = (*FORWARD, *GRADIENTS, *AUTOCAST, *SLICES, *TENSORS, *STATE, *DRAWING, *SIZES, *CAPTURE)
