"""Code that the compiler runs and that is not PyTorch's: passes, decompositions, lowerings."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config as inductor

from compilegate.observe.capture.source_place import place
from compilegate.records.part import OwnCode

_TORCH = Path(torch.__file__).parent
#: Options of Inductor that hold a pass of a user. A version of PyTorch may lack some.
_HOOKS = (
    *("pre_grad_custom_pass", "joint_custom_pre_pass", "joint_custom_post_pass"),
    *("post_grad_custom_pre_pass", "post_grad_custom_post_pass"),
    *("_pre_fusion_custom_pass", "_post_fusion_custom_pass"),
)
#: Tables of functions by operator. Code that registers one has imported the module.
_TABLES = {
    "decomposition": ("torch._inductor.decomposition", "decompositions"),
    "lowering": ("torch._inductor.lowering", "lowerings"),
}


def registered() -> list[OwnCode]:
    """Return the code that is registered now, each function once."""
    found: dict[tuple[str, str, str], OwnCode] = {}
    for kind, key, value in _entries():
        made = _described(kind, key, value)
        before = found.get((kind, made.name, made.source))
        keys = (*before.keys, key) if before else (key,)
        found[kind, made.name, made.source] = replace(made, keys=keys)
    return [*found.values()]


def take_out(keys: Iterable[str]) -> None:
    """Take code out of the compiler.

    Args:
        keys: Hooks, and operators, as :class:`OwnCode` has them.
    """
    unwanted = {*keys}
    for hook in unwanted.intersection(_HOOKS):
        setattr(inductor, hook, None)
    for _, table in _tables():
        for operator in [one for one in table if str(one) in unwanted]:
            del table[operator]


def _entries() -> Iterator[tuple[str, str, Any]]:
    """Yield what is not PyTorch's: its kind, the hook or the operator, and the code."""
    for hook in _HOOKS:
        held = getattr(inductor, hook, None)
        for one in held if isinstance(held, (list, tuple)) else [held]:
            if callable(one) and not _is_of_torch(one):
                yield "pass", hook, one
    for kind, table in _tables():
        for operator, function in table.items():
            if not _is_of_torch(function):
                yield kind, str(operator), function


def _tables() -> Iterator[tuple[str, dict[Any, Any]]]:
    for kind, (module, name) in _TABLES.items():
        if module in sys.modules:
            yield kind, getattr(sys.modules[module], name)


def _is_of_torch(value: Any) -> bool:
    file = _place_of(value)[0]
    return not file or Path(file).is_relative_to(_TORCH)


def _unwrapped(value: Any) -> Any:
    """Return the function that wrappers are around, of PyTorch or of anybody else."""
    while isinstance(value, functools.partial):
        value = value.func
    return inspect.unwrap(value)


def _place_of(value: Any) -> tuple[str, int, str]:
    """Return file, line and function of what is called; no file for code that is not Python."""
    function = _unwrapped(value)
    if not hasattr(function, "__code__"):
        function = _unwrapped(type(function).__call__)  # of an object that is called
    code = getattr(function, "__code__", None)
    return (code.co_filename, code.co_firstlineno, code.co_name) if code else ("", 0, "")


def _described(kind: str, key: str, value: Any) -> OwnCode:
    at, found = place(*_place_of(value)), _unwrapped(value)
    named = found if hasattr(found, "__qualname__") else type(found)
    return OwnCode(
        kind=kind,
        keys=(key,),
        name=f"{named.__module__}.{named.__qualname__}",
        source=f"{at.file}:{at.line}",
        owner="" if at.owner == "model" else at.owner,
    )
