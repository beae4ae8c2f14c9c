"""Compiled code draws random numbers with the same distribution and independence as eager.

The suite catches numbers of another distribution, and dropout that is missing, frozen, at another
rate, shared by rows, layers or neighbours, different in forward and backward, or independent of the
seed. The other suites compare both sides under the same mask.
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_faq.html
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.difference import describe_difference
from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.records.case import computes_in_half, device_of
from compilegate.records.observation import Observation
from compilegate.records.randomness import Randomness, ShareGap
from compilegate.records.statistics import log_gap

#: Two groups of statistics are alike if the means of their logarithms are within this many standard
#: errors, of six groups each …
STANDARD_ERRORS = 5.0
#: … and this much: little for the spread, more for what few calls show badly.
SPREAD_SLACK, TOGETHER_SLACK, ALIKE_SLACK, TAILS_SLACK = 0.02, 0.35, 0.1, 0.05
ALIKE = "similarity of two calls, which shared random numbers raise,"
#: On a GPU, eager's dropout gives some elements of half precision the same random numbers. Compiled
#: code does not, so its similarity may be lower by this much (docs/measurements/findings-notes.md).
SHARED_BY_EAGER_SLACK = 0.3
#: The two means may be this many times further apart than expected: four standard errors, squared …
MEAN_GAP = 16.0
#: … or two, if the model draws many independent numbers, so that halves of one side's calls are
#: never further apart than this. (Odd results were measured again, in four times as many calls.)
MEAN_GAP_OF_MANY, OWN_GAP_OF_MANY = 4.0, 1.6
#: A share of elements is off if it is this many standard errors from eager's …
SHARE_ERRORS = 6.0
#: … and by this much. Eager's uniform numbers in bfloat16 have 256 values. (Odd results were
#: measured again. By chance, both happen in fewer than one in a million cases.)
SHARE_SLACK, HALF_SHARE_SLACK = 1e-4, 0.005
#: Calls under one seed are at most this far apart, as a share of what others are: on a GPU rounding
#: may differ from call to call, and close decisions with it.
AGAIN = 0.5
#: The slope may be off by this much, and three times what eager's is.
SLOPE_SLACK, SLOPE_FACTOR = 0.003, 3.0


def rule(observation: Observation, budget: Budget) -> Finding:
    """Compiled code's draws have eager's statistics, within chance."""
    seen = observation.randomness
    if seen is None:
        return Finding("passed", "draws no random numbers")
    shares = device_of(observation.case) == "cuda" and computes_in_half(observation.case)
    half = computes_in_half(observation.case)
    complaints = [text for text in _complaints(seen, eager_shares=shares) if text]
    complaints += _of_shares(seen.shares, HALF_SHARE_SLACK if half else SHARE_SLACK)
    if complaints:
        return Finding.failure(complaints)
    spread = statistics.mean(seen.compiled.spreads)
    return Finding("passed", f"{seen.calls} calls vary by {spread:.2g} of the outputs, as in eager")


def _complaints(seen: Randomness, *, eager_shares: bool) -> list[str]:
    ours, theirs = seen.eager, seen.compiled
    less = eager_shares and sum(theirs.alike) < sum(ours.alike)
    slack = SHARED_BY_EAGER_SLACK if less else ALIKE_SLACK
    return [
        *map(describe_difference, seen.differences),
        _of_repeats(ours.repeats, theirs.repeats, seen.calls, len(ours.spreads)),
        _unlike(ours.spreads, theirs.spreads, SPREAD_SLACK, "spread of the outputs between calls"),
        _unlike(ours.together, theirs.together, TOGETHER_SLACK, "joint spread of a batch's rows"),
        _unlike(ours.alike, theirs.alike, slack, ALIKE),
        _unlike(ours.tails, theirs.tails, TAILS_SLACK, "kurtosis of the outputs' elements"),
        _of_seeds(ours.again, theirs.again),
        _of_means(seen.mean_gap, seen.own_gap),
        _of_slopes(ours.slope, theirs.slope),
        _of_pairs(seen.same_pairs),
    ]


def _of_repeats(ours: int, theirs: int, calls: int, groups: int) -> str:
    if theirs - ours <= STANDARD_ERRORS * _error_of_repeats(ours, calls / groups, groups):
        return ""
    return (
        f"compiled calls repeat each other: {theirs} pairs of {calls} calls returned "
        f"equal outputs, {ours} in eager: random numbers are missing or frozen"
    )


def _error_of_repeats(repeats: int, size: float, groups: int) -> float:
    """Standard error of the difference of two such numbers, where few masks can be drawn.

    The number of equal pairs in a sample is a U-statistic: its pairs are not independent. Its
    variance also depends on the share of equal triples, at most the share of pairs to the 3/2.
    Hoeffding, "A class of statistics with asymptotically normal distribution", 1948.

    Args:
        repeats: Equal pairs within all groups of eager's calls.
        size: Calls of a group.
        groups: The number of groups.
    """
    pairs = size * (size - 1) / 2
    share = min((repeats + 1) / (groups * pairs), 1.0)
    of_one_call, of_a_pair = share**1.5 - share**2, share - share**2
    variance = groups * pairs * (2 * (size - 2) * of_one_call + of_a_pair)
    return math.sqrt(2 * variance + 1)  # where all are equal, one pair more or less is no wonder


def _unlike(ours: Sequence[float], theirs: Sequence[float], slack: float, what: str) -> str:
    if not (ours and theirs and all(value > 0 for value in ours)):
        return ""
    means = statistics.mean(ours), statistics.mean(theirs)
    text = f"{what} is {means[1]:.3g}, in eager {means[0]:.3g}"
    if not any(theirs):
        return text
    if all(value > 0 for value in theirs):
        gap, error = log_gap(ours, theirs)
    else:  # what a call draws rarely is missing in some groups by chance
        gap = abs(means[1] / means[0] - 1)
        variances = statistics.variance(ours) / len(ours), statistics.variance(theirs) / len(theirs)
        error = math.sqrt(sum(variances)) / means[0]
    return text if gap > STANDARD_ERRORS * error + slack else ""


def _of_seeds(ours: float, theirs: float) -> str:
    if ours > AGAIN or theirs <= AGAIN:
        return ""
    return (
        f"two compiled calls under one seed are {theirs:.2g} times as far apart as two under "
        f"different seeds, in eager {ours:.2g}: compiled code ignores the seed"
    )


def _of_means(gap: float, own_gap: float) -> str:
    allowed = MEAN_GAP_OF_MANY if own_gap <= OWN_GAP_OF_MANY else MEAN_GAP
    if gap <= allowed:
        return ""
    return (
        f"the outputs' mean over calls is {math.sqrt(gap):.1f} times as far from eager's as chance "
        f"explains (allowed {math.sqrt(allowed):g})"
    )


def _of_slopes(ours: float | None, theirs: float | None) -> str:
    if ours is None or theirs is None:
        return ""
    allowed = SLOPE_SLACK + SLOPE_FACTOR * abs(ours - 1)
    if abs(theirs - 1) <= allowed:
        return ""
    return (
        f"the forward's slope along the gradient is {theirs:.3g} of the gradient's norm, in eager "
        f"{ours:.3g}: backward and forward use different random numbers, or the function has a "
        "kink or a bend within the step, which looks alike"
    )


def _of_shares(shares: Sequence[ShareGap], slack: float) -> list[str]:
    return [
        f"{share.output}: {share.compiled:.3g} of the elements {_description(share)}, in eager "
        f"{share.eager:.3g} ({share.errors:.1f} standard errors apart, allowed {SHARE_ERRORS:g})"
        for share in shares
        if share.errors > SHARE_ERRORS and abs(share.compiled - share.eager) > slack
    ]


def _description(share: ShareGap) -> str:
    if share.kind == "equal":
        return "equal another element of their row or column"
    return "are below " + ("a number of their own" if share.at is None else f"{share.at:.6g}")


def _of_pairs(same: int) -> str:
    if not same:
        return ""
    return f"{same} pairs of elements draw the same random numbers in compiled code alone"


@pytest.mark.aspect("randomness")
def test_random_numbers_are_drawn_as_in_eager(judge: Judge) -> None:
    judge(rule)
