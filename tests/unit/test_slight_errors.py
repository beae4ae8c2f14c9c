"""Errors in half precision that are slightly larger than eager's call for further inputs."""

import pytest
import torch
from torch import nn

from compilegate.observe.compare.slight_errors import are_slight
from compilegate.records.call import FURTHER, Pooled
from tests.unit.making import make_call, make_checked, make_error
from tests.unit.probed import probed, verdict_of

EAGER = 0.004


def output(ratio, numel=4096):
    figures = {"eager_own": EAGER, "eager_rms": EAGER, "compiled_rms": ratio * EAGER}
    return make_error("output", dtype="bfloat16", numel=numel, **figures)


@pytest.mark.parametrize(
    ("ratio", "numel", "slight"),
    [(1.3, 4096, True), (1.1, 4096, False), (0.7, 4096, False), (1.3, 16, False)],
)
def test_one_tensor_errs_slightly_more(ratio, numel, slight):
    calls = [make_call(outputs=make_checked(output(ratio, numel))) for _ in range(4)]
    assert are_slight(calls) is slight


@pytest.mark.parametrize(("ratio", "slight"), [(1.05, True), (1.03, False)])
def test_all_tensors_together_err_slightly_more(ratio, slight):
    checked = make_checked(output(1.0))
    pooled = Pooled(ratio=ratio, tensors=3, elements=1000)
    calls = [make_call(outputs=type(checked)(errors=checked.errors, pooled=pooled))]
    assert are_slight(calls) is slight


class RoundsTwiceMore(nn.Module):
    """In compiled code, if it is faulty."""

    def __init__(self, *, faulty):
        super().__init__()
        self.linear, self.faulty = nn.Linear(4, 64, bias=False), faulty

    def forward(self, x):
        y = self.linear(x)
        if self.faulty and torch.compiler.is_compiling():
            return ((y.float() * 1.37).bfloat16().float() / 1.37).bfloat16()
        return y


@pytest.mark.parametrize("faulty", [True, False])
def test_a_rounding_too_many_shows_in_further_inputs(faulty):
    seen = probed(
        lambda: RoundsTwiceMore(faulty=faulty),
        backend="aot_eager",
        wants=("capture", "vary", "reuse"),
        precision="bf16",
        batch=(32, 24),
    )
    further = [one for one in seen.probes if one.probe.startswith(FURTHER)]
    assert bool(further) is faulty
    found = verdict_of(seen)
    assert found.outcome == ("failed" if faulty else "passed"), found.details
    assert not faulty or "in lower precision" in found.summary
