"""Words of messages that depend on a number."""

from __future__ import annotations


def counted(count: float, noun: str, plural: str = "") -> str:
    """Return a number with its noun: ``1 hit``, ``2 hits``.

    Args:
        count: A whole number.
        noun: The noun in the singular.
        plural: The plural, where it is not the noun with an ``s``.
    """
    return f"{count:,.0f} {noun if count == 1 else plural or f'{noun}s'}"
