"""Calls in which eager may end the process: the parent process learns of each before it begins."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch

from compilegate.observe.device.protocol import Device
from compilegate.observe.measure.alternation import ParentConnection
from compilegate.observe.model.calls import first_call
from compilegate.observe.model.probes import Probe
from compilegate.observe.phases.eager import FirstCall
from compilegate.observe.phases.probing_plan import reusing


@dataclass(frozen=True)
class Extremes:
    """What is known of calls in which eager may end, and who learns of them.

    Attributes:
        parent: Learns of each probing call; of those with extreme floating numbers, when they begin
            and when they are over in eager; and of another one in which eager has lost the GPU. It
            is None if nobody does.
        unprobed: Why no call with extreme floating numbers is made; empty if they are.
        others: Why no call of another probe is made, by its name.
    """

    parent: ParentConnection | None
    unprobed: str = ""
    others: Mapping[str, str] = field(default_factory=dict)

    def against(self, probe: Probe) -> str:
        """Return why a probing call is left out; empty if it is made."""
        return self.unprobed if probe.has_extreme_floats else self.others.get(probe.name, "")

    def begin(self, probe: Probe) -> None:
        """Report that the call of a probe begins, on either side."""
        if self.parent is not None:
            self.parent.report_call(probe.name)

    @contextlib.contextmanager
    def reported(self, probe: Probe, wait: Callable[[], None]) -> Iterator[None]:
        """Report the call of a probe if it has extreme floating numbers, or loses the GPU.

        A call that loses the GPU's context is never over: nothing runs there any more.

        Args:
            probe: The probe.
            wait: Waits for the device, and raises what went wrong there.
        """
        wait()  # what compiled code did before is not of this call
        self._report(probe, probe.name)
        try:
            yield
            wait()
        except torch.AcceleratorError:
            is_eagers = not probe.repeats  # compiled code makes the repetitions, too
            if self.parent is not None and is_eagers and not probe.has_extreme_floats:
                self.parent.report_lost(probe.name)
            raise
        except BaseException:
            self._report(probe, "")
            raise
        self._report(probe, "")

    def _report(self, probe: Probe, text: str) -> None:
        if self.parent is not None and probe.has_extreme_floats:
            self.parent.report_probing(text)

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
