"""What makes cases worse, in a line for each cause."""

from __future__ import annotations

from collections.abc import Iterator

from compilegate.reports.text import count
from compilegate.upgrade.comparison import Comparison


def lines(comparison: Comparison) -> Iterator[str]:
    """Yield a line for each cause that was found, and for each reason why none was.

    Args:
        comparison: The comparison, whose cases may have attributions.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    pythons: dict[tuple[str, str], str] = {}
    for item in comparison.cases:
        if (found := item.attribution) is not None:
            key = (item.costlier or item.kind, found.cause or found.why)
            alike.setdefault(key, []).append(item.case)
            pythons.setdefault(key, found.python)
    explained = {a.cause for item in comparison.cases if (a := item.attribution)} - {""}
    for (kind, text), cases in alike.items():
        who = f"{cases[0]}{f' and {len(cases) - 1} more' if len(cases) > 1 else ''}"
        if text in explained:
            python = pythons[kind, text]
            yield f"{kind} by {text}: {who}{f'; to try it, use {python}' if python else ''}"
        else:
            yield f"{kind}, and not attributed: {who}: {text}"


def title(comparison: Comparison) -> str:
    """Return the title of these lines: how many environments were tried at most for one case."""
    tried = max((a.environments for item in comparison.cases if (a := item.attribution)), default=0)
    return f"attributed, by trying {count(tried, 'environment')} between the two"
