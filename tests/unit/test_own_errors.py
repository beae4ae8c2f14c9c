"""An error of compilegate itself says so and keeps its traceback; a model's error does not."""

import os

import pytest
import torch
from torch import nn

from compilegate.observe import failures
from compilegate.observe.compare import results
from compilegate.observe.model import weight_changes
from tests.unit.observed import Linear, observation, verdict

OWN = "(raised by compilegate itself: please report it)"


@pytest.mark.parametrize(
    ("module", "name", "file"),
    [
        (results, "compare_layouts", "compare/results.py"),
        (weight_changes, "factors", "model/weight_changes.py"),
    ],
)
def test_an_error_of_a_comparison_is_no_error_of_the_model(monkeypatch, module, name, file):
    monkeypatch.setattr(module, name, torch.zeros)  # called wrongly, it raises
    seen = observation(Linear, backend="eager")
    assert seen.status == "raised"
    assert seen.failure.message.endswith(OWN)
    assert file in seen.failure.traceback


class Refuses(nn.Module):
    def __init__(self, when=lambda: True):
        super().__init__()
        self.linear, self.when = nn.Linear(4, 4), when

    def forward(self, x):
        return self.linear(x.view(-1, 3) if self.when() else x)


@pytest.mark.parametrize(
    "build",
    [
        Refuses,
        lambda: Refuses(torch.compiler.is_compiling),
        lambda: nn.Linear(3, 4),  # no frame of a model
    ],
)
def test_an_error_of_the_model_does_not_blame_compilegate(build):
    for phase in ("infer", "train"):
        seen = observation(build, phase, "eager")
        found = verdict(build, phase, "eager")
        assert found.outcome == "failed"
        assert OWN not in found.summary
        assert seen.failure is None or OWN not in seen.failure.message


def test_each_named_module_exists():
    assert all(map(os.path.exists, failures._OF_RESULTS))
