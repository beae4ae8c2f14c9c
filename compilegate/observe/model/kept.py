"""Keeps values, and restores them in place: their containers and the content of their tensors."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from compilegate.observe.model import context_variables, generators, iterators, streams
from compilegate.observe.model.equality import is_same
from compilegate.observe.model.result import clone_of
from compilegate.observe.objects import attributes_of, is_array, set_attributes


class Kept:
    """The contents of some values.

    Guards and CUDA graphs depend on the identity of objects. So :meth:`put_back` writes to tensors
    and refills containers.

    Args:
        largest: The content of a tensor with more elements is not kept; None keeps all.
    """

    def __init__(self, *, largest: int | None = None) -> None:
        self._largest = largest
        self._lists: list[tuple[list[Any] | deque[Any], list[Any]]] = []
        self._dicts: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
        self._sets: list[tuple[set[Any], set[Any]]] = []
        self._records: list[tuple[object, dict[str, Any]]] = []
        #: By id: the tensor, its version and its content.
        self._tensors: dict[int, tuple[torch.Tensor, int, torch.Tensor]] = {}
        self._arrays: list[tuple[Any, Any]] = []
        #: Objects with a state of their own: what puts it back, the object, and the state.
        self._own: list[tuple[Callable[[Any, Any], None], object, Any]] = []

    def add(self, values: Iterable[Any]) -> None:
        """Keep what some values contain."""
        for value in values:
            for tensor in self._inside(value):
                content = None if self._is_left_out(tensor) else clone_of(tensor)
                if content is not None:
                    self._tensors[id(tensor)] = (tensor, tensor._version, content)

    def _is_left_out(self, tensor: torch.Tensor) -> bool:
        too_large = self._largest is not None and tensor.numel() > self._largest
        return tensor.is_inference() or too_large

    def _inside(self, value: Any) -> Iterator[torch.Tensor]:
        """Yield the tensors in a value, and keep its containers."""
        if isinstance(value, torch.Tensor):
            yield value
        elif type(value) in (list, deque):
            self._lists.append((value, [*map(iterators.kept, value)]))
            for item in value:
                yield from self._inside(item)
        elif type(value) in (dict, OrderedDict):
            kept = {key: iterators.kept(item) for key, item in value.items()}
            self._dicts.append((value, kept))
            for item in value.values():
                yield from self._inside(item)
        elif type(value) is set:
            self._sets.append((value, set(value)))
        elif type(value) is tuple:
            for item in value:
                yield from self._inside(item)
        elif is_array(value) or type(value) is bytearray:
            self._arrays.append((value, value.copy()))
        elif (own := _own_state(value)) is not None:
            self._own.append(own)
            yield from self._inside(context_variables.value_of(value))
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            self._records.append((value, attributes_of(value)))
            for item in attributes_of(value).values():
                yield from self._inside(item)

    def put_back(self) -> None:
        """Restore the containers, the arrays, the objects with a state, and the tensors."""
        for held, stored in self._lists:
            now = [*held, *[None] * len(stored)]
            items = [iterators.put_back(*pair) for pair in zip(stored, now, strict=False)]
            if [*map(id, held)] != [*map(id, items)]:
                held.clear()
                held.extend(items)
        for table, kept in self._dicts:
            entries = {key: iterators.put_back(item, table.get(key)) for key, item in kept.items()}
            if _ids(table) != _ids(entries):
                table.clear()
                table.update(entries)
        for group, members in self._sets:
            if group != members:
                group.clear()
                group.update(members)
        for record, attributes in self._records:
            set_attributes(record, attributes)
        for array, numbers in self._arrays:
            _write(array, numbers)
        for put_back, own, state in self._own:
            put_back(own, state)
        with torch.no_grad():
            for tensor, version, content in self._tensors.values():
                written = tensor._version != version or _holds_others(tensor, content)
                if written and tensor.shape == content.shape:
                    tensor.copy_(content)


def _own_state(value: Any) -> tuple[Callable[[Any, Any], None], object, Any] | None:
    """Return what puts back the state of a generator, a stream or a context variable; or None."""
    if context_variables.is_variable(value):
        return context_variables.set_value, value, value.get()
    for kind in (generators, streams):
        if (state := kind.state_of(value)) is not None:
            return kind.set_state, value, state
    return None


def _write(array: Any, numbers: Any) -> None:
    """Write to an array of NumPy or of bytes. A scalar of NumPy cannot change."""
    if isinstance(array, bytearray):
        array[:] = numbers
    elif array.ndim and array.flags.writeable:
        array[...] = numbers


def _ids(table: dict[Any, Any]) -> list[tuple[int, int]]:
    return [(id(key), id(value)) for key, value in table.items()]


def _holds_others(tensor: torch.Tensor, content: torch.Tensor) -> bool:
    """Whether a tensor's values changed.

    Its version is not enough: eager batch norm writes its running statistics without raising it.
    """
    try:
        return not is_same(tensor, content)
    except Exception:  # sparse, a tensor subclass, or in memory that a CUDA graph has reused
        return False
