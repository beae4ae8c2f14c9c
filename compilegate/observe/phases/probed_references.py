"""The references of probing calls. They start where eager stood before each call."""

from __future__ import annotations

from collections.abc import Iterator

from compilegate.observe import error_text
from compilegate.observe.device import out_of_memory
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.float64 import Lifting
from compilegate.observe.model.plain_values import set_plain
from compilegate.observe.model.restarting import start_as
from compilegate.observe.model.result import Result
from compilegate.observe.model.subject import Subject
from compilegate.observe.phases.builder import Builder
from compilegate.observe.phases.calls import PairedCalls


class ProbedReferences:
    """The reference, and its alternative where there is one.

    Args:
        calls: Made the other calls of the case. Their reference has the same precision: that of a
            model that does not run in float64 is in float32.
        builder: Builds the references when they are first needed.

    Attributes:
        trouble: Why the last call had no reference; empty if it had one.
    """

    def __init__(self, calls: PairedCalls, builder: Builder) -> None:
        self._eager, self._builder = calls.eager, builder
        self._dtype = calls.comparison.reference.dtype
        self._built: list[tuple[Subject, Lifting]] = []
        self.trouble = ""

    def results(self, planned: PlannedCall, made: Result) -> list[Result]:
        """Return the results of a call.

        The list is empty if the model cannot be built or called in this precision: see
        :attr:`trouble`.

        Args:
            planned: The call.
            made: The result of eager, from whose state the references start.

        Raises:
            Exception: Memory ran out, or the GPU's context is lost.
        """
        self.trouble = ""
        try:
            return [*self._made(planned, made)]
        except Exception as error:
            if out_of_memory.is_fatal(error):
                raise
            self.trouble = error_text.with_kind(error)
            return []

    def _made(self, planned: PlannedCall, made: Result) -> Iterator[Result]:
        for halves in (True, False):
            index = 0 if halves else 1
            if len(self._built) == index:
                lifting = Lifting(self._dtype, halves=halves)
                self._built.append((self._builder(lifting), lifting))
            subject, lifting = self._built[index]
            start_as(subject, self._eager, made)
            lifting.replay = made.recording.replay() if made.recording is not None else None
            call = subject.prepare(planned)
            set_plain(subject.module, made.before)
            result = subject.call(call, planned.index)
            if result.error is None:
                yield result
            else:
                self.trouble = error_text.with_kind(result.error)
            if not lifting.lifted_halves:
                return
