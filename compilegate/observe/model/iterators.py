"""Iterators that a model keeps, such as ``itertools.count()``: where they stand is state.

No iterator can be put back in place. Whoever holds it gets a copy that stands where it stood.
"""

from __future__ import annotations

import ast
import itertools
import warnings
from collections.abc import Iterator
from typing import Any

#: Iterators over a sequence, which ``__reduce__`` returns with the index of the next item.
_OF_SEQUENCES: tuple[type, ...] = (
    *(type(iter([])), type(iter(())), type(iter(""))),
    *(type(iter("é")), type(iter(b"")), type(iter(range(1))), type(iter(range(2**99)))),
)
#: Iterators that ``__reduce__`` returns whole. Others may read from elsewhere, as a file does.
_KINDS = (
    *_OF_SEQUENCES,
    *(itertools.count, itertools.cycle, itertools.repeat),
    *(enumerate, zip, map, filter),
)
#: What all sides may share.
_SHARED = (bool, int, float, complex, str, bytes, type(None))
#: The values of a longer list are not looked at.
_LONGEST = 256


class Position(str):
    """Where an iterator stands, as text: ``97 items left``.

    Attributes:
        at: A copy of the iterator that stands there, which nobody advances.
        is_free: Whether the iterator yields only values that all sides may share.
    """

    at: Iterator[Any]
    is_free: bool

    def __repr__(self) -> str:
        """Return the text without quotes."""
        return str(self)

    def again(self) -> Iterator[Any]:
        """Return an iterator that stands there."""
        copied: Iterator[Any] = _copy(self.at)
        return copied


def position_of(value: object) -> Position | None:
    """Return where an iterator stands; None for any other value, and for one without copies."""
    if type(value) not in _KINDS:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12 on
        try:
            copied = _copy(value)
            position = Position(_text(value))
        except TypeError:  # a generator in it, or Python 3.14: itertools copies nothing there
            return None
    position.at, position.is_free = copied, _is_free(value)
    return position


def kept(value: Any) -> Any:
    """Return what :func:`put_back` needs: a position for an iterator, else the value itself."""
    position = position_of(value)
    return value if position is None else position


def put_back(stored: Any, now: Any) -> Any:
    """Return a value that :func:`kept` returned, or an iterator that stands there.

    Args:
        stored: What it returned.
        now: What is now in the place of the value. An iterator that still stands there stays.
    """
    if not isinstance(stored, Position):
        return stored
    return now if position_of(now) == stored else stored.again()


def digest_of(value: object) -> Position | None:
    """Return the position of an iterator, if it yields only values that all sides may share.

    One side cannot get the position of another if they are that side's own modules or tensors.
    """
    position = position_of(value)
    return position if position is not None and position.is_free else None


def _parts(value: Any) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """Return what makes an iterator again: a function, its arguments, and its state if it has one.

    Raises:
        TypeError: The iterator does not say.
    """
    if type(value) is itertools.count:  # which says so in every version of Python
        return itertools.count, ast.literal_eval(f"({repr(value)[6:-1]},)"), ()
    made, given, *state = value.__reduce__()
    return made, given, tuple(one for one in state if one is not None)  # of a range, from 3.12 on


def _copy(value: Any) -> Any:
    """Copy an iterator with the iterators in it, and what it collects; else return the value.

    Raises:
        TypeError: It cannot be copied.
    """
    if not isinstance(value, Iterator):
        return value
    made, given, state = _parts(value)
    copied = made(*map(_copy, given))
    for one in state:
        copied.__setstate__(tuple(map(_own, one)) if isinstance(one, tuple) else one)
    return copied


def _own(value: Any) -> Any:
    """Copy what an iterator changes: the list in which ``itertools.cycle`` collects its values."""
    return list(value) if type(value) is list else _copy(value)


def _text(value: Any) -> str:
    if isinstance(value, Iterator):
        made, given, state = _parts(value)
        if made is iter:
            return f"{_length(given[0]) - (state[0] if state else 0)} items left"
        flat = [one for part in state for one in (part if isinstance(part, tuple) else (part,))]
        if type(value) is itertools.cycle and flat[1]:  # it repeats; a copy counts otherwise
            _, (items,), (index,) = _parts(given[0])
            return f"cycle({len(items)} items, {index % max(len(items), 1)})"
        return f"{type(value).__name__}({', '.join(map(_text, [*given, *flat]))})"
    if isinstance(value, (list, tuple)):
        return f"{len(value)} items"
    return repr(value) if isinstance(value, (int, float, range)) else type(value).__name__


def _length(items: Any) -> int:
    """Return the number of items, also of a range that is longer than ``len`` can say."""
    if isinstance(items, range):
        return (items[-1] - items[0]) // items.step + 1 if items else 0
    return len(items)


def _is_free(value: Any) -> bool:
    if isinstance(value, Iterator):
        _, given, state = _parts(value)
        return all(map(_is_free, (*given, *state)))
    if isinstance(value, (list, tuple)):
        return len(value) <= _LONGEST and all(map(_is_free, value))
    return isinstance(value, (*_SHARED, range))
