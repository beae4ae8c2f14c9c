"""Checks what ``@model`` declares, and returns it as the registry keeps it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import product

from compilegate.records.case import AXES, CAST_WEIGHTS, DEVICES, LEFT_OUT, UnknownNameError
from compilegate.records.practice import PRACTICES, PracticeName

Sizes = Mapping[str, Sequence[int]]


def sizes(vary: Sizes | None) -> dict[str, tuple[int, ...]]:
    """Return the sizes of each dimension.

    Raises:
        ValueError: A dimension has none, or a size is 0 or 1, or comes twice.
    """
    for name, given in (vary or {}).items():
        if not given or min(given) < 2 or len(set(given)) < len(given):
            raise ValueError(
                f"sizes of {name!r} must be distinct and at least 2 "
                f"(torch.compile specialises on 0 and 1), not {tuple(given)}"
            )
    return {name: tuple(given) for name, given in (vary or {}).items()}


def practices(names: Sequence[str]) -> tuple[PracticeName, ...]:
    """Return the practices in their own order.

    Raises:
        UnknownNameError: There is no such practice.
    """
    known = _known("practice", names, PRACTICES)
    return tuple(practice for practice in PRACTICES if practice in known)


def devices(names: Sequence[str]) -> tuple[str, ...]:
    """Return the devices.

    Raises:
        UnknownNameError: There is no such device.
    """
    return _known("device", names, DEVICES)


def weights(formats: Sequence[str]) -> tuple[str, ...]:
    """Return the formats of weights in their own order.

    Raises:
        UnknownNameError: There is no such format.
    """
    known = _known("weights", formats, CAST_WEIGHTS)
    return tuple(name for name in CAST_WEIGHTS if name in known)


def settings(globs: Sequence[str]) -> tuple[str, ...]:
    """Return the globs on settings.

    Raises:
        ValueError: A glob matches no setting, so that it would leave all cases out.
    """
    globs = (globs,) if isinstance(globs, str) else tuple(globs)
    for glob in globs:
        if not _matches_a_setting(glob):
            known = [value for axis in _OF_A_SETTING for value in AXES[axis]]
            words = [word for word in glob.split("-") if not any(c in word for c in "*?[")]
            unknown = next((word for word in words if word not in known), "")
            hint = f": {UnknownNameError('part', unknown, known)}" if unknown else ""
            raise ValueError(f"settings {glob!r} matches no setting{hint}")
    return globs


_OF_A_SETTING = tuple(axis for axis in AXES if axis != "device")


@functools.cache
def _matches_a_setting(glob: str) -> bool:
    values = product(*(AXES[axis] for axis in _OF_A_SETTING))
    return any(fnmatchcase(_setting(*each), glob) for each in values)


def _setting(*values: str) -> str:
    named = zip(_OF_A_SETTING, values, strict=True)
    return "-".join(value for axis, value in named if LEFT_OUT.get(axis) != value)


def _known(what: str, names: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    names = (names,) if isinstance(names, str) else tuple(names)
    for name in names:
        if name not in known:
            raise UnknownNameError(what, name, known)
    return names
