"""The protocol that a device implements: all that compilegate needs of it, and nothing else.

A port to another device (``xpu``, ``mps`` …) is one module next to :mod:`.cpu` and :mod:`.cuda`
with a class that has every member of :class:`Device`, and one entry in ``DEVICES`` of this package.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

import torch

from compilegate.records import environment
from compilegate.records.performance import Condition

#: One call of a model, with everything that it needs.
Step = Callable[[], object]


class UnavailableError(Exception):
    """Sensors of a device do not answer; the message says why."""


class Allocator(Protocol):
    """The statistics of a caching allocator. All figures are bytes, of this process alone.

    ``torch.accelerator`` has most of them for every accelerator whose allocator PyTorch provides.
    """

    def allocated(self) -> int:
        """Return the bytes that tensors occupy."""

    def requested(self) -> int:
        """Return the bytes that tensors asked for.

        Where a free block is a little larger than a tensor, the allocator hands out all of it. So
        :meth:`allocated` depends on what was free, and this does not.
        """

    def peak_allocated(self) -> int:
        """Return the largest number of bytes that tensors occupied since :meth:`reset_peaks`."""

    def reserved(self) -> int:
        """Return the bytes that the allocator has reserved on the device."""

    def peak_reserved(self) -> int:
        """Return the most that the allocator had taken since the last :meth:`reset_peaks`."""

    def reset_peaks(self) -> None:
        """Reset both peaks to the current values."""

    def release_unused(self) -> None:
        """Release unused blocks to the device."""

    def graph_pools(self) -> tuple[int, int]:
        """Return the bytes in private pools of recorded graphs, and the allocated part of them.

        A device that records no graphs returns ``(0, 0)``.
        """

    def free_and_total(self) -> tuple[int, int]:
        """Return the device's free and total memory, across all processes.

        Raises:
            RuntimeError: The driver does not answer.
        """


class Sensors(Protocol):
    """What a device measures about itself: clocks, temperature, power and energy."""

    def condition(self) -> Condition:
        """Return the device's condition.

        Raises:
            UnavailableError: It does not report throttling.
        """

    def energy_j(self) -> float:
        """Return a counter of the energy that it has consumed, in joules.

        Raises:
            UnavailableError: It has no such counter.
        """

    def limits(self) -> dict[str, str]:
        """Return its limits by name: the highest clock, the power that it may draw."""


class Device(Protocol):
    """A kind of device that cases run on.

    A port has to write each of these members. One process uses one device of a kind: the current
    one, which is the first that is visible to it.

    Attributes:
        kind: PyTorch's name of the device type, which is also the device's name in case ids:
            ``cuda``. It must be among the values of the axis *device* in ``records.case``.
        allocator: Statistics of the device's allocator. None where there are none: memory is then
            counted from the profiler's allocation events, as on the processor.
        has_sensors: Whether there are sensors to open. Without them, conditions and energy are not
            observed.
        records_graphs: Whether ``torch.compile`` can record graphs of kernels here and replay them
            (CUDA graphs). Cases then make one more call at each size, so that a replay is compared.
        draws_by_kernel: Whether the random numbers that an operator draws depend on its kernel, and
            so on the dtype. The reference is then given the numbers that eager drew.
        can_be_lost: Whether an error may leave the device unusable for the rest of the process. The
            process then observes no further case.
        clock: What :meth:`elapsed_ns` reads: the wall clock, or events that the device records.
        shortest_round_ns: How long a timed round lasts at least. It must be long compared with the
            clock's resolution and with the start of a round.
        chunk_elements: How many elements of a float64 comparison are processed at once: enough to
            keep the device busy, few enough to stay in its caches.
    """

    kind: str
    allocator: Allocator | None
    has_sensors: bool
    records_graphs: bool
    draws_by_kernel: bool
    can_be_lost: bool
    clock: Literal["wall", "events"]
    shortest_round_ns: float
    chunk_elements: int

    def is_available(self) -> bool:
        """Return whether this PyTorch can compute on such a device here."""

    def describe(self) -> list[environment.Device]:
        """Return the record of every visible device of this kind: name, memory, cores, driver.

        It may initialise the device's runtime, so it is called in a forked child only.
        """

    def prepare_to_fork(self) -> None:
        """Keep imports in this process, which forks children, from initialising the device."""

    def initialized_index(self) -> int | None:
        """Return the index of the device in use; None where this process has not initialised it."""

    def synchronize(self) -> None:
        """Wait until all work that this process has given to the device is done."""

    def elapsed_ns(self, step: Step, calls: int) -> float:
        """Return the nanoseconds from the start of the first call to the end of the last.

        Args:
            step: What is called. The device executes the calls one after the other; waiting between
                two of them would add what the host needs to start work.
            calls: How often it is called.
        """

    def kernels_ns(self, step: Step, calls: int) -> float:
        """Return the nanoseconds that kernels and copies take in one call, by PyTorch's profiler.

        Args:
            step: What is called.
            calls: How many calls are averaged.

        Returns:
            The sum over kernels; 0 where the device has no kernels to profile.
        """

    def generator_state(self) -> torch.Tensor:
        """Return the state of the default generator: a ``uint8`` tensor in the host's memory.

        ``torch.manual_seed`` must seed this generator, too.
        """

    def set_generator_state(self, state: torch.Tensor) -> None:
        """Give the default generator a state that :meth:`generator_state` returned."""

    def is_out_of_memory(self, error: RuntimeError) -> bool:
        """Return whether an error reports that the device's memory ran out.

        ``torch.OutOfMemoryError`` is recognised for every device. This adds the messages of the
        driver, of the compiler's runtime and of vendors' libraries, which raise plain
        ``RuntimeError``.
        """

    def open_sensors(self) -> Sensors:
        """Return the sensors of the device in use.

        Raises:
            UnavailableError: They do not answer, or the device has none; the message says why.
        """
