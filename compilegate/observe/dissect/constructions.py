"""How the submodules of a model are made: what their constructors are given, as expressions.

A script can then make one of them without the rest of the model.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import pkgutil
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from compilegate.observe.dissect.graph import expression
from compilegate.records.part import Arguments, Construction
from compilegate.zoo.example import Call

#: The types whose ``repr`` is an expression.
_PLAIN = (bool, int, float, str, type(None), torch.dtype)

_noted: weakref.WeakKeyDictionary[nn.Module, tuple[Any, Any]] = weakref.WeakKeyDictionary()


class _NotPlainError(Exception):
    """A value cannot be written down."""


def note() -> None:
    """Note what the constructors of modules are given, from now on.

    It stays so: CPython refuses a constructor's arguments once a class has lost its ``__new__``.
    """

    def new(cls: type[nn.Module], *args: Any, **kwargs: Any) -> nn.Module:
        made = object.__new__(cls)
        _noted[made] = args, kwargs
        return made

    nn.Module.__new__ = new  # type: ignore[assignment, method-assign]


def of(module: nn.Module, calls: Sequence[Call]) -> Construction | None:
    """Return how a module is made and called; None where that cannot be written down.

    Args:
        module: The module, which was made while constructors were noted.
        calls: Its calls, of which only the arguments count.
    """
    made, given = type(module), _noted.get(module)
    if given is None or "<locals>" in made.__qualname__ or made.__module__.startswith("torch."):
        return None
    try:
        return Construction(
            file=inspect.getsourcefile(made) or "",
            module=made.__module__,
            name=made.__qualname__,
            given=_arguments(*given, made),
            calls=tuple(_arguments(call.args, call.kwargs, made) for call in calls),
        )
    except (_NotPlainError, TypeError, OSError):
        return None


def _arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any], user: type) -> Arguments:
    """Return expressions for arguments, in the module of a class.

    Raises:
        _NotPlainError: One of them has none.
    """
    named = {name: _written(value, user) for name, value in kwargs.items()}
    return Arguments(tuple(_written(value, user) for value in args), named)


def _written(value: Any, user: type) -> str:
    """Return an expression for a value, in the module of a class.

    Raises:
        _NotPlainError: It has none.
    """
    if type(value) is torch.Tensor:
        return expression(value)
    if type(value) in _PLAIN and (type(value) is not float or math.isfinite(value)):
        return repr(value)
    if type(value) in (tuple, list):
        inner = ", ".join(_written(each, user) for each in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
    if type(value) is dict:
        pairs = ((_written(key, user), _written(each, user)) for key, each in value.items())
        return "{" + ", ".join(f"{key}: {each}" for key, each in pairs) + "}"
    return _named(value, user)


def _named(value: Any, user: type) -> str:
    """Return the name of a class or function, of torch or of the module that uses it."""
    module, name = getattr(value, "__module__", ""), getattr(value, "__qualname__", "")
    if module == user.__module__ and name.isidentifier():
        return name
    with contextlib.suppress(AttributeError, ImportError, ValueError):
        if pkgutil.resolve_name(f"{module}:{name}") is value and module.startswith("torch."):
            return f"{module}.{name}"
    raise _NotPlainError
