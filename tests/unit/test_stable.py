"""Elements that eager decides the same way in every precision, and their neighbours."""

import pytest
import torch

from compilegate.observe.compare import stable
from compilegate.observe.model.result import Result


def settled(part, eager, compiled, truth):
    made, found, exact = (Result(**{part: {"x": t}}) for t in (eager, compiled, truth))
    return getattr(stable.settled(made, found, [exact])[0], part)["x"]


@pytest.mark.parametrize("part", ["output", "gradients", "state"])
def test_a_row_that_eager_gets_mostly_wrong_is_not_compared(part):
    """Its other elements are near the truth by chance. An element of a gradient sums over rows."""
    truth = torch.full((4, 8), 2.0)
    eager, compiled = truth.clone(), truth * 1.1
    eager[0, 3:] = -2.0
    kept = settled(part, eager, compiled, truth)
    rows = slice(0, 1 if part == "output" else 4)
    assert torch.equal(kept[rows], eager[rows])
    assert torch.equal(kept[rows.stop :], compiled[rows.stop :])


@pytest.mark.parametrize("part", ["output", "gradients", "state"])
def test_an_element_that_eager_gets_wrong_hides_no_other(part):
    truth = torch.full((4, 32), 2.0)
    eager, compiled = truth.clone(), truth * 1.1
    eager[0, 3] = -2.0
    kept = settled(part, eager, compiled, truth)
    assert torch.equal((kept == eager).nonzero(), torch.tensor([[0, 3]]))
