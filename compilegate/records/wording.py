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


def memory(size: float) -> str:
    """Return bytes in a unit that does not round them away: ``16.0 MiB``, ``1.5 KiB``."""
    for unit, name in ((2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}"
    return counted(size, "byte")
