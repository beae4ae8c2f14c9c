"""How records are written: one JSON object in one line each.

JSON has no NaN and no infinity. They are written as the strings ``"NaN"``, ``"Infinity"`` and
``"-Infinity"``, which lax decoders turn back into floats.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

#: Up to here a float holds every whole number.
_EXACT = 2.0**53


def dumps(value: Any, text: Callable[[str], str] = str) -> str:
    """JSON of plain data in one line, non-finite floats as strings.

    Args:
        value: The data.
        text: Is given each text and name in it, and returns what is written.
    """
    return json.dumps(_plain(value, text), allow_nan=False, separators=(",", ":"))


def _plain(value: Any, text: Callable[[str], str]) -> Any:
    """Data that JSON has."""
    match value:
        case float():
            return _number(value)
        case str():
            return text(value).encode("utf-8", "replace").decode()  # a lone surrogate is no JSON
        case int() | None:
            return value
        case list() | tuple():
            return [_plain(item, text) for item in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            value = fields_of(value)
        case dict():
            pass
        case _:
            raise TypeError(f"{type(value).__name__} cannot be stored in a record: {value!r}")
    return {text(str(key)): _plain(item, text) for key, item in value.items()}


def _number(value: float) -> float | str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value.is_integer() and abs(value) < _EXACT:  # bytes, which were an integer once
        return value
    return float(f"{value:.6g}")


def fields_of(record: Any) -> dict[str, Any]:
    """The fields of a dataclass, except those that are None by default."""
    items = {f.name: getattr(record, f.name) for f in fields(record)}
    return {name: item for name, item in items.items() if item is not None}
