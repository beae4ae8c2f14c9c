"""Failures show the frames of a model, and those of PyTorch in which an error was raised."""

import re

import pytest
import torch
from torch import nn

from compilegate.judging.budget import Budget
from compilegate.judging.judge import judge
from compilegate.judging.tracebacks import without_torch
from compilegate.suites import test_forward
from tests.unit.observed import observation


@torch.library.custom_op("tests::without_a_shape", mutates_args=())
def without_a_shape(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@without_a_shape.register_fake
def _(x):
    raise RuntimeError("no shape is known")


class CallsIt(nn.Module):
    def forward(self, x):
        return without_a_shape(x)


def test_an_error_of_the_compiler_shows_the_model_and_the_innermost_frames():
    seen = observation(CallsIt)
    lines = judge(seen, Budget(), "forward", test_forward.rule, ("capture",)).verdict.details
    assert seen.failure.traceback.count('File "') > 20
    shown = [line for line in lines if line.lstrip().startswith("File ")]
    assert len(shown) <= 4
    assert any(__file__ in line for line in shown)
    assert any(re.fullmatch(r"  \[\d\d frames of torch\]", line) for line in lines)
    assert any("no shape is known" in line for line in lines)


FRAME = '  File "{}", line 3, in f\n    f()\n    ^^^'
TORCH = FRAME.format("/v/lib/python3.12/site-packages/torch/nn/modules/module.py")
MODEL = FRAME.format("/home/me/torch/model.py")


@pytest.mark.parametrize(
    ("frames", "shown"),
    [
        ([TORCH, TORCH, MODEL], ["  [2 frames of torch]", MODEL]),
        ([MODEL, TORCH, MODEL], [MODEL, TORCH, MODEL]),
        ([MODEL, TORCH, TORCH, TORCH], [MODEL, TORCH, TORCH, TORCH]),
        ([MODEL, *[TORCH] * 5], [MODEL, "  [3 frames of torch]", TORCH, TORCH]),
        ([MODEL], [MODEL]),
    ],
)
def test_frames_of_torch_in_a_row_are_one_line(frames, shown):
    head, end = "Traceback (most recent call last):", "ValueError: no\n  more of it"
    found = "\n".join(without_torch("\n".join([head, *frames, end, "", head, MODEL, end])))
    assert found == "\n".join([head, *shown, end, "", head, MODEL, end])


def test_no_traceback_has_no_lines():
    assert [*without_torch("")] == []
