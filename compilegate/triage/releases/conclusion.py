"""What a bisection over releases found: where the change is, and what may have made it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from compilegate.processes.child_process import ObserverError
from compilegate.records.case import Case
from compilegate.triage.releases.bisection import Bisected
from compilegate.triage.releases.environments import ReleaseEnvironments
from compilegate.triage.search.seen import Seen, State
from compilegate.upgrade.attribution import distributions
from compilegate.upgrade.attribution.environments import Environments


def conclusion(found: Bisected, names: Sequence[str]) -> Iterator[str]:
    """Yield the last release before the change, the first after it, and which were left out."""
    left_out = {index for index, seen in found.seen.items() if seen.state == "unobservable"}
    if found.turn is None:
        states = sorted({seen.state for seen in found.seen.values()} - {"unobservable"})
        yield f"every observed release is {states[0]}" if states else "no release can be observed"
        yield from _unknown(left_out, names)
        return
    before, after = (names[index] for index in found.turn)
    if found.seen[found.turn[1]].state == "bad":
        yield f"last good: torch {before}; first bad: torch {after}"
    else:
        yield f"last bad: torch {before}; first good: torch {after}"
    if found.between:
        skipped = ", ".join(names[index] for index in found.between)
        yield f"not observable between them: {skipped}"
    yield from _unknown(left_out - {*found.between}, names)


def _unknown(left_out: Iterable[int], names: Sequence[str]) -> Iterator[str]:
    """Yield which releases are neither good nor bad, and what may help."""
    if unknown := [f"torch {names[index]}" for index in sorted(left_out)]:
        yield (
            f"neither good nor bad: {', '.join(unknown)}; where the environment lacks something, "
            "--with DIST installs it, and --python PATH names one that has it"
        )


def causes(
    case: Case,
    environments: ReleaseEnvironments,
    names: Sequence[str],
    found: Bisected,
    look: Callable[[str], Seen],
) -> Iterator[str]:
    """Yield what may have made the change, if there is one."""
    if found.turn is not None:
        before, now = (environments.python(names[index]) for index in found.turn)
        after = found.seen[found.turn[1]].state
        yield attributed(case, environments.folder, (before, now), look, after)
        yield from changed_libraries(environments.libraries, before, now)


def attributed(
    case: Case,
    folder: Path,
    pythons: tuple[str, str],
    look: Callable[[str], Seen],
    after: State,
) -> str:
    """Return whether triton alone makes the change, or torch with what else it installs.

    Args:
        case: The case.
        folder: Where environments are kept.
        pythons: The interpreters before and after the change.
        look: Observes the case under an interpreter.
        after: What the later one shows.
    """
    if case.device == "cpu":
        return "on a CPU, triton compiles nothing: torch, or what it installs, did it"
    before, now = pythons
    ours, theirs = distributions.installed(before), distributions.installed(now)
    changes = distributions.changes(ours, theirs)
    if "triton" not in changes:
        return "triton did not change: torch, or what it installs, did it"
    environments = Environments(folder, ours, theirs, changes)
    why = environments.obstacle("triton")
    try:
        seen = (
            Seen("unobservable", why)
            if why
            else look(environments.python_with(frozenset({"triton"})))
        )
    except ObserverError as error:
        seen = Seen("unobservable", str(error))
    change = str(changes["triton"])
    if seen.state == after:
        return f"{change} alone is {seen.state}, as the later release: triton did it"
    if seen.state == "unobservable":
        return f"{change} alone cannot be tried: {seen.text}"
    return f"{change} alone is {seen.state}, as the earlier release: torch did it"


def changed_libraries(libraries: Iterable[str], before: str, now: str) -> Iterator[str]:
    """Yield a line on libraries of the model that two environments have in two versions."""
    names = {canonicalize_name(Requirement(library).name) for library in libraries}
    changes = distributions.changes(*map(distributions.installed, (before, now)))
    if found := [str(change) for name, change in sorted(changes.items()) if name in names]:
        yield f"what the model needs changed, too, and may have done it: {', '.join(found)}"
