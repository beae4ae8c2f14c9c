"""The variables that all sides of a comparison share, as each side has left them.

Each side builds a model of its own. But its classes, functions and global variables exist once in
the process. A model that counts its calls in a class or in a global variable would find what
another side has counted. So each side finds these variables as it left them.
"""

from __future__ import annotations

import contextlib
import dis
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Protocol

import torch
from torch import nn

from compilegate.observe.model.environment_variables import Environment, named_in
from compilegate.observe.model.kept import Kept
from compilegate.observe.model.state import (
    contents,
    held_by,
    is_builders_own,
    is_state,
    objects,
    plain,
    unwrapped,
)
from compilegate.observe.objects import attributes_of, set_attributes, set_class_attributes

#: Packages that belong to no model of a user, in addition to the standard library. Their variables
#: are caches and registries.
_LIBRARIES = frozenset(
    {
        *("accelerate", "compilegate", "diffusers", "huggingface_hub", "numpy", "safetensors"),
        *("timm", "tokenizers", "torch", "torchao", "torchaudio", "torchvision", "transformers"),
        *("triton", *sys.stdlib_module_names),
    }
)
#: The package of the shipped models, which are written as a user's are.
_MODELS = "compilegate.fixtures"
#: The folders into which packages are installed.
_INSTALLED = frozenset({"site-packages", "dist-packages"})
#: Tensors with more elements are data, not state.
_LARGEST = 1 << 20


class _Place(Protocol):
    """Where variables are: a module of Python, a class, a function or the environment."""

    def values(self) -> dict[str, Any]:
        """Return the variables by name."""

    def path(self, name: str) -> str:
        """Return how a variable is called in a report."""

    def put_back(self, values: dict[str, Any]) -> None:
        """Assign the variables again, and delete the others."""


@dataclass(frozen=True, eq=False)
class _Globals:
    """The variables of a module of Python that a model's functions name, as globals or after it."""

    variables: dict[str, Any]
    names: frozenset[str]

    def values(self) -> dict[str, Any]:
        held = {n: self.variables[n] for n in sorted(self.names) if n in self.variables}
        return {name: value for name, value in held.items() if is_state(value)}

    def path(self, name: str) -> str:
        return f"global {self.variables.get('__name__')}.{name}"

    def put_back(self, values: dict[str, Any]) -> None:
        for name in self.values().keys() - values.keys():
            del self.variables[name]
        for name, value in values.items():
            if self.variables.get(name, self) is not value:  # guards see each assignment
                self.variables[name] = value


@dataclass(frozen=True, eq=False)
class _Class:
    """The attributes of a class."""

    made: type

    def values(self) -> dict[str, Any]:
        return {name: value for name, value in held_by(self.made).items() if is_state(value)}

    def path(self, name: str) -> str:
        return f"class {self.made.__name__}.{name}"

    def put_back(self, values: dict[str, Any]) -> None:
        for name in self.values().keys() - values.keys():
            type.__delattr__(self.made, name)
        set_class_attributes(self.made, values)


@dataclass(frozen=True, eq=False)
class _Function:
    """The attributes of a function, the defaults of its arguments, and what it closes over."""

    made: FunctionType

    def values(self) -> dict[str, Any]:
        code, defaults = self.made.__code__, self.made.__defaults__ or ()
        named = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
        found = {f"({name})": value for name, value in zip(named, defaults, strict=True)}
        found |= {f"({name})": value for name, value in (self.made.__kwdefaults__ or {}).items()}
        found |= {f"[{name}]": value for name, value in _closed_over(self.made).items()}
        found |= {f".{name}": value for name, value in vars(self.made).items()}
        return {name: value for name, value in found.items() if is_state(value)}

    def path(self, name: str) -> str:
        return f"function {self.made.__name__}{name}"

    def put_back(self, values: dict[str, Any]) -> None:
        own = {name[1:]: value for name, value in values.items() if name.startswith(".")}
        for name in [name for name, value in vars(self.made).items() if is_state(value)]:
            if name not in own:
                delattr(self.made, name)
        vars(self.made).update(own)
        cells = zip(self.made.__code__.co_freevars, self.made.__closure__ or (), strict=True)
        for name, cell in cells:
            if f"[{name}]" in values:
                cell.cell_contents = values[f"[{name}]"]


class SharedState:
    """The shared variables of a model, as one side has left them.

    Args:
        model: The module, or a function.

    Attributes:
        left: The variables as this side left them; None before its first call.
    """

    def __init__(self, model: object) -> None:
        self._places = _places_of(model)
        self.left: Moment | None = None

    @contextlib.contextmanager
    def as_left(self) -> Iterator[Moment]:
        """Give this side its variables in a ``with`` block; then restore those of the others.

        Yields:
            The variables at the beginning.
        """
        others = self.now()
        if self.left is not None:
            self.left.put_back()
        try:
            yield self.left or others
        finally:
            self.left = self.now()
            others.put_back()

    def now(self) -> Moment:
        """Return the variables as they are."""
        return Moment(self._places)

    def read(self) -> Iterator[tuple[str, Any]]:
        """Yield the plain variables, and those in their objects, by path."""
        seen: set[int] = set()
        for place in self._places:
            for name, value in place.values().items():
                path = place.path(name)
                for at, leaf in (*plain(value, path), *contents(value, path, seen)):
                    if not (isinstance(leaf, torch.Tensor) and leaf.numel() > _LARGEST):
                        yield at, leaf


