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


@pytest.mark.parametrize("is_finite", [True, False])
def test_an_element_that_overflows_where_the_model_casts_to_half_is_not_compared(is_finite):
    """One truth keeps the cast, the other one does not."""
    eager = torch.full((2, 32), torch.nan)
    kept = torch.full((2, 32), torch.nan, dtype=torch.float64)
    lifted = torch.full((2, 32), 1e20 if is_finite else torch.nan, dtype=torch.float64)
    compiled = torch.full((2, 32), torch.inf)
    made, found, *truths = (Result(output={"x": t}) for t in (eager, compiled, lifted, kept))
    result, share = stable.settled(made, found, truths)
    assert share == is_finite
    assert bool(result.output["x"].isnan().all()) is is_finite


def test_a_complex_rival_is_compared_by_its_parts():
    eager = torch.tensor([[complex(1, 2), complex(torch.nan, 2), complex(3, torch.nan)]])
    rival = torch.tensor([[complex(1, 2), complex(1, 2), complex(3, torch.nan)]])
    made, found = Result(output={"x": eager}), Result(output={"x": torch.zeros_like(eager)})
    truth = Result(output={"x": eager.to(torch.complex128)})
    rivals = [stable.Rival(Result(output={"x": rival}))]
    assert stable.settled(made, found, [truth], rivals)[1] == 1  # a third of the row is not stable
    assert stable.settled(made, found, [truth])[1] == 0
