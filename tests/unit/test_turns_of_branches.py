"""Models that take their branches in turn: what runs again begins as the judged call did."""

import pytest
from torch import nn
from torch.compiler import is_compiling

from compilegate.judging.budget import Budget
from compilegate.observe.model.plain_values import set_plain
from compilegate.suites import test_forward
from tests.unit.observed import observation


class Heads(nn.Module):
    """Takes its heads in turn; compiled code is wrong by a few per cent."""

    error = 0.03

    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(4, 4) for _ in range(self.count))
        self.turn = 0

    def forward(self, x):
        self.turn = (self.turn + 1) % self.count
        return self.heads[self.turn](x) * (1 + self.error * is_compiling())


class Two(Heads):
    count = 2


class Four(Heads):
    count = 4


class SoundFour(Four):
    error = 0.0


@pytest.mark.parametrize(
    ("build", "outcome"),
    [(Two, "failed"), (Four, "failed"), (SoundFour, "passed")],
)
def test_another_branch_explains_no_error(build, outcome):
    found = test_forward.rule(observation(build), Budget())
    assert found.outcome == outcome, found
    calls = {line.partition(" (")[0] for line in found.complaints}
    assert calls == ({f"call {number}" for number in range(1, 6)} if found.complaints else set())


class Held:
    def __init__(self):
        self.steps, self.name = [0, 1], "a"


def test_numbers_and_texts_are_set_and_objects_stay():
    module = nn.Module()
    module.count, module.flags, module.held = 0, {"on": False}, Held()
    flags, held = module.flags, module.held
    set_plain(
        module,
        {
            "attribute count": 3,
            "attribute flags.on": True,
            "attribute held.steps[1]": 5,
            "attribute held.name": "b",
            "attribute unknown": 7,
        },
    )
    assert (module.count, flags, held.steps, held.name) == (3, {"on": True}, [0, 5], "b")
    assert module.flags is flags
    assert not hasattr(module, "unknown")
