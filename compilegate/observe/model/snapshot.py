"""A snapshot of a model's state, to restore after calls that are not judged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, MutableMapping
from types import CellType
from typing import Any

import torch
from torch import nn

from compilegate.observe.model.equality import is_same
from compilegate.observe.model.global_state import GlobalState
from compilegate.observe.model.result import clone_of
from compilegate.observe.model.state import OF_EVERY_MODULE, cells_of, classes_of, held_by, objects
from compilegate.observe.objects import attributes_of


class Snapshot:
    """The current buffers, attributes of modules and their classes, and closed-over variables.

    The snapshot also contains the objects that modules hold and that every call receives, and
    process-wide switches.

    :meth:`put_back` restores the objects in place, because guards and CUDA graphs depend on their
    identity: it writes to tensors and refills containers.

    Args:
        module: The model.
        parameters: Whether to keep parameters, too. Few models change them in a call.
        given: The arguments that every call receives again.
    """

    def __init__(self, module: object, *, parameters: bool, given: object = ()) -> None:
        self._switches = GlobalState()
        self._cells: list[tuple[CellType, Any]] = []
        self._holders: list[tuple[MutableMapping[str, Any], dict[str, Any]]] = []
        self._classes: list[tuple[type, dict[str, Any]]] = []
        self._objects: list[tuple[object, dict[str, Any]]] = []
        self._lists: list[tuple[list[Any], list[Any]]] = []
        self._dicts: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
        #: By id: the tensor, its version and its content.
        self._tensors: dict[int, tuple[torch.Tensor, int, torch.Tensor]] = {}
        held_by_modules: list[object] = []
        for part in module.modules() if isinstance(module, nn.Module) else ():
            self._keep(part._buffers, dict(part._buffers))
            if parameters:
                self._keep(part._parameters, dict(part._parameters))
            own = {n: v for n, v in vars(part).items() if n not in OF_EVERY_MODULE}
            self._keep(vars(part), own)
            held_by_modules.append(own)
        for made in classes_of(module).values():
            held = held_by(made)
            self._classes.append((made, held))
            self._keep_inside(held.values())
        for found in objects([given, held_by_modules], "").values():
            attributes = attributes_of(found)
            self._objects.append((found, attributes))
            self._keep_inside(attributes.values())
        for cell in cells_of(module).values():
            with contextlib.suppress(ValueError):  # a variable that is not assigned yet
                self._cells.append((cell, cell.cell_contents))
        self._keep_inside(contents for _, contents in self._cells)

    def _keep(self, holder: MutableMapping[str, Any], items: dict[str, Any]) -> None:
        self._holders.append((holder, items))
        self._keep_inside(items.values())

    def _keep_inside(self, values: Iterable[Any]) -> None:
        for value in values:
            for tensor in self._inside(value):
                content = None if tensor.is_inference() else clone_of(tensor)
                if content is not None:
                    self._tensors[id(tensor)] = (tensor, tensor._version, content)

    def _inside(self, value: Any) -> Iterator[torch.Tensor]:
        """Yield the tensors in a value, and keep its containers."""
        if isinstance(value, torch.Tensor):
            yield value
        elif type(value) is list:
            self._lists.append((value, list(value)))
            for item in value:
                yield from self._inside(item)
        elif type(value) is dict:
            self._dicts.append((value, dict(value)))
            for item in value.values():
                yield from self._inside(item)
        elif type(value) is tuple:
            for item in value:
                yield from self._inside(item)

    def put_back(self) -> None:
        """Restore everything."""
        for held, items in self._lists:
            if [*map(id, held)] != [*map(id, items)]:
                held[:] = items
        for table, entries in self._dicts:
            if [*map(id, table.values())] != [*map(id, entries.values())]:
                table.clear()
                table.update(entries)
        for holder, values in self._holders:
            for name, value in values.items():
                if holder.get(name, self) is not value:
                    holder[name] = value
        for made, attributes in self._classes:
            _set_again(made, attributes)
        for found, attributes in self._objects:
            _set_object_again(found, attributes)
        for cell, contents in self._cells:
            cell.cell_contents = contents
        self._switches.put_back()
        with torch.no_grad():
            for tensor, version, content in self._tensors.values():
                written = tensor._version != version or _holds_others(tensor, content)
                if written and tensor.shape == content.shape:
                    tensor.copy_(content)


def _set_again(made: type, attributes: dict[str, Any]) -> None:
    """Restore the attributes of a class that have changed."""
    now = vars(made)
    for name, value in attributes.items():
        if name not in now or now[name] is not value:
            type.__setattr__(made, name, value)


def _set_object_again(found: object, attributes: dict[str, Any]) -> None:
    """Restore the attributes of an object that have changed, in slots, too."""
    now = attributes_of(found)
    for name, value in attributes.items():
        if name not in now or now[name] is not value:
            object.__setattr__(found, name, value)


def _holds_others(tensor: torch.Tensor, content: torch.Tensor) -> bool:
    """Whether a tensor's values changed.

    Its version is not enough: eager batch norm writes its running statistics without raising it.
    """
    try:
        return not is_same(tensor, content)
    except Exception:  # sparse, a tensor subclass, or in memory that a CUDA graph has reused
        return False
