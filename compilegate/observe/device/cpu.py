"""The processor as a device."""

from __future__ import annotations

import os
import platform
import re
import time
from pathlib import Path
from typing import Literal

import torch

from compilegate.observe.device.protocol import Allocator, Sensors, Step, UnavailableError
from compilegate.observe.host.machine import processor_flags
from compilegate.records import environment

#: The vector instructions that PyTorch and Inductor have kernels for. Every kernel that runs a
#: PyTorch of today knows these names; it may not know those of later ones.
_VECTORS = frozenset(
    {
        *("avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"),
        *("avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16"),
        *("asimd", "bf16", "i8mm", "sve", "sve2", "svebf16"),
    }
)
#: How PyTorch's allocator, C++'s and g++ report that an allocation failed.
_OUT_OF_MEMORY = re.compile(
    r"DefaultCPUAllocator: (?:can't allocate|not enough) memory|std::bad_alloc"
    r"|Cannot allocate memory|cc1plus: out of memory|virtual memory exhausted"
)


class Cpu:
    """The processor: calls return when their work is done, and the wall clock times them.

    See :class:`~compilegate.observe.device.protocol.Device`, which it implements.
    """

    kind = "cpu"
    allocator: Allocator | None = None
    has_sensors = False
    records_graphs = False
    draws_by_kernel = False
    can_be_lost = False
    clock: Literal["wall", "events"] = "wall"
    shortest_round_ns = 2e6
    chunk_elements = 1 << 18

    def is_available(self) -> bool:
        """Return True: every PyTorch computes on the processor."""
        return True

    def describe(self) -> list[environment.Device]:
        """Return the record of the processor, with the cores that this process may use."""
        information = Path("/proc/cpuinfo")
        text = information.read_text() if information.exists() else ""
        model = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
        return [
            environment.Device(
                kind=self.kind,
                name=model[1].strip() if model else platform.processor() or platform.machine(),
                memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
                cores=len(os.sched_getaffinity(0)),
                instructions=" ".join(sorted(_VECTORS & processor_flags())),
            )
        ]

    def prepare_to_fork(self) -> None:
        """Do nothing: the processor needs no initialisation."""

    def initialized_index(self) -> int | None:
        """Return None: the processor has no index."""
        return None

    def synchronize(self) -> None:
        """Do nothing: a call that has returned is done."""

    def elapsed_ns(self, step: Step, calls: int) -> float:
        """Return the nanoseconds of a number of calls by the wall clock."""
        start = time.perf_counter_ns()
        for _ in range(calls):
            step()
        return float(time.perf_counter_ns() - start)

    def kernels_ns(self, step: Step, calls: int) -> float:
        """Return 0: kernels are part of the call."""
        return 0.0

    def generator_state(self) -> torch.Tensor:
        """Return the state of PyTorch's default generator."""
        return torch.get_rng_state()

    def set_generator_state(self, state: torch.Tensor) -> None:
        """Set the state of PyTorch's default generator."""
        torch.set_rng_state(state)

    def is_out_of_memory(self, error: RuntimeError) -> bool:
        """Return whether PyTorch's allocator, C++ or a compiler reports it.

        Allocations fail where the address space is limited, or one asks for more than there can be.
        Otherwise the kernel kills a process that takes too much.
        """
        return _OUT_OF_MEMORY.search(str(error)) is not None

    def open_sensors(self) -> Sensors:
        """Raise: no sensors are read.

        Raises:
            UnavailableError: Always.
        """
        raise UnavailableError("compilegate reads no sensors of the processor")
