"""Context variables of Python that a model sets."""

from __future__ import annotations

import contextvars
from typing import Any


def is_variable(value: object) -> bool:
    """Whether a value is a context variable with a default.

    Nobody can take the value from one without a default, so it cannot be put back.
    """
    if not isinstance(value, contextvars.ContextVar):
        return False
    try:
        contextvars.Context().run(value.get)
    except LookupError:
        return False
    return True


def value_of(value: Any) -> Any:
    """Return the value of a context variable; None for any other value."""
    return value.get() if is_variable(value) else None


def set_value(variable: contextvars.ContextVar[Any], value: Any) -> None:
    """Give a context variable a value, unless it has it."""
    if variable.get() is not value:
        variable.set(value)
