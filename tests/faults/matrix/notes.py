"""Why faults are missed: globs on ``KIND CASE``, and the mechanism."""

from __future__ import annotations

_WITHIN_BUDGET = (
    "the results are right, and the cost is judged by the peak, which may be 1.3× eager's plus a "
    "slack (8 MiB on a GPU). What is held ({}) is presumably less: the run kept no peaks"
)

NOTES: dict[str, str] = {
    "memory_wasted *": _WITHIN_BUDGET.format("four times inputs and parameters, at least 32 MiB"),
    "nothing_freed *-regional": _WITHIN_BUDGET.format("the results of one block at a time"),
}
