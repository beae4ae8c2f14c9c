"""The installed distributions, and which of them a case depends on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.parser import HeaderParser
from importlib import metadata

#: They download, install, print or lock files. Neither they nor what only they need can change what
#: a case computes or costs.
_TOOLS = frozenset(
    {
        *("filelock", "fsspec", "huggingface-hub", "pip", "requests", "setuptools", "tqdm"),
        *("typer", "typing-extensions", "wheel", "pytest", "compilegate"),
    }
)
#: Distributions that matter to cases, whether or not they require torch.
_ROOTS = ("torch", "triton", "numpy", "torchvision", "timm", "transformers", "diffusers")
#: ``huggingface_hub``, ``cuda-toolkit[cublas,cudart]``: the name and the extras of a requirement.
_REQUIREMENT = re.compile(r"\s*([\w.-]+)\s*(?:\[([^]]*)\])?")
#: ``extra == "cublas"``, in the marker of a requirement.
_EXTRA = re.compile(r"""extra\s*==\s*["']([\w.-]+)["']""")


@dataclass(frozen=True)
class Distribution:
    """An installed distribution: its version, and its requirements as its metadata writes them."""

    version: str
    requires: tuple[str, ...] = ()


def installed() -> dict[str, Distribution]:
    """Return the distributions that this interpreter imports from, by normalised name.

    Where there are two of one name, Python imports the first, and so it counts.
    """
    found: dict[str, Distribution] = {}
    for distribution in metadata.distributions():
        text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
        head = HeaderParser().parsestr(text.partition("\n\n")[0])  # a description may be long
        if (name := head["Name"]) and (version := head["Version"]):
            requires = tuple(head.get_all("Requires-Dist", ()))
            found.setdefault(normalised(name), Distribution(version, requires))
    return found


def normalised(name: str) -> str:
    """Return the one spelling of a name.

    https://packaging.python.org/specifications/name-normalization/
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def needed_by(roots: Iterable[str], found: Mapping[str, Distribution]) -> set[str]:
    """Return the installed ones of these distributions, and all that they require.

    Tools are left out, and so is what only they need.
    """
    needed: set[str] = set()
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(name, frozenset[str]()) for name in roots]
    while waiting:
        name, extras = waiting.pop()
        if name not in found or name in _TOOLS or (name, extras) in seen:
            continue
        seen.add((name, extras))
        needed.add(name)
        waiting += _required(found[name].requires, extras)
    return needed


def decisive(found: Mapping[str, Distribution]) -> set[str]:
    """Return those that can change what a case computes or costs.

    These are torch, Triton, NumPy, the model libraries, everything else that requires torch, and
    all that these require.
    """
    require_torch = [
        name
        for name, distribution in found.items()
        if any(needed == "torch" for needed, _ in _required(distribution.requires, frozenset()))
    ]
    return needed_by([*_ROOTS, *require_torch], found)


def _required(
    requirements: Iterable[str], extras: frozenset[str]
) -> list[tuple[str, frozenset[str]]]:
    """Return the names and extras of requirements. Of markers, only extras are looked at."""
    named = []
    for requirement in requirements:
        body, _, marker = requirement.partition(";")
        only_for = {normalised(extra) for extra in _EXTRA.findall(marker)}
        if (match := _REQUIREMENT.match(body)) and (not only_for or only_for & extras):
            wanted = filter(None, (part.strip() for part in (match[2] or "").split(",")))
            named.append((normalised(match[1]), frozenset(map(normalised, wanted))))
    return named
