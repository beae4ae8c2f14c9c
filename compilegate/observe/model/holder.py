"""The modules of a model that is no module itself: a function, a method or a partial call."""

from __future__ import annotations

import contextlib
import functools
from types import FunctionType, MethodType
from typing import Any

from torch import nn

from compilegate.observe.objects import attributes_of


def holder_of(model: object) -> nn.Module:
    """Return the model, or a module that holds those to which a callable leads, by their names.

    These are the modules that a function closes over, that a partial call binds, whose method it
    is, and that a callable object has as attributes. Global variables are left out: all sides share
    them.
    """
    if isinstance(model, nn.Module):
        return model
    holder = nn.Module()
    for name, module in _led_to(model, set()).items():
        holder.add_module(name.replace(".", "_"), module)
    return holder


def _led_to(value: object, seen: set[int]) -> dict[str, nn.Module]:
    if id(value) in seen:
        return {}
    seen.add(id(value))
    found: dict[str, nn.Module] = {}
    for name, held in _held_by(value).items():
        if isinstance(held, nn.Module):
            found.setdefault(name, held)
        elif callable(held) and not isinstance(held, type):
            found = {f"{name}.{inner}": one for inner, one in _led_to(held, seen).items()} | found
    return found


def _held_by(value: object) -> dict[str, Any]:
    if isinstance(value, MethodType):
        return {"self": value.__self__, "function": value.__func__}
    if isinstance(value, functools.partial):
        bound = {f"argument_{index}": held for index, held in enumerate(value.args)}
        return {"function": value.func, **bound, **value.keywords}
    if isinstance(value, FunctionType):
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        found = {"wrapped": getattr(value, "__wrapped__", None)}
        for name, cell in cells:
            with contextlib.suppress(ValueError):  # a variable that is not assigned yet
                found[name] = cell.cell_contents
        return found
    return attributes_of(value)
