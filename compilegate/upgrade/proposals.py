"""Budget entries that would hold what became better."""

from __future__ import annotations

from compilegate.upgrade.comparison import CaseComparison


def proposals(item: CaseComparison) -> list[str]:
    """Budget entries that would hold what became better in a case, each as a line of TOML.

    None of a case that is broken: what is not compiled any more is not compiled again either.
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
