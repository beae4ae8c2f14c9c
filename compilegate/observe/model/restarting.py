"""Start a subject where another one stood before a call."""

from __future__ import annotations

import torch

from compilegate.observe.model.result import Result
from compilegate.observe.model.subject import Subject


def start_as(subject: Subject, other: Subject, made: Result) -> None:
    """Write the parameters and buffers that a subject had before a call to another one.

    Args:
        subject: Is written to, in its own precision.
        other: Made the call. Its parameters are those of the call, except where the call wrote to
            them.
        made: The result of the call.
    """
    theirs = other.parameters()
    with torch.no_grad():
        for name, parameter in subject.parameters().items():
            parameter.copy_(made.started.get(name, theirs[name]))
        for name, buffer in subject.buffers().items():
            buffer.copy_(made.before[f"buffer {name}"])
