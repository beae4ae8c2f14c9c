"""Calls of one compiled model at several sizes, each compared with eager and with the reference."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from compilegate.observe.capture import eager_calls
from compilegate.observe.compare.call_comparer import CallComparer
from compilegate.observe.device import device as device_of
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.random_draws import DrawRecording
from compilegate.observe.model.reference import Reference
from compilegate.observe.model.result import Result
from compilegate.observe.model.subject import Subject
from compilegate.observe.practices import padding
from compilegate.observe.practices.bench import Bench, Compared
from compilegate.observe.practices.unavailable import check_eager
from compilegate.observe.practices.varied_sizes import Sizes
from compilegate.records.call import Checked
from compilegate.zoo.example import Call, argument_of

#: Marks a dimension of a tensor that has a name in ``vary``.
Mark = Callable[[torch.Tensor, int, str], None]


def declared(subject: Subject, call: Call) -> Iterator[tuple[torch.Tensor, int, str]]:
    """Yield each declared dimension of a call's arguments: its tensor, its number and its name."""
    for argument, dims in subject.example.dims.items():
        tensor = argument_of(argument, call.args, call.kwargs)
        yield from ((tensor, dim, name) for dim, name in dims.items())


class SizedCalls:
    """A new model on both sides, compiled in an empty compiler, and its calls at several sizes.

    Both sides make the same calls in the same order, so that a model that keeps state has the same
    one. Each call has inputs of its own.

    Args:
        bench: Builds the models.
        options: The arguments of ``torch.compile``.
        mark: Marks the declared dimensions of a call's arguments before compiled code sees them.
    """

    def __init__(self, bench: Bench, options: Mapping[str, Any], mark: Mark | None = None) -> None:
        bench.forget_compiled()
        self._bench, self._mark = bench, mark
        self._eager, self._compiled = bench.build(), bench.build()
        self._compiled.run = torch.compile(self._compiled.module, **options)
        self._comparer = CallComparer(
            self._eager,
            self._compiled,
            Reference(bench.builder),
            bench.builder,
            bench.progress.time,
            half=bench.half,
        )
        self._indices = itertools.count()

    def compare(self, sizes: Sizes) -> Compared:
        """Make a call on both sides, and compare outputs, gradients and state.

        Args:
            sizes: The size of each named dimension.

        Raises:
            StepUnavailableError: Eager raises.
            Exception: Compiled code raises.
        """
        planned = self._planned(sizes)
        made = self._call_eager(planned)
        return self._comparer.of_call(planned, made, self._call(planned))

    def compare_padded(self, sizes: Sizes, bucket: Sizes) -> Compared:
        """Make a call in eager, and in compiled code with inputs that are padded to a bucket.

        Only the outputs are compared: what the model writes to its inputs has another shape.

        Args:
            sizes: The size of each named dimension in eager.
            bucket: Their sizes in compiled code, whose outputs are cut off to the shapes of eager.

        Raises:
            StepUnavailableError: Eager raises.
            Exception: Compiled code raises.
        """
        planned = self._planned(sizes)
        made = self._call_eager(planned)
        cut = padding.cut(self._call(planned, bucket), made)
        return self._comparer.of_call(planned, made, cut)[0], Checked(), Checked()

    def call(self, sizes: Sizes) -> None:
        """Make a call of compiled code alone.

        Raises:
            Exception: Compiled code raises.
        """
        self._call(self._planned(sizes))

    def _planned(self, sizes: Sizes) -> PlannedCall:
        return PlannedCall(next(self._indices), dict(sizes))

    def _call_eager(self, planned: PlannedCall) -> Result:
        by_kernel = device_of(self._eager.case.device).draws_by_kernel
        recording = DrawRecording(is_needed=by_kernel) if self._bench.draws else None
        call = self._eager.prepare(planned)
        made = eager_calls.call(self._eager, call, planned.index, recording)
        check_eager(made.error)
        made.recording = recording
        return made

    def _call(self, planned: PlannedCall, bucket: Sizes | None = None) -> Result:
        call = self._compiled.prepare(planned)
        if bucket is not None:
            call = padding.pad(self._compiled, call, bucket)
        if self._mark is not None:
            for tensor, dim, name in declared(self._compiled, call):
                self._mark(tensor, dim, name)
        with self._bench.progress.spend("compile"):
            result = self._compiled.call(call, planned.index)
        if result.error is not None:
            raise result.error
        return result
