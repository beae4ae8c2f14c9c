"""Memory is counted to the byte."""

import pytest
import torch
from torch import nn

from compilegate.observe.device import device
from compilegate.observe.measure.memory import peak_memory
from compilegate.observe.model_session import ModelSession
from compilegate.records.request import Request
from compilegate.zoo.example import Example
from compilegate.zoo.registry import Model

MIB = 2**20
CPU = device("cpu")


def allocates(*sizes):
    """Return a step that allocates blocks and keeps them until its end."""

    def step():
        return [torch.empty(size, dtype=torch.uint8) for size in sizes]

    return step


def peaks(eager, compiled):
    seen = peak_memory(eager, compiled, device=CPU, compile_peak_bytes=0)
    return seen.eager_peak_bytes, seen.compiled_peak_bytes


def test_a_doubled_allocation_doubles_the_peak():
    assert peaks(allocates(MIB), allocates(2 * MIB)) == (MIB, 2 * MIB)


def test_blocks_that_live_at_the_same_time_add_up():
    assert peaks(allocates(MIB), allocates(MIB, 2 * MIB)) == (MIB, 3 * MIB)


def test_blocks_that_were_freed_before_do_not_add_up():
    def one_after_the_other():
        for _ in range(5):
            torch.empty(MIB, dtype=torch.uint8)

    assert peaks(one_after_the_other, allocates(5 * MIB)) == (MIB, 5 * MIB)


def test_the_peak_counts_and_not_the_end():
    def freed():
        torch.empty(3 * MIB, dtype=torch.uint8)

    assert peaks(freed, freed) == (3 * MIB, 3 * MIB)


def test_memory_from_before_the_call_does_not_count():
    kept = torch.empty(8 * MIB, dtype=torch.uint8)
    assert peaks(allocates(MIB), kept.zero_) == (MIB, 0)


def test_a_call_that_allocates_nothing_peaks_at_nothing():
    assert peaks(lambda: None, lambda: None) == (0, 0)


def keeps(size, *, calls):
    """Return a step that allocates a block, and keeps it in the first ``calls`` calls."""
    kept = []

    def step():
        block = torch.empty(size, dtype=torch.uint8)
        if len(kept) < calls:
            kept.append(block)

    return step


@pytest.mark.parametrize(("calls", "bytes_a_call"), [(100, MIB), (1, 0), (0, 0)])
def test_memory_that_every_call_leaves_counts_and_that_of_one_call_does_not(calls, bytes_a_call):
    seen = peak_memory(
        keeps(MIB, calls=0), keeps(MIB, calls=calls), device=CPU, compile_peak_bytes=0
    )
    assert (seen.eager_kept_bytes, seen.compiled_kept_bytes) == (0, bytes_a_call)
    assert seen.compiled_peak_bytes == MIB


def test_garbage_is_not_counted_as_left():
    def cycle():
        block = [torch.empty(MIB, dtype=torch.uint8)]
        block.append(block)

    seen = peak_memory(cycle, cycle, device=CPU, compile_peak_bytes=0)
    assert (seen.eager_kept_bytes, seen.compiled_kept_bytes) == (0, 0)


def test_the_peak_of_a_training_step_includes_its_gradients():
    """The gradients of the step before are dropped first, which must not hide the new ones."""
    linear = Model(
        "m", "m", build=lambda: Example(nn.Linear(1024, 256), lambda: (torch.ones(2, 1024),))
    )
    request = Request(
        case="m-cpu-train-f32-default-static", wants=("capture", "memory"), backend="eager"
    )
    seen = ModelSession({"m": linear}, lambda stage: None).observe(request)
    assert seen.status == "completed", seen.failure
    assert seen.memory.eager_peak_bytes >= MIB
    assert seen.memory.compiled_peak_bytes >= MIB
    assert (seen.memory.eager_kept_bytes, seen.memory.compiled_kept_bytes) == (0, 0)


class Accelerator:
    """A device, and its caching allocator, which keeps what was freed until it is released.

    Args:
        graphs: The bytes in pools of graphs, and the allocated part of them.
        gaps: Bytes between living tensors, which it cannot release.
    """

    def __init__(self, *, graphs=(0, 0), gaps=0):
        self.allocator = self
        self.gaps, self.rounding = gaps, 0
        self.now = self.most = self.taken = self.most_taken = graphs[1]
        self.taken = self.most_taken = graphs[0]
        self.graphs = graphs

    def allocate(self, size):
        self.now += size
        self.taken = max(self.taken, self.now)
        self.most, self.most_taken = max(self.most, self.now), max(self.most_taken, self.taken)

    def step(self, *sizes, kept=0, rounding=0):
        def step():
            for size in sizes:
                self.allocate(size)
            self.now -= sum(sizes) - kept - rounding
            self.rounding += rounding

        return step

    def synchronize(self):
        pass

    def allocated(self):
        return self.now

    def requested(self):
        return self.now - self.rounding

    def reserved(self):
        return self.taken

    def peak_allocated(self):
        return self.most

    def peak_reserved(self):
        return self.most_taken

    def reset_peaks(self):
        self.most, self.most_taken = self.now, self.taken

    def release_unused(self):
        self.taken = self.now - self.graphs[1] + self.graphs[0] + self.gaps

    def graph_pools(self):
        return self.graphs


def test_an_allocator_s_peaks_count_from_the_start_of_the_call():
    device = Accelerator()
    device.allocate(100)
    seen = peak_memory(
        device.step(5, 7), device.step(20, kept=3), device=device, compile_peak_bytes=9
    )
    assert (seen.eager_peak_bytes, seen.compiled_peak_bytes) == (12, 20)
    assert (seen.eager_reserved_bytes, seen.compiled_reserved_bytes) == (12, 20)
    assert (seen.eager_kept_bytes, seen.compiled_kept_bytes) == (0, 3)
    assert (seen.graphs_bytes, seen.compile_peak_bytes) == (0, 9)


def test_the_pools_of_graphs_belong_to_compiled_code():
    device = Accelerator(graphs=(64, 16))
    seen = peak_memory(device.step(5), device.step(2), device=device, compile_peak_bytes=0)
    assert seen.graphs_bytes == 64
    assert (seen.eager_peak_bytes, seen.compiled_peak_bytes) == (5, 2 + 64)


@pytest.mark.parametrize(("kept", "rounding", "left"), [(0, 4, 0), (3, 0, 3), (3, 4, 3)])
def test_what_the_allocator_rounds_up_is_not_left(kept, rounding, left):
    """A tensor of each call stays, the former one goes: its block may be a little larger."""
    device = Accelerator()
    leaves = device.step(20, kept=kept, rounding=rounding)
    seen = peak_memory(device.step(5), leaves, device=device, compile_peak_bytes=0)
    assert (seen.eager_kept_bytes, seen.compiled_kept_bytes) == (0, left)


@pytest.mark.parametrize("gaps", [0, 40])
def test_gaps_that_earlier_calls_left_are_recorded(gaps):
    device = Accelerator(graphs=(64, 16), gaps=gaps)
    seen = peak_memory(device.step(5), device.step(2), device=device, compile_peak_bytes=0)
    assert seen.compiled_unused_bytes == gaps
