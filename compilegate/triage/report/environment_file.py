"""``environment.txt``: what a maintainer asks of an environment."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from compilegate.output.visible import visible
from compilegate.records.environment import Environment
from compilegate.triage.report.cleaning import cleaned

#: Modules that Python imports as it starts, where there are any. Scripts are verified with them.
_AT_START = ("sitecustomize", "usercustomize")


def text(environment: Environment) -> str:
    """Return what a maintainer asks of an environment, one fact a line."""
    facts = [f"python {environment.python} on {environment.platform}"]
    facts += [f"{name} {version}" for name, version in sorted(environment.versions.items())]
    facts += [f"compiler {environment.compiler}", f"cuda {environment.cuda or 'none'}"]
    for device in environment.devices:
        known = {name: value for name, value in vars(device).items() if value}
        facts.append(", ".join(f"{name} {value}" for name, value in known.items()))
    if (inventory := environment.inventory) is not None:
        named = {name: inventory.distributions.get(name, "") for name in inventory.decisive}
        others = {name: named[name] for name in named if name not in environment.versions}
        for heading, group in (
            ("distributions that models and torch need", others),
            ("libraries", inventory.libraries),
            ("variables", inventory.variables),
            ("configuration", inventory.configuration),
            ("machine", inventory.machine),
        ):
            if group:
                facts += ["", f"{heading}:", *(f"  {name} {it}" for name, it in group.items())]
    if own := [*_at_start()]:
        facts += ["", "modules that change the interpreter, also that of scripts:", *own]
    return cleaned("\n".join(map(visible, facts)) + "\n")


def _at_start() -> Iterator[str]:
    for name in _AT_START:
        if (module := sys.modules.get(name)) is not None:
            yield f"  {name} {getattr(module, '__file__', None) or 'without a file'}"
