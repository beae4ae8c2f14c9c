"""Activation checkpointing: checkpoints that the compiler loses are found, others pass."""

import contextlib
from unittest import mock

import pytest
import torch
from torch import nn
from torch._functorch import partitioners
from torch._inductor import config

from compilegate import Example
from compilegate.judging.budget import Budget
from compilegate.observe.model.reference import Reference
from compilegate.observe.phases.builder import Builder
from compilegate.observe.phases.progress import Progress
from compilegate.observe.practices import activation_checkpointing
from compilegate.observe.practices.bench import Bench
from compilegate.records.case import Case
from compilegate.records.request import Request
from compilegate.suites.test_activation_checkpointing import rule
from compilegate.zoo.registry import Model
from tests.unit.making import make_observation

CASE = Case.parse("net-cpu-train-f32-default-static")
#: The slack of a CPU's peak, which hides all that so small a model can save.
BUDGET = Budget(memory_slack_bytes=2**20)


class Block(nn.Module):
    """A wide hidden layer, which is what checkpoints are for."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 512), nn.Linear(512, 64)

    def forward(self, x):
        return x + self.down(self.up(x).relu())


class Line(nn.Module):
    """A layer whose input is all that backward needs, so that checkpoints save nothing."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 64)

    def forward(self, x):
        return self.linear(x)


def judged(*layers):
    def build():
        net = nn.Sequential(*(layer() for layer in layers))
        return Example(net, inputs=lambda batch: (torch.randn(batch, 64),))

    model = Model("net", "own", vary={"batch": (96,)}, build=build)
    progress = Progress(lambda stage: None)
    builder = Builder(model, CASE, 0, progress)
    backend = "aot_eager_decomp_partition"  # decides what is kept, and compiles no kernel
    request = Request(case=str(CASE), wants=("capture",), backend=backend)
    bench = Bench(builder, request, progress, Reference(builder), draws=False)
    with config.patch(force_disable_caches=True):
        practice = activation_checkpointing.observe(bench)
    practices = {"activation_checkpointing": practice}
    return rule(make_observation(practices=practices, reference="float64"), BUDGET)


def as_a_plain_call():
    """Replace a checkpoint by a plain call where it is compiled."""
    checkpoint = activation_checkpointing.checkpoint

    def plain(function, *args, use_reentrant, **kwargs):
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        return checkpoint(function, *args, use_reentrant=use_reentrant, **kwargs)

    return mock.patch.object(activation_checkpointing, "checkpoint", plain)


@contextlib.contextmanager
def keeping_everything():
    """Let AOTAutograd overlook the marks of what backward must compute again."""
    with (
        mock.patch.object(partitioners, "must_recompute", return_value=False),
        mock.patch.object(partitioners, "has_recomputable_ops", return_value=False),
    ):
        yield


def test_checkpoints_that_save_memory_pass_and_say_how_much():
    finding = judged(Block, Block)
    assert finding.outcome == "passed", finding
    assert "forward keeps 0.05 MiB for backward, without checkpoints 0.42 MiB" in finding.summary


@pytest.mark.parametrize("fault", [as_a_plain_call, keeping_everything])
def test_checkpoints_that_the_compiler_loses_fail_whatever_the_peak(fault):
    with fault():
        finding = judged(Block, Block)
    assert finding.outcome == "failed", finding
    assert finding.summary.startswith(
        "forward keeps 0.42 MiB for backward, without checkpoints 0.42 MiB, less than 1× wanted"
    )


def test_a_model_of_single_layers_is_checkpointed_as_one_block():
    finding = judged(lambda: nn.Linear(64, 512), nn.ReLU, lambda: nn.Linear(512, 64))
    assert finding.outcome == "passed", finding
    assert "checkpoints 0.21 MiB" in finding.summary, finding


def test_checkpoints_that_save_nothing_in_eager_either_pass():
    assert judged(Line, Line).outcome == "passed"
