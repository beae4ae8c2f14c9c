"""The setting of a case's forward, and the part of its output that compilegate judges."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from compilegate.observe import error_text
from compilegate.observe.model import cast_weights
from compilegate.observe.model.float64 import Lifting
from compilegate.records.case import Case
from compilegate.zoo.example import Example

_AUTOCAST = {"bf16": torch.bfloat16, "f16": torch.float16}


class SelectorError(Exception):
    """``Example.output`` fails to pick an output: a mistake in the recipe, not in the model."""


@contextlib.contextmanager
def setting(
    case: Case, lifting: Lifting | None, *, with_grad: bool = False, caches_casts: bool = True
) -> Iterator[None]:
    """Enter the grad mode of a case, and its autocast or the lifting of a reference.

    Args:
        case: The case.
        lifting: The lifting of a reference.
        with_grad: Whether grad mode is on in *infer*, too.
        caches_casts: Whether autocast keeps the weights that it has cast until it ends.
    """
    autocast = _AUTOCAST.get(case.precision)
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.set_grad_enabled(with_grad or case.phase == "train"))
        if lifting:
            stack.enter_context(lifting.active(cast_weights.dtype_of(case)))
        elif autocast:
            stack.enter_context(torch.autocast(case.device, autocast, cache_enabled=caches_casts))
        yield


def select_output(example: Example, output: Any) -> Any:
    """Return the part of an output that compilegate judges.

    Raises:
        SelectorError: ``Example.output`` raises, or picks None.
    """
    if example.output is None:
        return output
    given = f"given the {type(output).__name__} that the model returned"
    try:
        selected = example.output(output)
    except Exception as error:
        reason = error_text.with_kind(error)
        raise SelectorError(f"output=… of Example raised {reason}, {given}") from error
    if selected is None and output is not None:
        raise SelectorError(f"output=… of Example returned None, {given}")
    return selected
