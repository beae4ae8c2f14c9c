"""The variables that this process was started with, and the options of ``torch.compile``."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from compilegate.records import variables as rules

#: The modules with options of ``torch.compile``, by the name that reports show.
_MODULES = {
    "inductor": "torch._inductor.config",
    "dynamo": "torch._dynamo.config",
    "functorch": "torch._functorch.config",
    "dynamic_shapes": "torch.fx.experimental._config",
    "compiler": "torch.compiler.config",
}
_LOAD = re.compile(r"load_config\((\{.*\})\)")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def variables() -> dict[str, str]:
    """Return the variables that a run file holds.

    They are those that the interpreter was started with. PyTorch sets further ones, which differ
    from release to release.
    """
    pairs = Path("/proc/self/environ").read_bytes().decode(errors="replace").split("\0")
    return rules.stored(dict(pair.split("=", 1) for pair in pairs if "=" in pair))


def configuration() -> dict[str, str]:
    """Return the options that differ from their default, as Python writes their values.

    A default that PyTorch itself takes from a variable on import counts as a default; the variable
    is among :func:`variables`.
    """
    return {
        f"{label}.{option}": rules.shown(_ADDRESS.sub("", value))
        for label, name in _MODULES.items()
        for option, value in _changed(importlib.import_module(name))
    }


def _changed(module: Any) -> Iterator[tuple[str, str]]:
    """Yield the options that a module writes as code, but those that were set to their default."""
    defaults = getattr(module, "_config", {})  # PyTorch counts what was set at all as changed
    for option, value in _written(module.codegen_config().splitlines(), module.__name__):
        if option not in defaults or repr(defaults[option].default) != value:
            yield option, value


def _written(lines: Iterable[str], name: str) -> Iterator[tuple[str, str]]:
    """Yield the options that the code sets, and their values as code."""
    for line in lines:
        if not line.startswith(f"{name}."):  # an import, or a comment
            continue
        statement = line.removeprefix(f"{name}.")
        option, equals, value = statement.partition(" = ")
        if equals and option.replace(".", "_").isidentifier():
            yield option, value
        elif call := _LOAD.fullmatch(statement):  # options that imply others
            yield from ((key, repr(value)) for key, value in ast.literal_eval(call[1]).items())
