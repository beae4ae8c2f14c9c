"""A model whose state refuses the same call, once it is repeated, has no such probing call."""

import pytest
import torch
from torch import nn
from torch.compiler import is_compiling

from compilegate.judging.budget import Budget
from compilegate.judging.judge import judge
from compilegate.suites import test_forward
from tests.unit.observed import observation


class Queue(nn.Module):
    """Writes the rows of each call behind those of the last, into a queue of a fixed length."""

    rows = 64

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(self.rows, 4))
        self.register_buffer("next", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.keys[self.next + torch.arange(len(x))] = x
        self.next.add_(len(x))
        return x.sum(1) + self.lost()

    def lost(self):
        return 0.0


class LongQueue(Queue):
    rows = 1024


class WrongQueue(Queue):
    """Compiled code returns other sums once the queue is longer."""

    def lost(self):
        return 0.01 * (self.next > 8) if is_compiling() else 0.0


@pytest.mark.parametrize(
    ("module", "outcome", "is_left_out"),
    [(Queue, "passed", True), (LongQueue, "passed", False), (WrongQueue, "failed", True)],
)
def test_a_queue_that_repetitions_fill_is_judged_without_them(module, outcome, is_left_out):
    wants = ("capture", "vary", "reuse")
    inputs = {"inputs": lambda batch: (torch.randn(batch, 4),)}
    seen = observation(module, "infer", "eager", wants, **inputs)
    assert seen.status == "completed", seen.failure
    found = judge(seen, Budget(), "forward", test_forward.rule, ("capture", "vary")).verdict
    assert found.outcome == outcome, (found.summary, found.details)
    reason = "repeated in eager, IndexError"
    assert any(reason in line for line in seen.unprobed) is is_left_out, seen.unprobed
