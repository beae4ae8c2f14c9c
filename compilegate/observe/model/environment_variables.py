"""Environment variables that the functions of a model name: they exist once in the process."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from types import CodeType
from typing import Any

#: How the names begin of variables that PyTorch or its libraries set while they compile.
_OF_LIBRARIES = ("TORCH", "TRITON", "CUDA", "OMP", "KMP", "MKL", "NCCL")


@dataclass(frozen=True, eq=False)
class Environment:
    """The environment variables of some names."""

    names: frozenset[str]

    def values(self) -> dict[str, Any]:
        """Return those that are set, by name."""
        return {name: os.environ[name] for name in sorted(self.names) if name in os.environ}

    def path(self, name: str) -> str:
        """Return how a variable is called in a report."""
        return f"environment variable {name}"

    def put_back(self, values: dict[str, Any]) -> None:
        """Set the variables again, and delete the others."""
        for name in self.names:
            if name not in values:
                os.environ.pop(name, None)
            elif os.environ.get(name) != values[name]:
                os.environ[name] = values[name]


def named_in(code: CodeType, variables: Iterable[Any]) -> frozenset[str]:
    """Return what may be the names of environment variables that a function uses.

    Args:
        code: The function's.
        variables: The values of the global variables that it uses.
    """
    if "environ" not in _names_in(code):
        return frozenset()
    texts = [*_constants_of(code), *(value for value in variables if isinstance(value, str))]
    return frozenset(
        text for text in texts if text.isidentifier() and not text.startswith(_OF_LIBRARIES)
    )


def _names_in(code: CodeType) -> frozenset[str]:
    return frozenset(code.co_names).union(*map(_names_in, _functions_in(code)))


def _constants_of(code: CodeType) -> list[str]:
    own = [constant for constant in code.co_consts if isinstance(constant, str)]
    return own + [text for inner in _functions_in(code) for text in _constants_of(inner)]


def _functions_in(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]
