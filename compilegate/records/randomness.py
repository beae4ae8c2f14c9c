"""Statistics of random numbers that a model draws. Facts, never verdicts."""

from __future__ import annotations

import math
from dataclasses import dataclass

from compilegate.records.call import Difference


@dataclass(frozen=True, kw_only=True)
class Draws:
    """Statistics of many calls on one input that differ in the random numbers drawn only.

    Attributes:
        spreads: By group of calls: standard deviation from call to call, relative to the root mean
            square of the outputs.
        together: By group: variance of the outputs' sum over the batch, over the sum of variances;
            1 where the rows of a batch are independent.
        alike: By group: variance of the cosine between two calls' deviations from their mean, 1 / n
            where n elements move independently. Empty where it was not taken.
        tails: By group: kurtosis of single elements. Empty where it was not taken.
        repeats: Pairs of calls of a group with equal outputs.
        again: How far apart two calls under one seed are, over the most that two others are.
        slope: Slope of the forward along the gradient, over the gradient's norm; 1 where both use
            the same random numbers. None where it was not measured.
    """

    spreads: tuple[float, ...]
    together: tuple[float, ...]
    alike: tuple[float, ...] = ()
    tails: tuple[float, ...] = ()
    repeats: int
    again: float = 0.0
    slope: float | None = None


@dataclass(frozen=True, kw_only=True)
class ShareGap:
    """A share of elements that compiled code's calls have more often, or more rarely, than eager's.

    Attributes:
        kind: ``below``: elements at or below a number; ``below own``: at or below a number that
            each element has of its own; ``equal``: sorted neighbours in rows or columns that are
            equal.
        output: The tensor's place in the output.
        at: The number; None where there is not one for all elements.
        eager: The share in eager, between 0 and 1.
        compiled: The share in compiled code.
        errors: How far they are apart, in standard errors. Rounding does not count.
    """

    kind: str
    output: str
    at: float | None = None
    eager: float
    compiled: float
    errors: float


@dataclass(frozen=True, kw_only=True)
class Randomness:
    """Random numbers that eager draws, and those that compiled code draws with its own generator.

    Attributes:
        calls: Calls of each side.
        eager: Statistics of eager.
        compiled: Those of compiled code.
        mean_gap: Mean square distance of the two means, over the distance that chance makes.
        own_gap: The largest such distance of halves of one side's calls: near 1 where many numbers
            are drawn independently. Infinite where it was not taken.
        shares: For each kind of share, the one that is furthest from eager's. Empty where it was
            not taken.
        same_pairs: Pairs of elements that draw the same number in compiled code alone.
        differences: In the layout of what is returned; its numbers are of another generator.
    """

    calls: int
    eager: Draws
    compiled: Draws
    mean_gap: float
    own_gap: float = math.inf
    shares: tuple[ShareGap, ...] = ()
    same_pairs: int = 0
    differences: tuple[Difference, ...] = ()
