"""What rounding noise looks like, as measured on healthy code (``docs/calibration.md``).

Shared by the bounds within one run (``suites/bounds.py``) and between two (``numerics.py``), and by
what decides that eager's noise is looked at again.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Protocol

#: Machine epsilon by dtype.
EPS = {
    "float64": 2.0**-52,
    "float32": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "complex64": 2.0**-23,
    "complex128": 2.0**-52,
}
#: A running mean is small beside what it is the mean of: floors of buffers are wider by this.
BUFFERS = 8.0
#: What jumps (a ReLU that opens, a maximum that moves) has few large errors, now more, now fewer:
#: its multiples are so many times wider.
JUMPY = 4.0
#: One error in a hundred is larger than this many times the root mean square, if they are normal.
QUANTILE = 2.6
#: The largest error of many elements is about this many times their root mean square.
TAIL = 6.0
#: Rounding errors of neighbouring operations are correlated: this share of the noise may look like
#: a wrong scale, however many elements there are.
CORRELATED = 0.5
#: Eager noise above this share of a tensor's scale makes it blind: one that is halved could pass.
BLIND = 0.25


class Noisy(Protocol):
    """A tensor whose error is known, in a run file or in what is decoded of one."""

    @property
    def scale(self) -> float:
        """Root mean square of the reference."""

    @property
    def eager_rms(self) -> float:
        """Eager's root mean square error, as a share of that."""


def is_blind(error: Noisy) -> bool:
    """Whether a tensor can show nothing: it is zero, or eager itself is as far off as its scale."""
    return error.scale == 0.0 or error.eager_rms > BLIND


def pooled_noise(errors: Iterable[Noisy]) -> float:
    """Median noise of the tensors of a group that are not blind."""
    seeing = [error.eager_rms for error in errors if not is_blind(error)]
    return statistics.median(seeing) if seeing else 0.0
