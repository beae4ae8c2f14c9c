"""What a check found: one line of ``compilegate doctor``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """Whether this machine has one thing that a runner needs.

    Attributes:
        name: The thing: ``g++``.
        is_there: Whether it has it.
        text: What is there, or what is missing.
        way_out: What to do where it is missing; empty where it is there.
    """

    name: str
    is_there: bool
    text: str
    way_out: str = ""


def has(name: str, text: str) -> Check:
    """Return that a thing is there."""
    return Check(name, True, text)


def lacks(name: str, text: str, way_out: str) -> Check:
    """Return that a thing is missing, and what to do."""
    return Check(name, False, text, way_out)
