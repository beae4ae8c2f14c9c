"""The calls of a model under a stance of ``torch.compiler.set_stance``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from compilegate.observe.model.calls import evaluate, invoke
from compilegate.zoo.example import Call, Example

#: The stance of each call, from the first on; the last one stays.
_STANCES = {"eager_on_recompile": ("default", "eager_on_recompile")}


def calls_under(
    stance: str, example: Example, sizes: Mapping[str, tuple[int, ...]], repeats: int
) -> list[Call]:
    """Return the calls of an example. Actions before them take a stance.

    A model that lists no calls is called at its first sizes, repeatedly, at all others, and at the
    first again.
    """
    calls = list(example.calls)
    if not calls:
        first = {name: each[0] for name, each in sizes.items()}
        others = [{**first, name: size} for name, each in sizes.items() for size in each[1:]]
        given = (*[first] * repeats, *others, *[first] * bool(others))
        calls = [Call(evaluate(example.inputs, n), evaluate(example.kwargs, n)) for n in given]
    stances = _STANCES.get(stance, (stance,))
    return [
        replace(call, before=_taking(stances[min(n, len(stances) - 1)], call.before))
        for n, call in enumerate(calls)
    ]


def _taking(stance: Any, before: Callable[..., Any] | None) -> Callable[[Any], None]:
    def take(module: Any) -> None:
        torch.compiler.set_stance(stance)
        if before is not None:
            invoke(before, module)

    return take
