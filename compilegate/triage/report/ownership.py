"""Whose code is at fault: that of a team is no issue of PyTorch."""

from __future__ import annotations

from collections.abc import Iterator

from compilegate.records.part import OwnCode


def whose(one: OwnCode) -> str:
    """Return whose code it is."""
    return f"{one.owner}'s own" if one.owner else "the team's own"


def described(one: OwnCode) -> str:
    """Return what it is, whose, and where."""
    return f"{whose(one)} {one.kind} {one.name} ({one.source})"


def paragraph(one: OwnCode) -> Iterator[str]:
    """Yield which code is at fault, and whom the report is for."""
    at = ", ".join(f"`{key}`" for key in one.keys[:2])
    yield f"**Code:** `{one.name}` (`{one.source}`), the {one.kind} that is registered for {at}."
    yield f"It is {whose(one)} code, not PyTorch's: this report is for the owners of"
    yield from (f"`{one.name.partition('.')[0]}`, and is no PyTorch issue.", "")
