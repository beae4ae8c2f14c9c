"""A snapshot of a model's state, to restore after calls that are not judged."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, MutableMapping
from types import CellType
from typing import Any

from compilegate.observe.model import iterators
from compilegate.observe.model.global_state import GlobalState
from compilegate.observe.model.holder import holder_of
from compilegate.observe.model.kept import Kept
from compilegate.observe.model.shared_state import SharedState
from compilegate.observe.model.state import (
    HOOKS,
    OF_EVERY_MODULE,
    cells_of,
    classes_of,
    held_by,
    objects,
)
from compilegate.observe.objects import attributes_of, set_attributes, set_class_attributes


class Snapshot:
    """The current buffers, attributes of modules and their classes, and closed-over variables.

    The snapshot also contains the objects that modules hold and that every call receives, the
    variables that all sides share, and process-wide switches.

    Args:
        module: The model.
        parameters: Whether to keep parameters, too. Few models change them in a call.
        given: The arguments that every call receives again.
        shared: The variables that the model shares with others, as it has left them.
    """

    def __init__(
        self,
        module: object,
        *,
        parameters: bool,
        given: object = (),
        shared: SharedState | None = None,
    ) -> None:
        self._switches = GlobalState()
        self._shared = (shared, shared.left, shared.now()) if shared is not None else None
        self._cells: list[tuple[CellType, Any]] = []
        self._holders: list[tuple[MutableMapping[str, Any], dict[str, Any]]] = []
        self._named: list[tuple[MutableMapping[str, Any], frozenset[str]]] = []
        self._classes: list[tuple[type, dict[str, Any]]] = []
        self._objects: list[tuple[object, dict[str, Any]]] = []
        self._inside = Kept()
        held_by_modules: list[object] = []
        for part in holder_of(module).modules():
            self._keep(part._buffers, dict(part._buffers))
            if parameters:
                self._keep(part._parameters, dict(part._parameters))
            own = {n: v for n, v in vars(part).items() if n not in OF_EVERY_MODULE}
            self._keep(vars(part), own)
            self._named.append((vars(part), frozenset(own)))
            self._inside.add(vars(part).get(name) for name in HOOKS)
            held_by_modules.append(own)
        for made in classes_of(module).values():
            held = held_by(made)
            self._classes.append((made, _kept(held)))
            self._inside.add(held.values())
        for found in objects([given, held_by_modules], "").values():
            attributes = attributes_of(found)
            self._objects.append((found, _kept(attributes)))
            self._inside.add(attributes.values())
        for cell in cells_of(module).values():
            with contextlib.suppress(ValueError):  # a variable that is not assigned yet
                self._cells.append((cell, iterators.kept(cell.cell_contents)))
                self._inside.add([cell.cell_contents])

    def _keep(self, holder: MutableMapping[str, Any], items: dict[str, Any]) -> None:
        self._holders.append((holder, _kept(items)))
        self._inside.add(items.values())

    def put_back(self) -> None:
        """Restore everything."""
        self._inside.put_back()
        for holder, values in self._holders:
            for name, value in _put_back(values, holder).items():
                if holder.get(name, self) is not value:
                    holder[name] = value
        for held, names in self._named:  # one may say that something exists which is gone now
            for name in held.keys() - names - OF_EVERY_MODULE:
                del held[name]
        for made, attributes in self._classes:
            set_class_attributes(made, _put_back(attributes, vars(made)))
        for found, attributes in self._objects:
            set_attributes(found, _put_back(attributes, attributes_of(found)))
        for cell, contents in self._cells:
            now = None
            with contextlib.suppress(ValueError):  # a call has deleted the variable
                now = cell.cell_contents
            cell.cell_contents = iterators.put_back(contents, now)
        self._switches.put_back()
        if self._shared is not None:
            shared, left, now = self._shared
            shared.left = left
            now.put_back()


def _kept(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: iterators.kept(value) for name, value in values.items()}


def _put_back(stored: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    return {name: iterators.put_back(value, now.get(name)) for name, value in stored.items()}
