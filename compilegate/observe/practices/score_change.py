"""The change of a metric between two ways of running a model, from the scores of each sample."""

from __future__ import annotations

import torch

from compilegate.records.statistics import ALPHA, Interval

#: How often the signs of all differences are drawn, and how many numbers are drawn at a time.
_DRAWS, _AT_A_TIME = 9_999, 2**22
#: Sums of the same numbers in another order differ by less than this share of their size.
_SUMMATION = 1e-12


def mean_change(before: torch.Tensor, after: torch.Tensor) -> Interval:
    """Return the mean change of paired scores, and its interval.

    If rounding alone decides which side of a pair scores higher, each difference is as likely to
    have the other sign. The half-width of the interval is therefore the quantile of the means under
    random signs that chance exceeds with probability ``ALPHA``. The interval excludes zero exactly
    where Fisher's randomisation test rejects it. For scores of 0 and 1 that is McNemar's test.

    Args:
        before: One score for each sample, in float64.
        after: The scores of the same samples.
    """
    changes = after - before
    changed = changes[changes != 0]
    if not len(changed):
        return Interval(0.0, 0.0, 0.0)
    generator = torch.Generator().manual_seed(0)
    rows = max(_AT_A_TIME // len(changed), 1)
    sums = []
    for start in range(0, _DRAWS, rows):
        shape = min(rows, _DRAWS - start), len(changed)
        signs = torch.randint(2, shape, generator=generator, dtype=changed.dtype) * 2 - 1
        sums.append((signs @ changed).abs())
    rank = int(ALPHA * (_DRAWS + 1))
    extreme = float(torch.cat(sums).topk(rank).values[-1])
    reach = (extreme + _SUMMATION * float(changed.abs().sum())) / len(changes)
    mean = float(changed.sum()) / len(changes)
    return Interval(mean, mean - reach, mean + reach)
