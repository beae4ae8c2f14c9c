"""The result of a rule, and the lines that show it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compilegate.records.observation import GraphBreak
from compilegate.records.verdict import Outcome

#: How many lines of one kind a message shows.
SHOWN = 6
#: An option of the compiler that a message of PyTorch asks for.
_OPTION = re.compile(r"torch\._(dynamo|inductor|functorch)\.config\.(\w+)(?:\s*=\s*|`? to `?)(\w+)")


@dataclass(frozen=True)
class Finding:
    """The result of a rule.

    Attributes:
        outcome: *passed*, *failed*, *inconclusive* or *skipped*.
        summary: One line: what was seen and what was allowed.
        details: Further lines. An indented line explains the line above it.
        proposal: Budget values with which it would pass, for what may be budgeted; None is the
            same as no values.
        indicative: Whether a second measurement would be needed to fail the case. Passing then
            contradicts no expected failure.
        complaints: All that failed, a line each: expected failures must match every one. Empty
            where the summary says it all.
    """

    outcome: Outcome
    summary: str
    details: tuple[str, ...] = ()
    proposal: Mapping[str, Any] | None = None
    indicative: bool = False
    complaints: tuple[str, ...] = ()

    @classmethod
    def failure(
        cls,
        complaints: Sequence[str],
        *,
        more: Iterable[str] = (),
        proposal: Mapping[str, Any] | None = None,
    ) -> Finding:
        """Return the finding of complaints, of which the message shows the first few.

        Args:
            complaints: What failed, a line each; at least one.
            more: Further lines of the message.
            proposal: Budget values with which it would pass.
        """
        details = (*shorten(complaints), *more)
        return cls("failed", complaints[0], details, proposal, complaints=tuple(complaints))


def with_help(lines: Iterable[str], breaks: Iterable[GraphBreak]) -> Iterator[str]:
    """Yield each line, and below a graph break PyTorch's explanation, hints and page.

    Below an option of the compiler that PyTorch names, say how a recipe sets it. Hints come first:
    a reason may name the present value.
    """
    by_line = {str(item): item for item in breaks}
    for line in lines:
        yield line
        explained = by_line[line].help if line in by_line else ()
        yield from indented(explained)
        hints = by_line[line].hint if line in by_line else ""
        option = _OPTION.search("\n".join((hints, line, *explained)))
        if option is not None:
            group, name, value = option.groups()
            recipe = f'Example(…, config={{"{group}.{name}": {value}}})'
            yield f"  for this model alone, set it in the recipe: {recipe}"


def shorten(complaints: Sequence[str]) -> tuple[str, ...]:
    """Return the first few lines, and a line with the number of the others."""
    if len(complaints) <= SHOWN:
        return tuple(complaints)
    return (*complaints[:SHOWN], f"… and {len(complaints) - SHOWN} more")


def indented(lines: Iterable[str]) -> Iterator[str]:
    """Indent lines that explain the line above them."""
    return (f"  {line}" for line in lines)
