"""The lines of Inductor that set a guard, where its code comes from a cache.

Inductor chooses code by sizes, and guards on what decides. Dynamo names the line of the choice.
With code from a cache, it names the line that reads the cache instead, so that a budget would know
the guard in a first run alone. A file next to the cache keeps the lines.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch._guards import CompileContext
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from compilegate.observe import cache_folder

#: A line of PyTorch in the comment on a guard: ``(_inductor/decomposition.py:592 in mm)``.
_PLACE = re.compile(r"\(((\S+):\d+ in \w+)\)")
#: The modules that read guards from a cache. This one stands between them.
_CACHES = re.compile(
    r"(_functorch/_aot_autograd/|_inductor/)\w*(cache|result)\w*\.py|capture/cached_guards\.py"
)

#: Lines that set the guards of code from a cache, by Dynamo's name of the code: ``0/1``.
_lines: dict[str, set[str]] = defaultdict(set)


def forget() -> None:
    """Forget what was read, as Dynamo forgets the code that it belongs to."""
    _lines.clear()


def with_lines(reason: str) -> str:
    """Return a guard that failed, with the lines that set it instead of those that read a cache.

    Args:
        reason: The guard, after the name of its code: ``0/1: 17 <= x.size()[0] # (…) and (…)``.
    """
    places = _PLACE.findall(reason)
    known = sorted(_lines.get(reason.partition(":")[0], ()))
    if not known or not any(_CACHES.search(file) for _, file in places):
        return reason
    kept = [place for place, file in places if not _CACHES.search(file)]
    lines = " and ".join(f"({line})" for line in dict.fromkeys((*kept, *known)))
    first, last = reason.index(f"({places[0][0]})"), reason.rindex(f"({places[-1][0]})")
    return f"{reason[:first]}{lines}{reason[last + len(places[-1][0]) + 2 :]}"


def _file(guards: str) -> Path:
    name = hashlib.sha256(guards.encode()).hexdigest()[:32]
    return cache_folder.in_use() / "compilegate-guards" / name


def _current() -> str:
    return str(CompileContext.current_compile_id() or "")


def _setting(produce: Callable[..., str | None]) -> Callable[..., str | None]:
    """Return PyTorch's function that writes guards for a cache. It keeps their lines."""

    @functools.wraps(produce)
    def produced(self: ShapeEnv, *args: Any, **options: Any) -> str | None:
        text = produce(self, *args, **options)
        if text:
            # A folder that cannot be written to keeps no cache, either.
            with contextlib.suppress(OSError):
                _keep(text, options.get("guards") or self.guards)
        return text

    return produced


def _keep(text: str, guards: Sequence[Any]) -> None:
    # Dynamo's own guards are for a line of the user, and Dynamo sets them again.
    set_later = [str(guard.sloc) for guard in guards if guard.sloc.maybe_user_loc is None]
    places = [place for line in set_later for place in _PLACE.findall(line)]
    lines = {line for line, file in places if not _CACHES.search(file)}
    lines |= _lines.get(_current(), set()) | _read(text)
    file = _file(text)
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as written:
        written.write("\n".join(sorted(lines)))
    Path(written.name).replace(file)


def _read(text: str) -> set[str]:
    with contextlib.suppress(OSError):
        return set(filter(None, _file(text).read_text().splitlines()))
    return set()


def _reading(evaluate: Callable[..., bool]) -> Callable[..., bool]:
    """Return PyTorch's function that adds guards from a cache. It notes their lines."""

    @functools.wraps(evaluate)
    def evaluated(self: ShapeEnv, code: str, args: Sequence[object]) -> bool:
        _lines[_current()] |= _read(code)
        return evaluate(self, code, args)

    return evaluated


for _name, _wrap in (
    ("produce_guards_expression", _setting),
    ("evaluate_guards_expression", _reading),
):
    setattr(ShapeEnv, _name, _wrap(getattr(ShapeEnv, _name)))
