"""Adds the budget entries that ``--budgets-update`` asks for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compilegate.judging.budgets import BudgetError
from compilegate.judging.budgets_update import add_exact_entries
from compilegate.layout import SHIPPED_BUDGETS
from compilegate.records.case import Case
from compilegate.session.plan import Plan


def update_budgets(plan: Plan, proposals: Mapping[Case, Mapping[str, Any]]) -> list[str]:
    """Add exact entries with which the failed cases pass.

    Args:
        plan: The plan of the session.
        proposals: The proposed budget values, by case.

    Returns:
        A line for each change, or for each file that could not be changed.
    """
    changes = []
    given = plan.options.budgets
    for device in plan.tier:
        updates = {case: dict(v) for case, v in proposals.items() if case.device == device}
        if not updates:
            continue
        file = Path(given[-1]) if given else SHIPPED_BUDGETS / f"{device}.toml"
        try:
            lines = add_exact_entries(file, updates, plan.machine(device))
        except BudgetError as error:
            changes.append(f"budgets not updated: {error}")
        else:
            changes += [f"budget updated: {file}: {line}" for line in lines]
    return changes
