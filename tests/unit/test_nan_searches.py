"""Where a search puts a NaN, and which pixel a grid of NaN reads, is a choice; nothing else is."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from compilegate.observe.model.nan_choices import OtherChoices
from tests.unit.probed import probed, replacing, verdict_of

BINS = torch.linspace(-2.0, 2.0, 9)
NUMBERS = torch.tensor([[0.3, torch.nan, -5.0], [torch.nan, 9.0, 1.5]])

SEARCHES = {
    "bucketize": torch.bucketize,
    "search to the right": lambda numbers, bins: torch.searchsorted(bins, numbers, right=True),
    "search in rows": lambda numbers, bins: torch.searchsorted(bins.repeat(2, 1), numbers),
    "half": lambda numbers, bins: torch.bucketize(numbers.bfloat16(), bins.bfloat16()),
}


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_only_the_place_of_a_nan_is_another_one(search):
    known = search(NUMBERS, BINS)
    with OtherChoices():
        found = search(NUMBERS, BINS)
    assert torch.equal(found == known, ~NUMBERS.isnan())
    assert found.dtype == known.dtype
    assert int(found.max()) <= len(BINS)


def test_no_order_is_defined_in_boundaries_with_a_nan():
    rows = torch.stack([BINS, torch.where(BINS > 1, torch.nan, BINS)])
    numbers = torch.tensor([[0.3, 1.2], [0.3, 1.2]])
    known = torch.searchsorted(rows, numbers)
    with OtherChoices():
        found = torch.searchsorted(rows, numbers)
    assert (found == known).tolist() == [[True, True], [False, False]]


class Bins(nn.Module):
    """Integers alone show where a number is: none of them is NaN."""

    def __init__(self):
        super().__init__()
        self.register_buffer("bins", BINS)

    def forward(self, x):
        return torch.bucketize(x, self.bins)


def nan_before_all(x, bins):
    return torch.bucketize(x, bins).masked_fill(x.isnan(), 0)


def others_too_far(x, bins):
    found = torch.bucketize(x, bins)
    return torch.where(x.isnan().any() & ~x.isnan(), found + 1, found)


@pytest.mark.parametrize(
    ("search", "outcome"), [(nan_before_all, "passed"), (others_too_far, "failed")]
)
def test_code_may_put_a_nan_elsewhere_and_no_number(search, outcome):
    seen = probed(Bins, backend=replacing("bucketize", search))
    finding = verdict_of(seen)
    assert finding.outcome == outcome, finding
    assert any(call.probe == "NaN in the first row" for call in seen.probes)


@pytest.mark.parametrize("on_gpu", [True, False])
def test_a_coordinate_that_is_nan_reads_another_pixel_on_a_gpu(on_gpu):
    image, grid = torch.rand(2, 3, 5, 4) + 1.0, torch.rand(2, 5, 4, 2) - 0.5
    grid[1, 2, 3, 0] = torch.nan
    known = functional.grid_sample(image, grid, align_corners=True)
    with OtherChoices(on_gpu=on_gpu):
        found = functional.grid_sample(image, grid, align_corners=True)
    stays = (found == known) | (found.isnan() & known.isnan())
    assert torch.equal(~stays.all(1), grid.isnan().any(-1) & on_gpu)


@pytest.mark.parametrize("on_gpu", [True, False])
def test_a_first_pixel_that_is_nan_may_spread_over_its_image_on_a_gpu(on_gpu):
    image, grid = torch.rand(2, 3, 5, 4), torch.rand(2, 5, 4, 2) + 0.5
    image[1, 2, 0, 0], image[0, 1, 4, 3] = torch.inf, torch.nan
    known = functional.grid_sample(image, grid, align_corners=True)
    with OtherChoices(on_gpu=on_gpu):
        found = functional.grid_sample(image, grid, align_corners=True)
    moved = (found.isnan() & ~known.isnan()).flatten(2).any(-1)
    assert moved.nonzero().tolist() == [[1, 2]] * on_gpu
