"""Writes measured values into a budgets file, for ``--budgets-update``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomlkit

from compilegate.judging.aspects import HARDWARE_KEYS
from compilegate.judging.budgets import SELECTORS, BudgetError
from compilegate.records.case import Case


def add_exact_entries(
    file: Path, updates: Mapping[Case, Mapping[str, Any]], hardware: str
) -> list[str]:
    """Write exact entries for cases into a budgets file, keeping everything else in it.

    Values of a case replace those of an exact entry that is already there; graph breaks are added
    to its list.

    Args:
        file: The file; it is created if it does not exist.
        updates: New values by case and key.
        hardware: The name of the processor or GPU that measured them.

    Returns:
        What changed, a line each.

    Raises:
        BudgetError: The file cannot be written; it is left unchanged.
    """
    document = tomlkit.parse(file.read_text()) if file.exists() else tomlkit.document()
    tables = document.setdefault("budget", tomlkit.aot())
    changes = []
    for case, values in updates.items():
        for key, proposed in values.items():
            table = _exact_table(tables, case, hardware if key in HARDWARE_KEYS else "")
            old = table.get(key)
            value = proposed
            if key == "graph_breaks":
                value = _inline_tables(
                    [*(old or ()), *(b for b in proposed if b not in (old or ()))]
                )
            table[key] = value
            was = "new" if old is None else f"was {old}"
            changes.append(f"{case.id}: {key} = {value} ({was})")
    new = file.with_name(f"{file.name}.new")  # a full disk must not destroy the file
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(tomlkit.dumps(document))
        new.replace(file)
    except OSError as error:
        raise BudgetError(f"cannot write the budgets file {file}: {error.strerror}") from error
    return changes


def _exact_table(tables: Any, case: Case, hardware: str) -> Any:
    named = {axis: getattr(case, axis) for axis in SELECTORS}
    for table in tables:
        axes = {axis: table[axis] for axis in SELECTORS if axis in table}
        is_exact = table.get("case") == case.id or axes == named
        if is_exact and table.get("hardware", "") == hardware:
            return table
    table = tomlkit.table()
    table["case"] = case.id
    if hardware:
        table["hardware"] = hardware
    tables.append(table)
    return table


def _inline_tables(breaks: Sequence[Mapping[str, str]]) -> Any:
    array = tomlkit.array().multiline(True)
    for item in breaks:
        table = tomlkit.inline_table()
        table.update(item)
        array.append(table)
    return array
