"""Distances between elements: those that are not finite in the same way are equal."""

import math

import torch

from compilegate.observe.compare.distances import distances


def test_equal_elements_are_no_distance_apart():
    masked = torch.tensor([1.0, -math.inf, math.inf, math.nan])
    assert distances(masked, masked.clone()).tolist() == [0.0] * 4


def test_other_elements_are_their_difference_or_infinitely_far_apart():
    one = torch.tensor([1.0, -math.inf, math.nan, math.inf, 2.0])
    other = torch.tensor([3.0, math.inf, 0.0, 5.0, 2.0])
    assert distances(one, other).tolist() == [2.0, math.inf, math.inf, math.inf, 0.0]


def test_integers_and_complex_numbers_have_distances_too():
    assert distances(torch.tensor([True, False]), torch.tensor([True, True])).tolist() == [0, 1]
    assert distances(torch.tensor([3 + 4j]), torch.tensor([0j])).tolist() == [5.0]
