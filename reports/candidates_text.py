"""Several candidates compared with one baseline, as one table: what each decides, case by case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from packaging.version import InvalidVersion, Version

from compilegate.output.visible import visible
from compilegate.reports.text import count, cut
from compilegate.upgrade.comparison import Comparison
from compilegate.upgrade.decision import decide, version

#: How many cases are shown before the rest is counted.
ROWS = 40


def candidate_lines(
    comparisons: Mapping[str, Comparison], *, width: int, everything: bool = False
) -> Iterator[str]:
    """Yield the decision on each candidate, the newest safe one, then the cases that differ.

    Args:
        comparisons: The comparison of each candidate with the baseline, by the name of its run.
        width: Characters of a line.
        everything: Whether all cases are shown, and no line is cut.
    """
    names = max(map(len, ("run", *comparisons)))
    versions = {name: version(item.candidate) for name, item in comparisons.items()}
    column = max(map(len, ("torch", *versions.values())))
    yield f"{'run':<{names}}  {'torch':<{column}}  decision"
    for name, comparison in comparisons.items():
        decision = decide(comparison)
        because = f": {decision.because}" if decision.because else ""
        because += ", costs not compared" if comparison.machines else ""
        text = f"{name:<{names}}  {versions[name]:<{column}}  {decision.answer}{because}"
        yield visible(text if everything else cut(text, width))
    yield ""
    if (newest := newest_safe(comparisons)) is None:
        yield "none of them is safe"
    else:
        yield visible(f"newest safe: torch {versions[newest]}, run {newest}")
    yield from _cases(comparisons, everything=everything)


def newest_safe(comparisons: Mapping[str, Comparison]) -> str | None:
    """Return the name of the safe candidate with the newest torch; None if none is safe."""
    safe = [name for name, item in comparisons.items() if decide(item).answer == "safe"]
    return max(safe, key=lambda name: _order(version(comparisons[name].candidate)), default=None)


def exit_status(comparisons: Mapping[str, Comparison]) -> int:
    """Return 0 if a candidate is safe, 1 if none may be adopted, 2 if one may be, or may not."""
    statuses = {decide(comparison).exit_status for comparison in comparisons.values()}
    return 0 if 0 in statuses else max(statuses)


def _order(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:  # a build whose version no release follows: the oldest
        return Version("0")


def _cases(comparisons: Mapping[str, Comparison], *, everything: bool) -> Iterator[str]:
    """Yield a row for each case whose class is not *unchanged* in all candidates."""
    kinds: dict[str, dict[str, str]] = {}
    for name, comparison in comparisons.items():
        for item in comparison.cases:
            kinds.setdefault(item.case, {})[name] = item.kind
    differing = {
        case: found for case, found in kinds.items() if {*found.values()} - {"unchanged", "new"}
    }
    if not differing:
        return
    rows = [["case", *comparisons]]
    rows += [[case, *(found.get(n, "–") for n in comparisons)] for case, found in differing.items()]
    shown = rows if everything else rows[: ROWS + 1]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    yield ""
    for row in shown:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        yield visible("  ".join(cells).rstrip())
    if len(rows) > len(shown):
        yield f"… and {count(len(rows) - len(shown), 'more row')}; to see them, add --all"
