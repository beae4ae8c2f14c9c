"""The submodules of a model that a call enters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn


def called(module: nn.Module, path: str, call: Callable[[], Any]) -> list[dict[str, str]]:
    """Return the model, and the submodules that a call enters, in the order of the first calls.

    Args:
        module: The model.
        path: The submodule whose own submodules are followed; empty for the model.
        call: Calls the model.
    """
    order: dict[str, str] = {"": type(module).__name__}

    def follow(name: str, below: nn.Module) -> None:
        def note(*_: Any) -> None:
            order.setdefault(name, type(below).__name__)

        below.register_forward_pre_hook(note)

    for name, below in module.get_submodule(path).named_modules(prefix=path):
        if name != path:
            follow(name, below)
    call()
    return [{"path": name, "kind": kind} for name, kind in order.items()]
