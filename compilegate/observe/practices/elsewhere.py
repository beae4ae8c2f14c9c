"""Calls that a program made in another process, as calls of a subject here, to compare them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.utils import _pytree

from compilegate.observe import nested
from compilegate.observe.model.calls import input_tensors
from compilegate.observe.model.equality import is_same
from compilegate.observe.model.subject import Subject
from compilegate.observe.practices.bench import Compared
from compilegate.zoo.example import Call


class ProgramError(RuntimeError):
    """A program raised in another process. The message begins with its error."""


class Watched:
    """Calls eager, and keeps the structure of what it returned.

    Args:
        run: What eager calls.

    Attributes:
        spec: The structure, as PyTorch flattens it.
        nesting: The structure as text.
    """

    def __init__(self, run: Callable[..., Any]) -> None:
        self._run = run
        self.spec: _pytree.TreeSpec | None = None
        self.nesting = ""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call eager."""
        output = self._run(*args, **kwargs)
        self.spec, self.nesting = _pytree.tree_structure(output), nested.structure(output)
        return output


class Elsewhere:
    """Returns what a program returned in another process, and changes what it changed there.

    Args:
        subject: The subject whose calls it stands for.
        watched: Eager, which makes each call first.

    Attributes:
        answer: The answer of ``loaded_programs`` to the next call.
    """

    def __init__(self, subject: Subject, watched: Watched) -> None:
        self._subject = subject
        self._watched = watched
        self.answer: Mapping[str, Any] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the output of the call.

        Raises:
            ProgramError: The program raised.
        """
        if "raised" in self.answer:
            raise ProgramError(f"{self.answer['raised']}\n{self.answer['traceback']}")
        _write(input_tensors(Call(args, kwargs)), self.answer["inputs"])
        _write(self._subject.buffers(), self.answer["buffers"])
        assert self._watched.spec is not None
        return _pytree.tree_unflatten(self.answer["leaves"], self._watched.spec)


def _write(ours: Mapping[str, torch.Tensor], theirs: Mapping[str, torch.Tensor]) -> None:
    """Give tensors the values of those of the same name, where they differ."""
    for name in ours.keys() & theirs.keys():
        if not is_same(ours[name], theirs[name]):
            ours[name].copy_(theirs[name])


def without_memory(made: Compared, *shown: str) -> Compared:
    """Leave out of a comparison what another process cannot show.

    Args:
        made: The comparison.
        *shown: How the names of the state begin that the program shows. Weights and attributes
            belong to the model, and programs have none.
    """
    outputs, gradients, changed = made
    alike = (one for one in outputs.differences if one.what not in ("aliasing", "identity"))
    return (
        replace(outputs, differences=tuple(alike)),
        gradients,
        replace(
            changed,
            tensors=changed.tensors if shown else 0,
            differences=tuple(one for one in changed.differences if one.where.startswith(shown)),
            errors=tuple(one for one in changed.errors if one.name.startswith(shown)),
            decisions=tuple(one for one in changed.decisions if one.where.startswith(shown)),
        ),
    )
