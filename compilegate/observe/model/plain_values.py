"""Numbers and texts that modules hold: one side gets those that another side had before a call."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from compilegate.observe import nested
from compilegate.observe.model.holder import holder_of
from compilegate.observe.model.iterators import Position, position_of
from compilegate.observe.model.state import LONGEST_CONTAINER, OF_EVERY_MODULE, objects
from compilegate.observe.objects import attributes_of

#: Values that no call can change in place.
_FIXED = (
    *(bool, int, float, complex, str, bytes, type(None), enum.Enum),
    *(torch.dtype, torch.device),
)


def set_plain(model: object, known: Mapping[str, Any]) -> None:
    """Set numbers and texts of modules, of their containers and of the objects that they hold.

    A model may take its branches in turn, and count the calls. An iterator is replaced by one that
    stands elsewhere. What only the identity of objects decides stays as it is.

    Args:
        model: The module, or a function.
        known: The state of another side, as :meth:`.call_state.CallState.read` returns it.
    """
    for path, value, assign in _places(model):
        wanted = known.get(f"attribute {path}", value)
        if isinstance(wanted, Position):
            if position_of(value) not in (None, wanted):
                assign(wanted.again())
        elif wanted is not value and isinstance(value, _FIXED) and isinstance(wanted, _FIXED):
            assign(wanted)


def _places(model: object) -> Iterator[tuple[str, Any, Callable[[Any], None]]]:
    """Yield each place of a value: its path, the value, and what sets another one."""
    seen: set[int] = set()
    for prefix, module in holder_of(model).named_modules():
        held = vars(module)
        for name in [name for name in held if name not in OF_EVERY_MODULE]:
            path, value = (f"{prefix}.{name}" if prefix else name), held[name]
            yield path, value, _setting(held, name)
            yield from _items(path, value)
            for at, found in objects(value, path, seen).items():
                for attribute, inner in attributes_of(found).items():
                    yield f"{at}.{attribute}", inner, _setting_attribute(found, attribute)
                    yield from _items(f"{at}.{attribute}", inner)


def _items(path: str, value: Any) -> Iterator[tuple[str, Any, Callable[[Any], None]]]:
    """Yield the places in a list or a dict, and in those in it."""
    if not isinstance(value, (list, deque, dict)) or len(value) > LONGEST_CONTAINER:
        return
    if isinstance(value, (list, deque)):
        keys: list[Any] = [*range(len(value))]
    else:
        keys = [*value]
    for key, (at, item) in zip(keys, nested.children(value), strict=True):
        yield path + at, item, _setting(value, key)
        yield from _items(path + at, item)


def _setting(held: Any, key: Any) -> Callable[[Any], None]:
    def assign(value: Any) -> None:
        held[key] = value

    return assign


def _setting_attribute(found: object, name: str) -> Callable[[Any], None]:
    return lambda value: object.__setattr__(found, name, value)
