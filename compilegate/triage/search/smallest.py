"""The smallest sizes, and float32, at which a failure still shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from compilegate.records.case import Case
from compilegate.triage.search.trials import Trials, part

#: The least size that is tried first: PyTorch compiles sizes below two for themselves.
_LEAST = 2
#: How many sizes between the last that passes and the first that fails are tried of each name.
_BETWEEN = 4


@dataclass
class Smallest:
    """What is left of a case while it fails.

    Attributes:
        sizes: The smaller sizes at which it fails, by name.
        of: The sizes of the case.
        passes: The smaller sizes at which it passes, by name.
        is_exact: Whether it fails in float32; None if that was not tried.
    """

    sizes: dict[str, int] = field(default_factory=dict)
    of: dict[str, int] = field(default_factory=dict)
    passes: dict[str, list[int]] = field(default_factory=dict)
    is_exact: bool | None = None

    def case_of(self, case: Case) -> Case:
        """Return a case in float32, if it fails there."""
        return in_float32(case) if self.is_exact else case

    def __bool__(self) -> bool:
        """Whether anything is smaller than in the case."""
        return bool(self.sizes or self.is_exact)


def in_float32(case: Case) -> Case:
    """Return a case that computes in float32."""
    return replace(case, precision="f32", weights="f32_weights")


def shrink(trials: Trials, smallest: Smallest, sizes: Mapping[str, int], backend: str) -> None:
    """Observe the case in float32, and at smaller sizes, one name after the other.

    Args:
        trials: Observes them.
        smallest: Receives what is found, also if the time is over before the end.
        sizes: The sizes of its first call, by name.
        backend: The compiler backend.

    Raises:
        OutOfTimeError: The time for the culprit is over.
    """
    smallest.of = dict(sizes)
    case = trials.suspect.case
    if case.computes_in_half:
        smallest.is_exact = trials.of_case(in_float32(case), backend).state == "bad"

    def fails(name: str, size: int) -> bool:
        tried = {**smallest.sizes, name: size}
        seen = trials.of_part(part(sizes=tried), backend)
        if seen.state == "bad":
            smallest.sizes = tried
        elif seen.state == "good":
            smallest.passes.setdefault(name, []).append(size)
        return seen.state == "bad"

    for name, size in sizes.items():
        any(fails(name, smaller) for smaller in _smaller(size))
    for name, size in sizes.items():  # then closer, in the time that is left
        _bisect(name, size, smallest, fails, may_be_one=case.dynamic == "static")


def _bisect(
    name: str,
    size: int,
    smallest: Smallest,
    fails: Callable[[str, int], bool],
    *,
    may_be_one: bool,
) -> None:
    """Try sizes between the largest that passes and the smallest that fails, or one."""
    failing, passing = smallest.sizes.get(name, size), max(smallest.passes.get(name, [0]))
    if failing == _LEAST and may_be_one:
        fails(name, 1)
    for _ in range(_BETWEEN):
        if not passing or failing - passing < 2:
            return
        middle = (passing + failing) // 2
        failing, passing = (middle, passing) if fails(name, middle) else (failing, middle)


def _smaller(size: int) -> Iterator[int]:
    """Yield smaller sizes, the smallest first."""
    yield from sorted({s for s in (_LEAST, size // 4, size // 2) if _LEAST <= s < size})


def paragraph(found: Smallest) -> Iterator[str]:
    """Yield the smallest sizes at which it fails, and whether it does in float32."""
    sizes = [
        f"`{name}={size}` (the case has {found.of[name]})" for name, size in found.sizes.items()
    ]
    passes = [f"`{name}={n}`" for name, some in found.passes.items() for n in sorted(some)]
    said = [f"It still fails at {', '.join(sizes)}."] if sizes else []
    said += [f"It passes at {', '.join(passes)}."] if passes else []
    if found.is_exact is not None:
        said.append(f"In float32 it {'fails, too' if found.is_exact else 'passes'}.")
    if said:
        yield f"**Smaller:** {' '.join(said)}"
        yield ""
