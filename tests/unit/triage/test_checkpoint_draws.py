"""Which lines of a model draw random numbers inside a checkpoint."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from compilegate.observe.dissect import checkpoints
from compilegate.records.case import Case
from compilegate.zoo.example import Call

TRAIN = Case.parse("m-cpu-train-f32-default-static")


def drops(x, share):
    return nn.functional.dropout(x.tanh(), share)


def noisy(x, share):
    return x + share * torch.rand_like(x)


class Net(nn.Module):
    """Draws outside of its checkpoint, too."""

    def __init__(self, inside, share, **options):
        super().__init__()
        self.inside, self.share, self.options = inside, share, options

    def forward(self, x):
        x = nn.functional.dropout(x, 0.5)
        return checkpoint(self.inside, x, self.share, use_reentrant=False, **self.options)


def line(text):
    """The line of this file, as a report has it."""
    code = [each.strip() for each in Path(__file__).read_text().splitlines()]
    return f"{Path(__file__).name}:{code.index(text) + 1}: {text}"


DROPS = line("return nn.functional.dropout(x.tanh(), share)")
NOISY = line("return x + share * torch.rand_like(x)")


@pytest.mark.parametrize(
    ("net", "kept", "renewed"),
    [
        (Net(drops, 0.5), [DROPS], []),
        (Net(noisy, 0.5), [NOISY], []),
        (Net(drops, 0.5, preserve_rng_state=False), [], [DROPS]),
        (Net(drops, 0.0), [], []),  # nothing is dropped, so nothing is drawn
        (Net(torch.mul, 0.5), [], []),
        (nn.Dropout(0.5), [], []),
    ],
)
def test_lines_inside_a_checkpoint_are_known_by_the_operators_that_run(net, kept, renewed):
    call = Call((torch.randn(4, 8, requires_grad=True),))
    found = checkpoints.drawn(net.train(), call, TRAIN, with_grad=False)
    assert [*map(list, (found["kept"], found["renewed"]))] == [kept, renewed]
