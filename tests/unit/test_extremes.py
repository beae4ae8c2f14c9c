"""The parent process learns in which call with extreme numbers eager has lost the GPU."""

import contextlib

import pytest
import torch
from torch import nn

from compilegate.observe.model.probes import Probe
from compilegate.observe.phases.extremes import Extremes
from tests.unit.probed import probed, verdict_of

LOST = torch.AcceleratorError("CUDA error: device-side assert triggered")


def raising(error):
    def wait():
        if error is not None:
            raise error

    return wait


@pytest.mark.parametrize(
    ("raised", "found_on_waiting", "last"),
    [
        (None, None, ""),
        (ValueError(), None, ""),
        (LOST, None, "NaN"),
        (None, LOST, "NaN"),
    ],
)
def test_a_call_that_loses_the_device_is_never_over(raised, found_on_waiting, last):
    reports = []
    probe = Probe("NaN", change=torch.clone, is_extreme=True)
    reported = Extremes(reports.append).reported(probe, raising(found_on_waiting))
    with contextlib.suppress(ValueError, torch.AcceleratorError), reported:
        raising(raised)()
    assert reports[0] == "NaN"
    assert reports[-1] == last


class Refuses(nn.Module):
    """A model that a GPU cannot run for a batch of zero, as an embedding with ``max_norm``."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        if x.shape[0] == 0:
            raise torch.AcceleratorError("CUDA error: invalid argument")
        return self.layer(x)


def test_an_error_that_leaves_the_device_usable_leaves_a_call_out():
    seen = probed(Refuses)
    assert seen.status == "completed"
    (line,) = [line for line in seen.unprobed if "invalid argument" in line]
    assert line.endswith(": in eager, AcceleratorError: CUDA error: invalid argument")
    assert verdict_of(seen).outcome == "passed"
