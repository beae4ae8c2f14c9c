"""Values of budget keys, as a budgets file has them."""

from __future__ import annotations


def toml(value: object) -> str:
    """Return a value of a budget key as TOML, in one line."""
    match value:
        case str():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            return f'"{escaped}"'
        case list():
            return f"[{', '.join(map(toml, value))}]"
        case dict():
            return f"{{ {', '.join(f'{key} = {toml(item)}' for key, item in value.items())} }}"
        case _:
            return str(value)
