"""The places where a model keeps state: attributes, closed-over variables, and its arguments."""

from __future__ import annotations

import contextlib
import enum
import functools
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import CellType, FunctionType, MethodType
from typing import Any

import torch
from torch import nn

from compilegate.observe import nested
from compilegate.observe.model import context_variables, generators, iterators, streams
from compilegate.observe.model.holder import holder_of
from compilegate.observe.objects import CLOSED, attributes_of, is_array, name_of

#: Attributes that every module has. They belong to nn.Module, not to the computation.
OF_EVERY_MODULE = (frozenset(vars(nn.Module())) | {"_compiled_call_impl"}) - {"training"}
#: Attributes that are empty in nearly all modules, such as hooks.
_EMPTY = frozenset(name for name, value in vars(nn.Module()).items() if not value)
#: Where modules keep hooks.
HOOKS = tuple(name for name in vars(nn.Module()) if name.endswith("_hooks"))
_PLAIN = (
    *(bool, int, float, complex, str, bytes, type(None), range, slice, enum.Enum),
    *(torch.dtype, torch.device, torch.Tensor),
)
_CONTAINERS = (list, tuple, dict, set, frozenset, deque)
#: The suffix of the name under which the nesting of a value is state: its classes and its keys.
STRUCTURE = " (structure)"
#: The suffix of the name under which the class of a module is state.
_CLASS = " (class)"
#: Elements of sets that can be equal on all sides. Tensors and modules compare by identity.
_HASHED = (bool, int, float, str, bytes, type(None))
#: Longer containers are tables, not state.
LONGEST_CONTAINER = 256
#: The longest path from a model to a function: module, list, object, class, method, decorated
#: function.
_DEPTH = 6
#: The longest path from an argument to an object with state: a cache, its list of layers, a layer,
#: and what it holds.
_OBJECTS = 5
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

    Of hooks, it is their number; of buffers that ``state_dict`` leaves out, their names.
    """
    for class_name, made in classes_of(model).items():
        for name, value in held_by(made).items():
            yield from plain(value, f"class {class_name}.{name}")
    holder = holder_of(model)
    registered = {id(one) for one in holder.parameters()}
    seen: set[int] = set()  # many modules of a model hold one configuration
    for prefix, module in holder.named_modules():
        for name, value in vars(module).items():
            if name not in OF_EVERY_MODULE:
                path = f"{prefix}.{name}" if prefix else name
                for at, leaf in (*plain(value, path), *contents(value, path, seen)):
                    if id(leaf) not in registered:
                        yield at, leaf
        yield f"{prefix or 'the model'}{_CLASS}", name_of(type(module))
        if hooks := sum(len(vars(module).get(name) or ()) for name in HOOKS):
            yield f"hooks of {prefix or 'the model'}", hooks
        if kept_out := sorted(getattr(module, "_non_persistent_buffers_set", ())):
            yield f"buffers of {prefix or 'the model'} outside state_dict", ", ".join(kept_out)


def classes_of(model: object) -> dict[str, type]:
    """Return the classes of a model's modules that its builder made, by name.

    All sides share every other class.
    """
    modules = holder_of(model).modules()
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
            if not isinstance(leaf, _NO_OBJECTS) and not _is_torchs(type(leaf))
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
        return value if len(value) <= LONGEST_CONTAINER else ()
    if isinstance(value, dict):
        return value.values() if len(value) <= LONGEST_CONTAINER else ()
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
    """Yield the numbers, texts, arrays and tensors in a value, and its structure, by path.

    Of a random generator, it is a digest of its state; of an iterator, where it stands; of a
    stream in memory, both; of a context variable, its value.
    """
    if isinstance(value, _CONTAINERS) and len(value) > LONGEST_CONTAINER:
        return
    if is_state(value) and not is_plain(value):
        yield f"{path}{STRUCTURE}", nested.structure(value)
    for name, leaf in nested.leaves(value, path):
        if isinstance(leaf, (set, frozenset)):
            if len(leaf) <= LONGEST_CONTAINER and all(map(_is_hashed_by_value, leaf)):
                yield name, frozenset(leaf)
        elif isinstance(leaf, bytearray):
            yield name, bytes(leaf)
        elif is_plain(leaf):
            yield name, leaf
        elif (position := iterators.digest_of(leaf)) is not None:
            yield name, position
        elif (digest := generators.digest_of(leaf) or streams.digest_of(leaf)) is not None:
            yield name, digest
        elif context_variables.is_variable(leaf):
            yield from plain(leaf.get(), f"{name}.get()")


def is_plain(value: object) -> bool:
    """Whether a value can be compared by itself: a number, a text, an array or a tensor."""
    return isinstance(value, _PLAIN) or is_array(value)


def is_state(value: object) -> bool:
    """Whether a variable can be state: no module, class or function is."""
    is_held = is_plain(value) or isinstance(value, (*_CONTAINERS, bytearray))
    is_held = is_held or streams.is_stream(value) or context_variables.is_variable(value)
    return is_held or bool(attributes_of(value)) or iterators.digest_of(value) is not None


def _is_hashed_by_value(value: object) -> bool:
    """Whether equal elements of sets are equal on all sides, too."""
    if isinstance(value, tuple):
        return all(map(_is_hashed_by_value, value))
    return isinstance(value, _HASHED)


def is_builders_own(function_or_class: Any) -> bool:
    """Whether each run of the builder makes another function or class."""
    return "<locals>" in function_or_class.__qualname__


def _is_torchs(made: type) -> bool:
    """Whether a class is of PyTorch or Triton: custom operators and kernels keep caches."""
    return made.__module__.partition(".")[0] in ("torch", "triton")


def _is_pytorchs(function: FunctionType) -> bool:
    """Whether PyTorch made the function as a wrapper: the variables in it are no model state."""
    return str(function.__globals__.get("__name__")).partition(".")[0] == "torch"


def _not_among(names: Mapping[str, object], name: str) -> str:
    """Return the name, with a number if it is taken: all lambdas have the same name."""
    taken = sum(other.partition(" #")[0] == name for other in names)
    return f"{name} #{taken + 1}" if taken else name
