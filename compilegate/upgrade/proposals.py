"""Budget entries that would keep an improvement."""

from __future__ import annotations

from compilegate.judging.toml_values import toml
from compilegate.upgrade.case_comparison import CaseComparison


def proposals(item: CaseComparison) -> list[str]:
    """Return the budget entries that would keep an improvement, each as a line of TOML.

    A broken case gets none: code that is no longer compiled is not recompiled either.
    """
    if item.kind == "broken":
        return []
    return [
        f"{key} = {toml(value)}"
        for change in item.changes
        if change.effect == "better"
        for key, value in change.proposal.items()
    ]
