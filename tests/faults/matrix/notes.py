"""Why faults are missed: globs on ``KIND CASE``, and the mechanism."""

from __future__ import annotations

_WITHIN_BUDGET = (
    "no wrong result, but a cost: it waits for a peak above 1.3× eager's plus 8 MiB, which this "
    "plant stays below where activations outweigh what it holds ({})"
)

NOTES: dict[str, str] = {
    "memory_wasted *": _WITHIN_BUDGET.format("four times inputs and parameters, at least 32 MiB"),
    "nothing_freed *-regional": _WITHIN_BUDGET.format("the results of one block at a time"),
}
