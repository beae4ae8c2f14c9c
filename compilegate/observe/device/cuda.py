"""NVIDIA's GPUs as a device: the only module that names ``torch.cuda``.

``torch.accelerator`` serves where torch 2.8 has what is needed: to synchronise, and for the index
of the device in use. Its statistics of memory came with torch 2.9.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Literal

import torch
from torch._C._autograd import DeviceType

from compilegate.observe.device.nvml import NvmlSensors
from compilegate.observe.device.protocol import Allocator, Sensors, Step
from compilegate.records import environment

#: How the driver, Triton and CUDA's libraries report that memory ran out, past PyTorch's allocator.
_OUT_OF_MEMORY = re.compile(
    r"CUDA (?:driver )?error: out of memory|Triton Error \[CUDA\]: out of memory"
    r"|CUDA ran out of memory outside PyTorch's allocator"
    r"|\bCU[A-Z]+_(?!\w*HOST_)\w*ALLOC(?:ATION)?_FAILED\b"
    r"|CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate"  # which allocates
)
#: Exists where there is a driver for NVIDIA's GPUs.
_DRIVER = Path("/dev/nvidiactl")
#: Where the driver writes its version.
_DRIVER_VERSION = Path("/sys/module/nvidia/version")


class CudaAllocator:
    """The statistics of PyTorch's caching allocator on the current GPU, in bytes."""

    def allocated(self) -> int:
        """Return the bytes that tensors occupy."""
        return torch.cuda.memory_allocated()

    def requested(self) -> int:
        """Return the bytes that tensors asked for: less than they occupy, by up to 1 MiB a tensor.

        The allocator of the driver (``backend:cudaMallocAsync``) does not count them; there it is
        what tensors occupy.

        https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.memory_stats.html
        """
        return torch.cuda.memory_stats().get("requested_bytes.all.current") or self.allocated()

    def peak_allocated(self) -> int:
        """Return the largest number of bytes that tensors occupied since the peaks were reset."""
        return torch.cuda.max_memory_allocated()

    def reserved(self) -> int:
        """Return the bytes that the allocator has reserved on the GPU."""
        return torch.cuda.memory_reserved()

    def peak_reserved(self) -> int:
        """Return the most that it had taken since the peaks were reset."""
        return torch.cuda.max_memory_reserved()

    def reset_peaks(self) -> None:
        """Reset both peaks to the current values."""
        torch.cuda.reset_peak_memory_stats()

    def release_unused(self) -> None:
        """Give unused blocks back to the GPU."""
        torch.cuda.empty_cache()

    def graph_pools(self) -> tuple[int, int]:
        """Return the bytes in private pools of CUDA graphs, and the allocated part of them."""
        pools = [
            segment
            for segment in torch.cuda.memory_snapshot()
            if tuple(segment.get("segment_pool_id", (0, 0))) != (0, 0)
        ]
        held, used = (sum(pool[key] for pool in pools) for key in ("total_size", "allocated_size"))
        return held, used

    def free_and_total(self) -> tuple[int, int]:
        """Return the GPU's free and total memory, across all processes.

        Raises:
            RuntimeError: The driver does not answer.
        """
        return torch.cuda.mem_get_info()


class Cuda:
    """The current GPU, the first of those in ``CUDA_VISIBLE_DEVICES``.

    See :class:`~compilegate.observe.device.protocol.Device`, which it implements.
    """

    kind = "cuda"
    allocator: Allocator | None = CudaAllocator()
    has_sensors = True
    records_graphs = True
    draws_by_kernel = True
    can_be_lost = True
    clock: Literal["wall", "events"] = "events"
    shortest_round_ns = 5e6
    chunk_elements = 1 << 22

    def is_available(self) -> bool:
        """Return whether this PyTorch has CUDA and the driver shows it a GPU."""
        return torch.cuda.is_available()

    def describe(self) -> list[environment.Device]:
        """Return the records of all visible GPUs. This initialises CUDA."""
        if not torch.cuda.is_available():
            return []
        version = _DRIVER_VERSION.read_text().strip() if _DRIVER_VERSION.exists() else ""
        found = []
        for index in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(index)
            found.append(
                environment.Device(
                    kind=self.kind,
                    name=properties.name,
                    memory_bytes=properties.total_memory,
                    cores=properties.multi_processor_count,
                    driver=version,
                    capability=f"{properties.major}.{properties.minor}",
                )
            )
        return found

    def prepare_to_fork(self) -> None:
        """Have another process count the GPUs where NVML cannot: MIG slices, or a missing library.

        Imports ask whether there are any GPUs. Without NVML, PyTorch would have the CUDA runtime
        count them in this process, and none of the children that it forks could use them.
        """
        by_nvml = getattr(torch.cuda, "_device_count_nvml", int)  # private: it may go
        if not _DRIVER.exists() or by_nvml() >= 0:
            return
        code = "import torch; print(torch.cuda.device_count())"
        counting = [sys.executable, "-c", code]
        done = subprocess.run(counting, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode == 0:
            torch.cuda._cached_device_count = int(done.stdout.split()[-1])

    def initialized_index(self) -> int | None:
        """Return the index of the current GPU; None where this process has not initialised CUDA."""
        initialized = torch.cuda.is_initialized()
        return torch.accelerator.current_device_index() if initialized else None

    def synchronize(self) -> None:
        """Wait for all kernels of this process."""
        torch.accelerator.synchronize()

    def elapsed_ns(self, step: Step, calls: int) -> float:
        """Return the nanoseconds from the GPU's reaching the first call to its end of the last."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.synchronize()
        start.record()
        for _ in range(calls):
            step()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e6

    def kernels_ns(self, step: Step, calls: int) -> float:
        """Return the time of the GPU's kernels and copies in one call.

        It is less than the time of the call where the GPU waits for the host.
        """
        activities = [torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profiler:
            for _ in range(calls):
                step()
            self.synchronize()
        events = profiler.profiler.kineto_results.events()
        on_gpu = (event for event in events if event.device_type() == DeviceType.CUDA)
        return sum(float(event.duration_ns()) for event in on_gpu) / calls

    def generator_state(self) -> torch.Tensor:
        """Return the state of the current GPU's generator."""
        return torch.cuda.get_rng_state()

    def set_generator_state(self, state: torch.Tensor) -> None:
        """Set the state of the current GPU's generator."""
        torch.cuda.set_rng_state(state)

    def is_out_of_memory(self, error: RuntimeError) -> bool:
        """Return whether the driver, Triton or a library of CUDA's reports it."""
        return _OUT_OF_MEMORY.search(str(error)) is not None

    def open_sensors(self) -> Sensors:
        """Return what NVML reports about the current GPU.

        Raises:
            UnavailableError: The binding or the driver's library is absent, or does not know it.
        """
        return NvmlSensors(
            torch.cuda.get_device_properties(torch.accelerator.current_device_index()).uuid
        )
