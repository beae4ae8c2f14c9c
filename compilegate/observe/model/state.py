"""The places where a model keeps state: attributes, closed-over variables, and its arguments."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import CellType, FunctionType, MethodType
from typing import Any

import torch
from torch import nn

from compilegate.observe import nested
from compilegate.observe.objects import CLOSED, attributes_of

#: Attributes that every module has. They belong to nn.Module, not to the computation.
OF_EVERY_MODULE = (frozenset(vars(nn.Module())) | {"_compiled_call_impl"}) - {"training"}
#: Attributes that are empty in nearly all modules, such as hooks.
_EMPTY = frozenset(name for name, value in vars(nn.Module()).items() if not value)
#: Where modules keep hooks.
HOOKS = tuple(name for name in vars(nn.Module()) if name.endswith("_hooks"))
_PLAIN = (bool, int, float, str, type(None), torch.Tensor)
#: The suffix of the name under which the order of a dict's keys is state.
ORDER = " (order of keys)"
#: Elements of sets that can be equal on all sides. Tensors and modules compare by identity.
_HASHED = (bool, int, float, str, bytes, type(None))
#: Longer containers are tables, not state.
_LONGEST_CONTAINER = 64
#: The longest path from a model to a function: module, list, object, class, method, decorated
#: function.
_DEPTH = 6
#: The longest path from an argument to an object with state: a cache, its list of layers, a layer.
_OBJECTS = 3
#: Types with attributes that are not state of this kind.
_NO_OBJECTS = (*CLOSED, logging.Logger)
#: Types that wrap functions, and the attributes in which they keep them.
_WRAPPERS = (
    *(staticmethod, classmethod, property, MethodType, functools.partial),
    *(functools.partialmethod, functools.cached_property, type(functools.cache(id))),
)
_WRAPPED = (
    *("__func__", "__self__", "__wrapped__", "func", "args", "keywords"),
    *("fget", "fset", "fdel"),
)


def attributes(model: object) -> Iterator[tuple[str, Any]]:
    """Yield plain attributes of all modules and of the classes that the builder made, by path.

    Of hooks, it is their number.
    """
    for class_name, made in classes_of(model).items():
        for name, value in held_by(made).items():
            yield from plain(value, f"class {class_name}.{name}")
    seen: set[int] = set()  # many modules of a model hold one configuration
    for prefix, module in model.named_modules() if isinstance(model, nn.Module) else ():
        for name, value in vars(module).items():
            if name not in OF_EVERY_MODULE:
                path = f"{prefix}.{name}" if prefix else name
                for at, leaf in (*plain(value, path), *contents(value, path, seen)):
                    if not isinstance(leaf, nn.Parameter):
                        yield at, leaf
        if hooks := sum(len(vars(module).get(name) or ()) for name in HOOKS):
            yield f"hooks of {prefix or 'the model'}", hooks


def classes_of(model: object) -> dict[str, type]:
    """Return the classes of a model's modules that its builder made, by name.

    All sides share every other class.
    """
    modules = model.modules() if isinstance(model, nn.Module) else ()
    found: dict[str, type] = {}
    for made in dict.fromkeys(made for module in modules for made in type(module).__mro__):
        if is_builders_own(made):
            found[_not_among(found, made.__name__)] = made
    return found


def held_by(made: type) -> dict[str, Any]:
    """Return the attributes of a class, except those that every class has."""
    return {name: value for name, value in vars(made).items() if not name.startswith("__")}


def objects(arguments: object, path: str, seen: set[int] | None = None) -> dict[str, object]:
    """Return the objects in some arguments, such as a cache, and the objects in these, by path.

    Args:
        arguments: Nested arguments.
        path: The path of the arguments.
        seen: The identities of objects that are left out. Those that are found are added.
    """
    found: dict[str, object] = {}
    seen = set() if seen is None else seen
    level = {path: arguments}
    for _ in range(_OBJECTS):
        new = {
            name: leaf
            for held_at, held in level.items()
            for name, leaf in nested.leaves(held, held_at)
            if not isinstance(leaf, _NO_OBJECTS)
        }
        level = {}
        for name, leaf in new.items():
            if id(leaf) not in seen:
                seen.add(id(leaf))
                found[name] = leaf
                level |= {f"{name}.{one}": held for one, held in attributes_of(leaf).items()}
    return found


def contents(
    arguments: object, path: str, seen: set[int] | None = None
) -> Iterator[tuple[str, Any]]:
    """Yield the plain attributes of the objects in some arguments, by path.

    See :func:`objects` for the arguments.
    """
    for name, found in objects(arguments, path, seen).items():
        for attribute, held in attributes_of(found).items():
            yield from plain(held, f"{name}.{attribute}")


def variables(cells: Mapping[str, CellType]) -> Iterator[tuple[str, Any]]:
    """Yield the plain values in some cells, by path."""
    for name, cell in cells.items():
        with contextlib.suppress(ValueError):  # a variable that is not assigned yet
            yield from plain(cell.cell_contents, name)


def cells_of(model: object) -> dict[str, CellType]:
    """Return the variables that a model's functions close over: ``count``, ``touch.count``.

    The functions are the model itself, if it is one, and the functions and methods that the builder
    made and that modules or cells lead to. All sides share the functions of a library, so one side
    finds the state that another left there.
    """
    found: dict[str, CellType] = {}
    seen: dict[int, object] = {}
    level: list[object] = [*model.modules()] if isinstance(model, nn.Module) else [model]
    for _ in range(_DEPTH):
        new = {id(value): value for value in level if id(value) not in seen}
        seen |= new
        level = []
        for value in new.values():
            if not isinstance(value, FunctionType):
                level += unwrapped(value)
            elif value is model or is_builders_own(value):
                level.append(getattr(value, "__wrapped__", None))
                for variable, cell in zip(
                    value.__code__.co_freevars, value.__closure__ or (), strict=True
                ):
                    with contextlib.suppress(ValueError):
                        level.append(cell.cell_contents)
                    if id(cell) not in seen and not _is_pytorchs(value):
                        seen[id(cell)] = cell
                        name = variable if value is model else f"{value.__name__}.{variable}"
                        found[_not_among(found, name)] = cell
    return found


def unwrapped(value: object) -> Iterable[object]:
    """The contents of a value that may lead to functions."""
    if isinstance(value, (list, tuple)):
        return value if len(value) <= _LONGEST_CONTAINER else ()
    if isinstance(value, dict):
        return value.values() if len(value) <= _LONGEST_CONTAINER else ()
    if isinstance(value, _WRAPPERS):
        return [getattr(value, name, None) for name in _WRAPPED]
    if isinstance(value, type):
        classes = filter(is_builders_own, value.__mro__)
        return [member for each in classes for member in vars(each).values()]
    if isinstance(value, nn.Module) or is_builders_own(type(value)):
        own = getattr(value, "__dict__", {}).items()
        return [type(value), *(held for name, held in own if name not in _EMPTY or held)]
    return ()


def plain(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the numbers, texts and tensors in a value, and the orders of its keys, by path."""
    value = list(value) if isinstance(value, deque) else value
    if isinstance(value, (list, tuple, dict, set, frozenset)) and len(value) > _LONGEST_CONTAINER:
        return
    if isinstance(value, (set, frozenset)):
        if all(isinstance(one, _HASHED) for one in value):
            yield path, frozenset(value)
        return
    yield from orders(value, path)
    for name, leaf in nested.leaves(value, path):
        if isinstance(leaf, _PLAIN):
            yield name, leaf


def orders(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Yield the keys of the dicts in a nested value, in their order, by path."""
    if isinstance(value, dict) and 1 < len(value) <= _LONGEST_CONTAINER:
        yield f"{path}{ORDER}", ", ".join(map(str, value))
    if isinstance(value, (dict, list, tuple)) and len(value) <= _LONGEST_CONTAINER:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            inner = f".{key}" if isinstance(value, dict) else f"[{key}]"
            yield from orders(item, f"{path}{inner}")


def is_builders_own(function_or_class: Any) -> bool:
    """Whether each run of the builder makes another function or class."""
    return "<locals>" in function_or_class.__qualname__


def _is_pytorchs(function: FunctionType) -> bool:
    """Whether PyTorch made the function as a wrapper: the variables in it are no model state."""
    return str(function.__globals__.get("__name__")).partition(".")[0] == "torch"


def _not_among(names: Mapping[str, object], name: str) -> str:
    """Return the name, with a number if it is taken: all lambdas have the same name."""
    taken = sum(other.partition(" #")[0] == name for other in names)
    return f"{name} #{taken + 1}" if taken else name
