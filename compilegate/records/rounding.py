"""Constants of rounding noise on healthy code.

``docs/measurements/calibration.md`` explains their values.

The bounds within one run (:mod:`compilegate.judging.tolerances`), the bounds between two runs
(:mod:`compilegate.upgrade.error_growth`) and the decision to sample eager's noise again use them.
"""

from __future__ import annotations

import math
import operator
import statistics
from collections.abc import Iterable, Sequence
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
#: A running mean is small compared with the values it averages: floors of buffers are wider by
#: this factor.
BUFFERS = 8.0
#: A tensor that jumps (a ReLU opens, a maximum moves) has a varying number of large errors:
#: its multiples are wider by this factor.
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


#: Eager computes a tensor in half precision if it errs by at least this share of its scale.
HALF_ERRORS = 2.0**-16
#: In pooled errors no tensor counts for more than this factor. It has bounds of its own.
MOST_POOLED = 4.0
#: The variance of the logarithm of a tensor's ratio that its number of elements does not reduce.
BETWEEN_TENSORS = 0.1**2


class Noisy(Protocol):
    """A tensor whose error is known: a complete record or a slim one."""

    @property
    def scale(self) -> float:
        """Root mean square of the reference."""

    @property
    def eager_rms(self) -> float:
        """Eager's root mean square error, as a share of that."""


def is_blind(error: Noisy) -> bool:
    """Whether no error can show in a tensor: it is zero, or eager is as far off as its scale."""
    return error.scale == 0.0 or error.eager_rms > BLIND


def pooled_noise(errors: Iterable[Noisy]) -> float:
    """Return the median noise of the tensors of a group that are not blind."""
    seeing = [error.eager_rms for error in errors if not is_blind(error)]
    return statistics.median(seeing) if seeing else 0.0


def pooled_ratio(ratios: Sequence[float], elements: Sequence[int]) -> float:
    """Return the weighted geometric mean of the ratios of two errors in several tensors.

    Args:
        ratios: The ratio of each tensor.
        elements: The number of elements of each tensor. One of few elements weighs less.
    """
    weights = [1 / (BETWEEN_TENSORS + 1 / count) for count in elements]
    logs = [math.log(min(max(ratio, 1 / MOST_POOLED), MOST_POOLED)) for ratio in ratios]
    return math.exp(sum(map(operator.mul, logs, weights)) / sum(weights))
