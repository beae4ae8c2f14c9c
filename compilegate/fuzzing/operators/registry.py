"""The registry of operators, and how one of them is chosen."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from compilegate.fuzzing.scope import Scope

#: Writes a statement or two, and returns whether it could.
Operator = Callable[[Scope], object]

#: By group: its share of all statements, and its operators with their weights.
GROUPS: dict[str, tuple[float, list[tuple[Operator, float]]]] = {
    "elementwise": (3.0, []),
    "reductions": (1.6, []),
    "layout": (2.6, []),
    "indexing": (1.8, []),
    "neural": (1.4, []),
    "mutation": (1.8, []),
    "control": (0.8, []),
}


def operator(group: str, weight: float = 1.0) -> Callable[[Operator], Operator]:
    """Register the decorated function in a group."""

    def enter(function: Operator) -> Operator:
        GROUPS[group][1].append((function, weight))
        return function

    return enter


def choose(rng: Random, calm: bool) -> Operator:
    """Return an operator.

    Args:
        rng: Decides which.
        calm: Whether to leave out what writes in place.
    """
    names = [name for name in GROUPS if not (calm and name == "mutation")]
    name = rng.choices(names, [GROUPS[name][0] for name in names])[0]
    found = GROUPS[name][1]
    return rng.choices([one for one, _ in found], [weight for _, weight in found])[0]
