"""Leaves one function of a model to eager: the one that has a certain line."""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import Any

import torch
from torch import nn

from compilegate.observe.capture.source_place import place


def disable_at(module: object, source: str) -> None:
    """Decorate the function that has a line with ``torch.compiler.disable``, where it is found.

    Args:
        module: The model. Methods of its submodules are searched, and the functions that these
            name.
        source: File and line, as in an observation.
    """
    for owner, name, function in _functions(module):
        if _has(function, source):
            disabled = torch.compiler.disable(function)
            if isinstance(owner, dict):
                owner[name] = disabled
            else:
                setattr(owner, name, disabled)
            return


def _functions(module: object) -> Iterator[tuple[Any, str, FunctionType]]:
    """Yield methods, then the global functions that they may call, each with what holds it."""
    modules = module.modules() if isinstance(module, nn.Module) else ()
    classes = dict.fromkeys(made for one in modules for made in type(one).__mro__)
    held = [
        (made, name, value)
        for made in classes
        if not made.__module__.startswith("torch.")
        for name, value in vars(made).items()
        if isinstance(value, FunctionType)
    ]
    yield from held
    found = [function for _, _, function in held]
    found += [module] if isinstance(module, FunctionType) else []
    for function in found:
        for name in function.__code__.co_names:
            value = function.__globals__.get(name)
            if isinstance(value, FunctionType):
                yield function.__globals__, name, value


def _has(function: FunctionType, source: str) -> bool:
    code = function.__code__
    lines = [line for _, _, line in code.co_lines() if line is not None]
    return any(place(code.co_filename, line, code.co_name).source == source for line in lines)
