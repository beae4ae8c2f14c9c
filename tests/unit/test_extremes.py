"""The parent process learns in which call with extreme numbers eager has lost the GPU."""

import contextlib
import json

import pytest
import torch
from torch import nn

from compilegate.observe.measure.alternation import ParentConnection
from compilegate.observe.model.probes import Probe
from compilegate.observe.phases.extremes import Extremes
from tests.unit.probed import probed, verdict_of

LOST = torch.AcceleratorError("CUDA error: device-side assert triggered")


def raise_it(error):
    if error is not None:
        raise error


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
    sent = []
    probe = Probe("NaN", change=torch.clone, is_extreme=True)
    waits = iter([None, found_on_waiting])
    call(sent, probe, raised, waits)
    assert sent[0] == {"probing": "NaN"}
    assert sent[-1] == {"probing": last}


@pytest.mark.parametrize(
    ("raised", "found_on_waiting", "is_lost"),
    [(None, None, False), (ValueError(), None, False), (LOST, None, True), (None, LOST, True)],
)
def test_another_call_is_named_only_if_it_loses_the_device(raised, found_on_waiting, is_lost):
    sent = []
    call(sent, Probe("large", change=torch.clone), raised, iter([None, found_on_waiting]))
    assert sent == [{"lost_in": "large"}] * is_lost


def test_a_call_that_compiled_code_repeats_before_is_not_left_out():
    sent = []
    call(sent, Probe("after 8 more calls", repeats=8), LOST, iter([None]))
    assert not sent


@pytest.mark.parametrize("is_extreme", [False, True])
def test_what_compiled_code_did_before_is_not_of_the_call(is_extreme):
    sent = []
    call(sent, Probe("next", change=torch.clone, is_extreme=is_extreme), None, iter([LOST]))
    assert not sent


def call(sent, probe, raised, waits):
    """Make a call as if a device were waited for, and keep what the parent process gets."""
    parent = ParentConnection(lambda line: sent.append(json.loads(line)), iter(()))
    reported = Extremes(parent).reported(probe, lambda: raise_it(next(waits)))
    with contextlib.suppress(ValueError, torch.AcceleratorError), reported:
        raise_it(raised)


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


def losing_the_gpu(graph, inputs):
    """Compile to code that asserts where eager does not, next to NaN."""

    def run(*given):
        if any(one.isnan().any() for one in given):
            raise LOST
        return graph(*given)

    return run


def test_an_assertion_of_compiled_code_alone_names_the_call():
    seen = probed(lambda: nn.Linear(4, 3), backend=losing_the_gpu)
    assert (seen.status, seen.failure.call) == (
        "raised",
        "probing call (batch=8), NaN in the first row",
    )
    summary = verdict_of(seen).summary
    assert summary.startswith("raised in stage 'probe', probing call (batch=8), NaN in the first")
    assert "where eager returned: AcceleratorError: CUDA error: device-side" in summary
