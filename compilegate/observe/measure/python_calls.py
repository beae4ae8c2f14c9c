"""Counts the calls of Python functions in this thread, by function.

A call is an entry into a frame: a start, and each time that a generator or coroutine goes on.
Built-in functions are not counted. Python reports these entries in two ways, which count the same:
``sys.monitoring`` from 3.12 on, ``cProfile`` before.

https://docs.python.org/3/library/sys.monitoring.html
"""

from __future__ import annotations

import cProfile
import sys
import threading
from collections import Counter
from types import CodeType
from typing import Any, Protocol, Self


class CallCount(Protocol):
    """Counts calls in a ``with`` block."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def by_code(self) -> list[tuple[CodeType, int]]:
        """Return how often each function was called; equal functions may occur twice."""


class Profiled:
    """Counts with ``cProfile``, which follows one thread."""

    def __init__(self) -> None:
        self._profile = cProfile.Profile(subcalls=False, builtins=False)

    def __enter__(self) -> Self:
        self._profile.enable(subcalls=False, builtins=False)
        return self

    def __exit__(self, *error: object) -> None:
        self._profile.disable()

    def by_code(self) -> list[tuple[CodeType, int]]:
        """Return how often each function was called."""
        entries = ((entry.code, entry.callcount) for entry in self._profile.getstats())
        own = Profiled.__exit__.__code__
        return [(code, n) for code, n in entries if isinstance(code, CodeType) and code is not own]


class Monitored:
    """Counts with ``sys.monitoring``, which follows all threads: the others are left out.

    Raises:
        RuntimeError: Other tools use every identifier that Python has for tools.
    """

    def __init__(self) -> None:
        # Hashing a code object takes longer than the call, so its identity is the key.
        self._counts: Counter[int] = Counter()
        self._codes: dict[int, CodeType] = {}
        self._thread = 0
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
        self._monitoring = monitoring
        # Identifiers from 0 to 5; the first three are for a debugger, coverage and a profiler.
        free = [tool for tool in (2, 3, 4, 5) if monitoring.get_tool(tool) is None]
        if not free:
            raise RuntimeError(
                "sys.monitoring has no free tool: end the profilers that run in this process"
            )
        self._tool = free[0]
        events = monitoring.events
        self._events = (events.PY_START, events.PY_RESUME, events.PY_THROW)

    def __enter__(self) -> Self:
        self._thread = threading.get_ident()
        self._monitoring.use_tool_id(self._tool, "compilegate")
        for event in self._events:
            self._monitoring.register_callback(self._tool, event, self._entered)
        self._monitoring.set_events(self._tool, sum(self._events))
        return self

    def __exit__(self, *error: object) -> None:
        self._monitoring.set_events(self._tool, 0)
        for event in self._events:
            self._monitoring.register_callback(self._tool, event, None)
        self._monitoring.free_tool_id(self._tool)

    def _entered(self, code: CodeType, *_: object) -> None:
        if threading.get_ident() != self._thread:
            return
        key = id(code)
        if key not in self._codes:
            self._codes[key] = code  # kept alive, so that no identity is used twice
        self._counts[key] += 1

    def by_code(self) -> list[tuple[CodeType, int]]:
        """Return how often each function was called."""
        own = (Monitored.__exit__.__code__, Monitored.__enter__.__code__)
        return [(c, self._counts[k]) for k, c in self._codes.items() if c not in own]


def counter() -> CallCount:
    """Return the counter that costs least under this version of Python."""
    return Monitored() if sys.version_info >= (3, 12) else Profiled()
