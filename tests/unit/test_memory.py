"""Memory is counted to the byte."""

import pytest
import torch
from torch import nn

from compilegate.observe.measure.memory import peak_memory
from compilegate.observe.model_session import Session
from compilegate.records.request import Request
from compilegate.zoo.example import Example
from compilegate.zoo.registry import Model

MIB = 2**20


def allocates(*sizes):
    """Allocate blocks one after the other, all alive until the end."""

    def step():
        return [torch.empty(size, dtype=torch.uint8) for size in sizes]

    return step


def peaks(eager, compiled):
    seen = peak_memory(eager, compiled, device="cpu", compile_peak_bytes=0)
    return seen.eager_peak_bytes, seen.compiled_peak_bytes


def test_a_doubled_allocation_is_seen_exactly():
    assert peaks(allocates(MIB), allocates(2 * MIB)) == (MIB, 2 * MIB)


def test_what_is_alive_at_once_adds_up():
    assert peaks(allocates(MIB), allocates(MIB, 2 * MIB)) == (MIB, 3 * MIB)


def test_what_is_freed_before_does_not_add_up():
    def one_after_the_other():
        for _ in range(5):
            torch.empty(MIB, dtype=torch.uint8)

    assert peaks(one_after_the_other, allocates(5 * MIB)) == (MIB, 5 * MIB)


def test_the_peak_counts_not_the_end():
    def freed():
        torch.empty(3 * MIB, dtype=torch.uint8)

    assert peaks(freed, freed) == (3 * MIB, 3 * MIB)


def test_what_was_there_before_does_not_count():
    kept = torch.empty(8 * MIB, dtype=torch.uint8)
    assert peaks(allocates(MIB), kept.zero_) == (MIB, 0)


def test_a_call_that_allocates_nothing_peaks_at_nothing():
    assert peaks(lambda: None, lambda: None) == (0, 0)


def keeps(size, *, calls):
    """Allocate a block in each call, which stays after the first ``calls`` of them."""
    kept = []

    def step():
        block = torch.empty(size, dtype=torch.uint8)
        if len(kept) < calls:
            kept.append(block)

    return step


@pytest.mark.parametrize(("calls", "bytes_a_call"), [(100, MIB), (1, 0), (0, 0)])
def test_what_each_call_leaves_is_seen_and_what_one_leaves_is_not(calls, bytes_a_call):
    seen = peak_memory(
        keeps(MIB, calls=0), keeps(MIB, calls=calls), device="cpu", compile_peak_bytes=0
    )
    assert (seen.eager_kept_bytes, seen.compiled_kept_bytes) == (0, bytes_a_call)
    assert seen.compiled_peak_bytes == MIB


def test_what_only_refers_to_itself_is_not_left():
    def cycle():
        block = [torch.empty(MIB, dtype=torch.uint8)]
        block.append(block)

    seen = peak_memory(cycle, cycle, device="cpu", compile_peak_bytes=0)
    assert (seen.eager_kept_bytes, seen.compiled_kept_bytes) == (0, 0)


def test_the_peak_of_a_training_step_holds_its_gradients():
    """Those of the step before are dropped first: that must not hide the new ones."""
    linear = Model(
        "m", "m", build=lambda: Example(nn.Linear(1024, 256), lambda: (torch.ones(2, 1024),))
    )
    request = Request(
        case="m-cpu-train-f32-default-static", wants=("capture", "memory"), backend="eager"
    )
    seen = Session({"m": linear}, lambda stage: None).observe(request)
    assert seen.status == "completed", seen.failure
    assert seen.memory.eager_peak_bytes >= MIB
    assert seen.memory.compiled_peak_bytes >= MIB
    assert (seen.memory.eager_kept_bytes, seen.memory.compiled_kept_bytes) == (0, 0)
