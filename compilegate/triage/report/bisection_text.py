"""What PyTorch's bisector found: the pass, the lowering or the decomposition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from compilegate.triage.findings import Findings

#: How many lines that a pattern replaces are named.
_LINES = 3


def lines(findings: Findings) -> Iterator[str]:
    """Yield what the bisector found, and what helps the script."""
    found = findings.bisected
    if why := found.get("why"):
        yield f"CompilerBisector could not tell: {why}"
    elif found.get("subsystem"):
        number = f", application {found['number']}" if found.get("number") else ""
        yield f"CompilerBisector: backend `{found['backend']}`, `{found['subsystem']}`{number}."
        if found.get("what"):
            yield from ("", "```text", found["what"], "```")
        yield from _patterns(found.get("patterns", ()))
    elif found.get("backend"):
        yield f"CompilerBisector: backend `{found['backend']}`. Leaving out any single step did not"
        yield "help: a fault that runs in two steps cannot be found this way."
    for options in found.get("helps", ()):
        yield f"- the script passes with `{options}`"
    if findings.compiles_unvectorised:
        yield from (
            "",
            "The C++ of this kernel therefore compiles only without vectorisation.",
        )


def _patterns(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the patterns that the pass replaces, and the code that they replace."""
    if len(found) > 1:
        yield from ("", f"The fault is in one of {len(found)} patterns that this pass replaces:")
    for pattern in found:
        shown = ", ".join(f"`{line}`" for line in pattern["lines"][:_LINES])
        what = f": {shown}" if shown else ""
        yield from ("", f"It replaces `{pattern['name']}` (`{pattern['at']}`){what}.")
