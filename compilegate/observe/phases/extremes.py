"""Calls in which eager may end the process: the parent process learns of each before it begins."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch

from compilegate.observe.device.protocol import Device
from compilegate.observe.model.calls import first_call
from compilegate.observe.model.probes import Probe
from compilegate.observe.phases.eager import FirstCall
from compilegate.observe.phases.probing_plan import reusing


@dataclass(frozen=True)
class Extremes:
    """What is known of calls with extreme floating numbers, and who learns of them.

    Attributes:
        report: Is given the name of a probe when its call in eager begins, and an empty text when
            it is over.
        unprobed: Why no such call is made; empty if they are.
    """

    report: Callable[[str], None]
    unprobed: str = ""

    def against(self, probe: Probe) -> str:
        """Return why a probing call is left out; empty if it is made."""
        return self.unprobed if probe.has_extreme_floats else ""

    @contextlib.contextmanager
    def reported(self, probe: Probe, wait: Callable[[], None]) -> Iterator[None]:
        """Report the call of a probe, if it has extreme floating numbers.

        It is not over where it has lost the GPU's context: nothing runs there any more.

        Args:
            probe: The probe.
            wait: Waits for the device, and raises what went wrong there.
        """
        if not probe.has_extreme_floats:
            yield
            return
        self.report(probe.name)
        try:
            yield
            wait()
        except torch.AcceleratorError:
            raise
        except BaseException:
            self.report("")
            raise
        self.report("")

    def call_eager_alone(
        self, first: FirstCall, vary: Mapping[str, tuple[int, ...]], device: Device
    ) -> None:
        """Make all such calls in eager, in a process that compiles nothing.

        Args:
            first: The first call.
            vary: The sizes of what may vary, by name.
            device: Runs them.

        Raises:
            torch.AcceleratorError: A call has lost the GPU's context.
        """
        eager = first.eager
        for planned in reusing(eager.example, first_call(dict(vary)).sizes, eager.case):
            if planned.probe is not None and planned.probe.has_extreme_floats:
                # What a kernel raises shows on leaving, after what the model raises is dropped.
                reported = self.reported(planned.probe, device.synchronize)
                with reported, contextlib.suppress(Exception):
                    eager.call(eager.prepare(planned), planned.index)
