"""Budget entries that would keep an improvement."""

from __future__ import annotations

from compilegate.upgrade.case_comparison import CaseComparison


def proposals(item: CaseComparison) -> list[str]:
    """Return the budget entries that would keep an improvement, each as a line of TOML.

    A broken case gets none: code that is no longer compiled is not recompiled either.
    """
    if item.kind == "broken":
        return []
    return [
        f"{key} = {_toml(value)}"
        for change in item.changes
        if change.effect == "better"
        for key, value in change.proposal.items()
    ]


def _toml(value: object) -> str:
    match value:
        case str():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            return f'"{escaped}"'
        case list():
            return f"[{', '.join(map(_toml, value))}]"
        case dict():
            return f"{{ {', '.join(f'{key} = {_toml(item)}' for key, item in value.items())} }}"
        case _:
            return str(value)
