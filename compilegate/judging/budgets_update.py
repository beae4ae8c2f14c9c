"""Writes measured values into a budgets file, for ``--budgets-update``."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tomlkit

from compilegate.judging.budget import DEPENDS_ON
from compilegate.judging.budgets import SELECTORS, BudgetError, Machine
from compilegate.records.case import Case


def add_exact_entries(
    file: Path, updates: Mapping[Case, Mapping[str, Any]], machine: Machine
) -> list[str]:
    """Write exact entries for cases into a budgets file, keeping everything else in it.

    Values of a case replace those of an exact entry that is already there; graph breaks are added
    to its list.

    Args:
        file: The file; it is created if it does not exist.
        updates: New values by case and key.
        machine: What measured them. Entries name as much of it as their values depend on.

    Returns:
        What changed, a line each.

    Raises:
        BudgetError: The file cannot be read or written; it is left unchanged.
    """
    file = file.resolve()  # what a link names is written, and the link stays
    document = _read(file)
    tables = document.setdefault("budget", tomlkit.aot())
    changes = []
    for case, values in updates.items():
        for key, proposed in values.items():
            table = _exact_table(tables, case, needed_of(machine, key))
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
        new.write_text(tomlkit.dumps(document), encoding="utf-8")
        if file.exists():
            shutil.copymode(file, new)
        new.replace(file)
    except OSError as error:
        raise BudgetError(f"cannot write the budgets file {file}: {error.strerror}") from error
    return changes


def _read(file: Path) -> tomlkit.TOMLDocument:
    if not file.exists():
        return tomlkit.document()
    try:
        return tomlkit.parse(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BudgetError(f"cannot read the budgets file {file}: {error.strerror}") from error


def needed_of(machine: Machine, key: str) -> Machine:
    """Return what an entry with a measured value of this key must name of the machine."""
    match DEPENDS_ON[key]:
        case "host":
            return machine
        case "hardware":
            return Machine(machine.hardware)
        case _:
            return Machine()


def _exact_table(tables: Any, case: Case, machine: Machine) -> Any:
    named = {axis: getattr(case, axis) for axis in SELECTORS}
    for table in tables:
        axes = {axis: table[axis] for axis in SELECTORS if axis in table}
        is_exact = table.get("case") == case.id or axes == named
        if is_exact and machine == Machine(table.get("hardware", ""), table.get("host", "")):
            return table
    table = tomlkit.table()
    table["case"] = case.id
    table.update({key: name for key, name in asdict(machine).items() if name})
    tables.append(table)
    return table


def _inline_tables(breaks: Sequence[Mapping[str, str]]) -> Any:
    array = tomlkit.array().multiline(True)
    for item in breaks:
        table = tomlkit.inline_table()
        table.update(item)
        array.append(table)
    return array
