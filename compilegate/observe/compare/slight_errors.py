"""Whether compiled code errs a little more than eager in half precision, as chance may do, too."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence

from compilegate.observe.compare.values import DOUBT_AS_A_WHOLE
from compilegate.records.call import CallFacts, Checked, TensorError
from compilegate.records.rounding import HALF_ERRORS, is_blind

#: The same factor for one tensor that has enough elements. No healthy one exceeds it.
_DOUBT, _FEWEST_ELEMENTS = 1.2, 256


def are_slight(calls: Sequence[CallFacts]) -> bool:
    """Whether errors call for more calls: those of all tensors together, or those of one tensor.

    Args:
        calls: The calls of a case in half precision.
    """
    groups = ([one.outputs for one in calls], [one.gradients for one in calls])
    return any(_are_slight_together(group) or _are_slight_in_one(group) for group in groups)


def _are_slight_together(checked: Sequence[Checked]) -> bool:
    logs = [math.log(one.pooled.ratio) for one in checked if one.pooled is not None]
    return bool(logs) and math.exp(statistics.fmean(logs)) > DOUBT_AS_A_WHOLE


def _are_slight_in_one(checked: Sequence[Checked]) -> bool:
    ratios: dict[str, list[float]] = {}
    for error in itertools.chain.from_iterable(one.errors for one in checked):
        if _counts(error):
            ratio = math.log(error.compiled_rms / error.eager_own)
            ratios.setdefault(error.name, []).append(ratio)
    return any(math.exp(statistics.fmean(seen)) > _DOUBT for seen in ratios.values())


def _counts(error: TensorError) -> bool:
    known = error.has_reference and error.eager_own >= HALF_ERRORS and error.compiled_rms > 0
    return known and error.numel >= _FEWEST_ELEMENTS and not is_blind(error)
