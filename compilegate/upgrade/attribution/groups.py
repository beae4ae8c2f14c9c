"""Groups of distributions that change together, from what they require of each other.

A distribution is tried in its new version together with whatever it then requires, and with
whatever else no longer fits: a new torch brings its Triton, its CUDA libraries, and the torchvision
that requires this very torch. Nothing here installs or runs anything.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from packaging.markers import UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from compilegate.upgrade.attribution.distributions import Distribution

#: The likeliest causes, in this order: each is tried apart from the others.
_LEADING = ("torch", "triton", "torchvision", "timm", "transformers", "diffusers", "numpy")
#: How the names of CUDA's libraries begin.
_CUDA = ("nvidia-", "cuda-")

Installed = Mapping[str, Distribution]


@dataclass(frozen=True)
class Group:
    """Distributions that change together.

    Attributes:
        head: The one that the others belong to; a phrase names it first.
        names: All of them.
        parts: Smaller groups, which can be tried apart once the whole shows the change. A group
            without parts is not divided.
        is_bundle: Whether its parts have nothing to do with each other, and only save trials.
    """

    head: str
    names: frozenset[str]
    parts: tuple[Group, ...] = ()
    is_bundle: bool = False


def rank(name: str) -> tuple[int, str]:
    """Return a key that sorts distributions by how likely they are the cause, then by name."""
    return (_LEADING.index(name) if name in _LEADING else len(_LEADING), name)


def groups_of(before: Installed, now: Installed, changed: Iterable[str]) -> list[Group]:
    """Return the groups to try, the likeliest cause first. Together they hold every change.

    Args:
        before: The distributions of the version in use.
        now: Those of the candidate.
        changed: The names of those that differ.
    """
    names = sorted(changed, key=rank)
    closures = {name: _closure(name, before, now, frozenset(names)) for name in names}
    groups: list[Group] = []
    others: list[Group] = []
    seen: set[frozenset[str]] = set()
    for name in names:
        if (closure := closures[name]) in seen:
            continue
        seen.add(closure)
        head = min(closure, key=rank)
        group = Group(head, closure, _parts(closure))
        (groups if head in _LEADING else others).append(group)
    led = frozenset[str]().union(*(group.names for group in groups))
    others = [group for group in others if not group.names <= led]
    if len(others) == 1:
        return [*groups, *others]
    if others:
        rest = frozenset[str]().union(*(group.names for group in others))
        groups.append(Group(others[0].head, rest, tuple(others), is_bundle=True))
    return groups


def _parts(names: frozenset[str]) -> tuple[Group, ...]:
    """Divide a group. Of torch's, only Triton and the CUDA libraries can change without it."""
    if len(names) == 1:
        return ()
    if "torch" not in names:
        return tuple(_single(name) for name in sorted(names, key=rank))
    triton = sorted(name for name in names if "triton" in name)
    cuda = sorted(name for name in names if name.startswith(_CUDA))
    bound = names.difference(triton, cuda)
    parts = [*map(_single, triton)]
    if cuda:
        singles = tuple(map(_single, cuda)) if len(cuda) > 1 else ()
        parts.append(Group(cuda[0], frozenset(cuda), singles))
    parts.append(Group("torch", bound))
    return tuple(parts) if len(parts) > 1 else ()


def _single(name: str) -> Group:
    return Group(name, frozenset({name}))


def _closure(
    name: str, before: Installed, now: Installed, changed: frozenset[str]
) -> frozenset[str]:
    """Return the smallest set of changes with this one whose requirements are met.

    A requirement that the candidate's versions do not meet either is left as it is.
    """
    taken = {name}
    while True:
        mixed = {
            **{other: found for other, found in before.items() if other not in taken},
            **{other: now[other] for other in taken if other in now},
        }
        more = {
            other
            for pair in _unmet(mixed)
            for other in _to_take(*pair, taken)
            if other in changed and other not in taken
        }
        more |= _orphans(before, mixed, now, taken) & changed
        if not more - taken:
            return frozenset(taken)
        taken |= more


def _to_take(needer: str, needed: str, taken: set[str]) -> tuple[str, ...]:
    """Return whose change might meet a requirement that taking others has broken."""
    if needer in taken:
        return (needed,)
    return (needer,) if needed in taken else ()


def _unmet(installed: Installed) -> list[tuple[str, str]]:
    """Return each distribution with one that it requires in a version that is not there."""
    return [
        (name, needed)
        for name, needed, requirement in _requirements(installed)
        if not _meets(installed.get(needed), requirement)
    ]


def _orphans(before: Installed, mixed: Installed, now: Installed, taken: set[str]) -> set[str]:
    """Return what the candidate lacks, and only what was taken required in the version in use."""
    needed_before = {needed for name, needed, _ in _requirements(before) if name in taken}
    needed_still = {needed for _, needed, _ in _requirements(mixed)}
    return {name for name in needed_before - needed_still if name in before and name not in now}


def _meets(found: Distribution | None, requirement: Requirement) -> bool:
    if found is None:
        return False
    try:
        version = Version(found.version)
    except InvalidVersion:  # a build of one's own: nothing shows that it does not fit
        return True
    return requirement.specifier.contains(version, prereleases=True)


def _requirements(installed: Installed) -> list[tuple[str, str, Requirement]]:
    """Return the requirements that apply, as distribution, required distribution, requirement.

    The extras of a distribution count where another one asks for them.
    """
    parsed = [
        (name, requirement)
        for name, distribution in installed.items()
        for requirement in _parsed(distribution.requires)
    ]
    extras: dict[str, set[str]] = {}
    for _, requirement in parsed:
        extras.setdefault(canonicalize_name(requirement.name), set()).update(requirement.extras)
    return [
        (name, canonicalize_name(requirement.name), requirement)
        for name, requirement in parsed
        if _applies(requirement, frozenset({"", *extras.get(name, ())}))
    ]


@functools.cache
def _applies(requirement: Requirement, extras: frozenset[str]) -> bool:
    marker = requirement.marker
    try:
        return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)
    except UndefinedEnvironmentName:
        return False


@functools.cache
def _parsed(texts: tuple[str, ...]) -> list[Requirement]:
    found = []
    for text in texts:
        try:
            found.append(Requirement(text))
        except InvalidRequirement:  # metadata of another age: it restricts nothing
            continue
    return found
