"""Start a subject where another one stood before a call."""

from __future__ import annotations

import torch

from compilegate.observe.model.equality import is_same
from compilegate.observe.model.holder import holder_of
from compilegate.observe.model.result import Result
from compilegate.observe.model.subject import Subject


def start_as(subject: Subject, other: Subject, made: Result) -> None:
    """Give a subject the parameters, buffers and shared variables of another one before a call.

    What prepares the call may change numbers that modules hold, so these follow then: see
    :func:`.plain_values.set_plain`.

    Args:
        subject: Is written to, in its own precision.
        other: Made the call. Its parameters are those of the call, except where the call wrote to
            them.
        made: The result of the call.
    """
    subject.recorder.shared.left = made.began
    theirs = other.parameters()
    with torch.no_grad():
        for name, parameter in subject.parameters().items():
            _write(parameter, made.started.get(name, theirs[name]))
        for name, buffer in subject.buffers().items():
            known = made.before[f"buffer {name}"]
            if buffer.shape == known.shape:
                _write(buffer, known)
            else:  # a table that the model makes in its first call
                _replace(subject.module, name, known.to(buffer.dtype, copy=True))


def _replace(model: object, name: str, value: torch.Tensor) -> None:
    path, _, last = name.rpartition(".")
    setattr(holder_of(model).get_submodule(path), last, value)


def _write(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    """Write to a tensor, unless it has the values: not every tensor can be written to."""
    if not is_same(ours, theirs):
        ours.copy_(theirs)