class Moment:
    """The contents of shared variables at one moment.

    Args:
        places: Where they are.
    """

    def __init__(self, places: Iterable[_Place]) -> None:
        self._values = [(place, place.values()) for place in places]
        held = [[*values.values()] for _, values in self._values]
        self._objects = [(one, attributes_of(one)) for one in objects(held, "").values()]
        self._kept = Kept(largest=_LARGEST)
        self._kept.add(held)
        self._kept.add(attributes.values() for _, attributes in self._objects)

    def put_back(self) -> None:
        """Restore everything."""
        for place, values in self._values:
            place.put_back(values)
        for found, attributes in self._objects:
            set_attributes(found, attributes)
        self._kept.put_back()


def _places_of(model: object) -> list[_Place]:
    """Return where the functions of a model keep variables that all sides share."""
    level: list[object] = [*model.modules()] if isinstance(model, nn.Module) else [model]
    seen: dict[int, object] = {}
    places: list[_Place] = []
    named: dict[int, tuple[dict[str, Any], set[str]]] = {}
    environment: set[str] = set()
    while level:
        value = level.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if isinstance(value, type):
            level += [base for base in value.__bases__ if _is_users(base)]
            if _is_users(value):
                level += vars(value).values()
                places += [] if is_builders_own(value) else [_Class(value)]
        elif isinstance(value, FunctionType):
            level += [getattr(value, "__wrapped__", None), *_closed_over(value).values()]
            if _is_users(value):
                places += [] if is_builders_own(value) else [_Function(value)]
                known = named.setdefault(id(value.__globals__), (value.__globals__, set()))
                names = _names_in(value.__code__, "_GLOBAL")
                known[1].update(names)
                held = [value.__globals__.get(name) for name in names]
                environment |= named_in(value.__code__, held)
                held += map(sys.modules.get, _names_in(value.__code__, "IMPORT_NAME"))
                level += held
                after_it = _names_in(value.__code__, "_ATTR", "IMPORT_FROM")
                for module in _modules_among(held, after_it):
                    named.setdefault(id(vars(module)), (vars(module), set()))[1].update(after_it)
                    level += [vars(module).get(name) for name in after_it]
        else:
            level += [*unwrapped(value), type(value)]
    if environment:
        places.append(Environment(frozenset(environment)))
    return [*places, *(_Globals(held, frozenset(names)) for held, names in named.values())]


def _is_users(made: type | FunctionType) -> bool:
    """Whether a class or a function is of a user's module of Python, not of a library.

    The wrapper that a decorator makes has the name of what it wraps, and the variables of its own
    module.
    """
    name = made.__module__ if isinstance(made, type) else made.__globals__.get("__name__")
    return _is_of_user(str(name))


def _is_of_user(name: str) -> bool:
    """Whether a module of Python with this name is of no known library."""
    return name.startswith(_MODELS) or name.partition(".")[0] not in _LIBRARIES


def _closed_over(function: FunctionType) -> dict[str, Any]:
    found = {}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        with contextlib.suppress(ValueError):  # a variable that is not assigned yet
            found[name] = cell.cell_contents
    return found


def _names_in(code: CodeType, *kinds: str) -> set[str]:
    """Return the names of the global variables, attributes or modules that a function uses.

    Args:
        code: The function's. The functions in it count, too.
        kinds: How the names of the instructions end: ``_GLOBAL``, ``_ATTR``, ``IMPORT_NAME``.
    """
    found = {step.argval for step in dis.get_instructions(code) if step.opname.endswith(kinds)}
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    return found.union(*(_names_in(part, *kinds) for part in inner))


def _modules_among(values: Iterable[object], names: Iterable[str]) -> list[ModuleType]:
    """Return the user's modules of Python among some values, and those in them of some names."""
    found: dict[int, ModuleType] = {}
    level = [*values]
    while level:
        value = level.pop()
        if isinstance(value, ModuleType) and id(value) not in found and _is_users_module(value):
            found[id(value)] = value
            level += [vars(value).get(name) for name in names]
    return [*found.values()]


def _is_users_module(module: ModuleType) -> bool:
    """Whether a module of Python is a user's. An installed package keeps caches and registries."""
    parts = Path(getattr(module, "__file__", None) or "").parts
    return not _INSTALLED.intersection(parts) and _is_of_user(module.__name__)
