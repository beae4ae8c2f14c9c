"""Where a model keeps what its calls may change: attributes, variables and what it is given."""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import nn

from compilegate.observe import nested

#: Attributes that every module has: the state of modules, not of what they compute.
OF_EVERY_MODULE = frozenset(vars(nn.Module())) | {"_compiled_call_impl"}
#: Those that are empty in nearly all modules: hooks, and what else modules may hold.
_EMPTY = frozenset(name for name, value in vars(nn.Module()).items() if not value)
_PLAIN = (bool, int, float, str, type(None), torch.Tensor)
#: How the name of a dict's keys ends, in their order.
ORDER = " (order of keys)"
#: What may be in a set, and be the same on all sides: tensors and modules are by identity.
_HASHED = (bool, int, float, str, bytes, type(None))
#: Longer containers are tables, not state.
_LONGEST_CONTAINER = 64
#: From a model to the last functions that are looked at: module, list, object, class, method, and
#: what that one decorates.
_DEPTH = 6
#: From an argument to the last objects that are looked into: a cache, and its layers.
_OBJECTS = 3
#: What has attributes of its own, but no state that is looked at here.
_NO_OBJECTS = (*_PLAIN, nn.Module, type, FunctionType, MethodType, ModuleType)
#: What functions are wrapped in, and where it keeps them.
_WRAPPERS = (
    *(staticmethod, classmethod, property, MethodType, functools.partial),
    *(functools.partialmethod, functools.cached_property, type(functools.cache(id))),
)
_WRAPPED = (
    *("__func__", "__self__", "__wrapped__", "func", "args", "keywords"),
    *("fget", "fset", "fdel"),
)


def attributes(model: object) -> Iterator[tuple[str, Any]]:
    """Plain attributes of all modules, and of the classes that their builder made, by path."""
    for class_name, made in classes_of(model).items():
        for name, value in held_by(made).items():
            yield from _plain(value, f"class {class_name}.{name}")
    for prefix, module in model.named_modules() if isinstance(model, nn.Module) else ():
        for name, value in vars(module).items():
            if name not in OF_EVERY_MODULE:
                for path, leaf in _plain(value, f"{prefix}.{name}" if prefix else name):
                    if not isinstance(leaf, nn.Parameter):
                        yield path, leaf


def classes_of(model: object) -> dict[str, type]:
    """The classes of a model's modules, as far as its builder made them, by name.

    Others are one and the same for all sides.
    """
    modules = model.modules() if isinstance(model, nn.Module) else ()
    found: dict[str, type] = {}
    for made in dict.fromkeys(made for module in modules for made in type(module).__mro__):
        if _is_made_anew(made):
            found[_not_among(found, made.__name__)] = made
    return found


def held_by(made: type) -> dict[str, Any]:
    """A class's attributes but those that Python gives every class."""
    return {name: value for name, value in vars(made).items() if not name.startswith("__")}


def objects(arguments: object, path: str) -> dict[str, object]:
    """The objects among some arguments, a cache for instance, and the objects in these, by path.

    Args:
        arguments: Nested arguments.
        path: What they are called.
    """
    found: dict[str, object] = {}
    seen: set[int] = set()
    level = {path: arguments}
    for _ in range(_OBJECTS):
        new = {
            name: leaf
            for held_at, held in level.items()
            for name, leaf in nested.leaves(held, held_at)
            if hasattr(leaf, "__dict__") and not isinstance(leaf, _NO_OBJECTS)
        }
        level = {}
        for name, leaf in new.items():
            if id(leaf) not in seen:
                seen.add(id(leaf))
                found[name] = leaf
                level |= {f"{name}.{attribute}": held for attribute, held in vars(leaf).items()}
    return found


def contents(arguments: object, path: str) -> Iterator[tuple[str, Any]]:
    """What is plain in the objects among some arguments, by path."""
    for name, found in objects(arguments, path).items():
        for attribute, held in vars(found).items():
            yield from _plain(held, f"{name}.{attribute}")


def variables(cells: Mapping[str, CellType]) -> Iterator[tuple[str, Any]]:
    """What is plain in some cells, by path."""
    for name, cell in cells.items():
        with contextlib.suppress(ValueError):  # a variable that is not assigned yet
            yield from _plain(cell.cell_contents, name)


def cells_of(model: object) -> dict[str, CellType]:
    """The variables that a model's functions close over, by name: ``count``, ``touch.count``.

    These are the function that the model is, and, of modules and of what is found in cells, the
    functions, and the methods of classes, that its builder made. Those of a library are one and
    the same for all sides: what one leaves there the other finds.
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
                level += _parts(value)
            elif value is model or _is_made_anew(value):
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


def _parts(value: object) -> Iterable[object]:
    """What a value holds, where that may lead to functions."""
    if isinstance(value, (list, tuple)):
        return value if len(value) <= _LONGEST_CONTAINER else ()
    if isinstance(value, dict):
        return value.values() if len(value) <= _LONGEST_CONTAINER else ()
    if isinstance(value, _WRAPPERS):
        return [getattr(value, name, None) for name in _WRAPPED]
    if isinstance(value, type):
        classes = filter(_is_made_anew, value.__mro__)
        return [member for each in classes for member in vars(each).values()]
    if isinstance(value, nn.Module) or _is_made_anew(type(value)):
        own = getattr(value, "__dict__", {}).items()
        return [type(value), *(held for name, held in own if name not in _EMPTY or held)]
    return ()


def _plain(value: Any, path: str) -> Iterator[tuple[str, Any]]:
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
    """The keys of the dicts in a nested value, in their order, by path."""
    if isinstance(value, dict) and 1 < len(value) <= _LONGEST_CONTAINER:
        yield f"{path}{ORDER}", ", ".join(map(str, value))
    if isinstance(value, (dict, list, tuple)) and len(value) <= _LONGEST_CONTAINER:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            inner = f".{key}" if isinstance(value, dict) else f"[{key}]"
            yield from orders(item, f"{path}{inner}")


def _is_made_anew(function_or_class: Any) -> bool:
    """Whether each building makes another one."""
    return "<locals>" in function_or_class.__qualname__


def _is_pytorchs(function: FunctionType) -> bool:
    """Whether PyTorch wrapped a function in it: what it closes over is no state of a model."""
    return str(function.__globals__.get("__name__")).partition(".")[0] == "torch"


def _not_among(names: Mapping[str, object], name: str) -> str:
    """The name, numbered where it is taken: lambdas are all of one name."""
    taken = sum(other.partition(" #")[0] == name for other in names)
    return f"{name} #{taken + 1}" if taken else name
