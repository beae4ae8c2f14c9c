"""Which of several NaN a max-pool picks is its own choice; what it picks elsewhere is not."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from compilegate.observe.model.nan_choices import OtherChoices, OtherLayouts
from tests.unit.probed import probed, replacing, verdict_of

#: An image whose first window holds NaN alone, and whose second one holds 1, 2, 3 and 4.
IMAGE = torch.tensor([[[[torch.nan, torch.nan, 1.0, 2.0], [torch.nan, torch.nan, 3.0, 4.0]]]])


class Unpooled(nn.Module):
    """Puts each maximum back into its place. The convolution makes several NaN of one."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x):
        pooled, places = functional.max_pool2d(self.conv(x), 2, return_indices=True)
        return functional.max_unpool2d(pooled, places, 2), places


def image(batch):
    return (torch.randn(batch, 3, 4, 4),)


def choosing_the_last(x, *arguments, **options):
    """Pool as PyTorch does, but return the index of the last NaN of a window."""
    pooled, places = functional.max_pool2d(x, 2, return_indices=True)
    flipped = functional.max_pool2d(x.flip(-1, -2), 2, return_indices=True)[1].flip(-1, -2)
    last = x.shape[-1] * x.shape[-2] - 1 - flipped
    return pooled, torch.where(pooled.isnan(), last, places)


def choosing_the_next(x, *arguments, **options):
    """Return indices that are one too large next to a NaN, where a number is chosen."""
    pooled, places = functional.max_pool2d(x, 2, return_indices=True)
    wrong = x.isnan().any() & ~pooled.isnan() & (places < x.shape[-1] * x.shape[-2] - 1)
    return pooled, torch.where(wrong, places + 1, places)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_only_the_index_of_one_of_several_nan_is_another_one(dtype):
    image = IMAGE.to(dtype)
    known = functional.max_pool2d(image, 2, return_indices=True)[1]
    with OtherChoices():
        pooled, places = functional.max_pool2d(image, 2, return_indices=True)
        largest, first = IMAGE.flatten().max(0)
    assert pooled[0, 0, 0, 0].isnan()
    assert pooled[0, 0, 0, 1] == 4.0
    assert places[0, 0, 0, 0] != known[0, 0, 0, 0]
    assert places[0, 0, 0, 0] in (0, 1, 4, 5)
    assert places[0, 0, 0, 1] == 7
    assert first == IMAGE.flatten().max(0)[1]
    assert largest.isnan()


@pytest.mark.parametrize("pool", [functional.max_pool2d, functional.adaptive_max_pool2d])
@pytest.mark.parametrize("at", range(8))
def test_a_nan_alone_in_its_window_leaves_no_choice(pool, at):
    image = torch.arange(8.0)
    image[at] = torch.nan
    image = image.view(1, 1, 2, 4)
    size = 2 if pool is functional.max_pool2d else (1, 2)
    known = pool(image, size, return_indices=True)[1]
    with OtherChoices():
        assert torch.equal(pool(image, size, return_indices=True)[1], known)


@pytest.mark.parametrize("choose", [torch.median, torch.mode, torch.sort, torch.kthvalue])
@pytest.mark.parametrize(("row", "is_same"), [([3, torch.nan, 1], True), ([torch.nan] * 3, False)])
def test_one_nan_in_a_row_leaves_no_choice(choose, row, is_same):
    given = (3, 1) if choose is torch.kthvalue else (1,)
    rows = torch.tensor([row, [4.0, 2.0, 1.0]])
    known = choose(rows, *given)[1]
    with OtherChoices():
        places = choose(rows, *given)[1]
    assert torch.equal(places[0], known[0]) is is_same
    assert torch.equal(places[1], known[1])


@pytest.mark.parametrize(("layer", "size"), [(nn.Conv2d, (5, 5)), (nn.ConvTranspose3d, (3, 4, 5))])
@pytest.mark.parametrize("is_last", [False, True])
def test_a_convolution_gets_its_arguments_in_another_layout(layer, size, is_last):
    seen = []

    class Layouts(OtherLayouts):
        def run(self, func, args, kwargs):
            made = super().run(func, args, kwargs)
            if func._schema.name == "aten::convolution":
                seen.append(made.stride())
            return made

    convolution, x = layer(3, 4, 3, padding=1), torch.randn(2, 3, *size)
    last = torch.channels_last if x.dim() == 4 else torch.channels_last_3d
    x = x.contiguous(memory_format=last) if is_last else x
    known = convolution(x)
    with Layouts():
        torch.testing.assert_close(convolution(x), known)
    assert len(seen) == 1
    assert seen[0] != known.stride()


@pytest.mark.parametrize(("is_stable", "is_same"), [(True, True), (False, False)])
def test_a_stable_sort_chooses_nothing(is_stable, is_same):
    row = torch.tensor([torch.nan, 1.0, torch.nan])
    known = row.sort(stable=is_stable)[1]
    with OtherChoices():
        places = row.sort(stable=is_stable)[1]
    assert torch.equal(places, known) is is_same


@pytest.mark.parametrize(
    ("pool", "outcome"), [(choosing_the_last, "passed"), (choosing_the_next, "failed")]
)
def test_code_may_choose_among_nan_and_not_among_numbers(pool, outcome):
    backend = replacing("max_pool2d", pool)
    seen = probed(Unpooled, backend=backend, inputs=image)
    finding = verdict_of(seen)
    assert finding.outcome == outcome, finding
    assert any(call.probe == "NaN in the first row" for call in seen.probes)
