"""Calls that are not compiled as a whole: those of eager, and those of the reference.

A model may compile a part of itself all the same, as ``flex_attention`` does where it is called in
eager. Then Dynamo captures that part, and PyTorch's operators run it: no backend, whose errors
compiled code would share. It is no work of the compiled model, so it is left out of the records.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager

import torch
import torch._dynamo.utils as dynamo

from compilegate.observe.model.random_draws import DrawRecording
from compilegate.observe.model.result import Result
from compilegate.observe.model.subject import Subject
from compilegate.zoo.example import Call


def call(
    eager: Subject,
    made: Call,
    index: int,
    recording: DrawRecording | None = None,
    around: AbstractContextManager[object] | None = None,
) -> Result:
    """Make a call of a model that is not compiled. See :meth:`Subject.call` for the arguments."""
    with left_out() as compiled, torch.compiler.set_stance("default", force_backend="eager"):
        result = eager.call(made, index, recording, around)
    eager.compiles_itself |= bool(compiled)
    eager.asserts_ranges |= recording is None or recording.asserts_ranges
    return result


@contextlib.contextmanager
def left_out() -> Iterator[list[object]]:
    """Leave what is compiled in a ``with`` block out of PyTorch's records. Its code stays.

    Yields:
        A list, which has the metrics of these compilations at the end of the block.
    """
    found: list[object] = []
    metrics, breaks = len(dynamo._compilation_metrics), len(dynamo.graph_break_reasons)
    counters = dict(dynamo.counters)
    dynamo.counters.clear()
    try:
        yield found
    finally:
        dynamo.counters.clear()
        dynamo.counters.update(counters)
        del dynamo.graph_break_reasons[breaks:]
        while len(dynamo._compilation_metrics) > metrics:
            found.append(dynamo._compilation_metrics.pop())
