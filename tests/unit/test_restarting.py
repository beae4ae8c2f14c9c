"""The reference of a probing call starts where eager stood, also in buffers of another shape."""

import pytest
import torch
from torch.compiler import is_compiling

from tests.unit.observed import Linear
from tests.unit.probed import probed, verdict_of


class Grown(Linear):
    """Makes a table of positions in its first call. Compiled, a term is added to large inputs."""

    def __init__(self, term):
        super().__init__()
        self.register_buffer("positions", torch.zeros(1))
        self.term = term

    def forward(self, x):
        if len(self.positions) != x.shape[1]:
            self.positions = torch.linspace(-1.0, 1.0, x.shape[1])
        y = super().forward(x) + self.positions
        return y + (x > 20) * self.term if is_compiling() else y


@pytest.mark.parametrize(("term", "outcome"), [(0.0, "passed"), (100.0, "failed")])
def test_a_model_whose_buffer_grows_is_probed(term, outcome):
    seen = probed(lambda: Grown(term))
    assert not [left_out for left_out in seen.unprobed if "reference" in left_out]
    found = verdict_of(seen)
    assert found.outcome == outcome, found
    assert term == 0.0 or "numbers 32 times as large" in "\n".join((found.summary, *found.details))
