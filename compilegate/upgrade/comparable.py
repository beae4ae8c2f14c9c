"""Checks whether two runs, and two observations of a case, can be compared."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from compilegate.records.environment_changes import hardware_changes, is_unknown
from compilegate.records.run import Header
from compilegate.runs import files, reproduction
from compilegate.runs.archive import Archive
from compilegate.runs.slim import SlimObservation


def incomparable(before: SlimObservation, now: SlimObservation) -> str:
    """Return why two observations of a case cannot be compared; empty if they can."""
    reasons = []
    if before.backend != now.backend:
        reasons.append(f"backend {before.backend} → {now.backend}")
    if before.seed != now.seed:
        reasons.append(f"seed {before.seed} → {now.seed}")
    if before.tf32 != now.tf32:
        reasons.append(f"TF32 {_on(before.tf32)} → {_on(now.tf32)}")
    if before.fingerprint and now.fingerprint and before.fingerprint != now.fingerprint:
        parameters = f"{before.parameters:,} → {now.parameters:,} parameters"
        reasons.append(f"the model changed: {parameters}, or their shapes differ")
    if calls_differ(before, now):
        reasons.append("its calls have different sizes")
    return "; ".join(reasons)


def _on(switch: bool) -> str:
    return "on" if switch else "off"


def calls_differ(before: SlimObservation, now: SlimObservation) -> bool:
    """Whether the calls of both runs have different sizes: the recipe changed."""
    pairs = zip(before.calls, now.calls, strict=False)
    return any(then.sizes != call.sizes for then, call in pairs)


def machines_differ(baseline: Header, candidate: Header, kind: str) -> str:
    """Return how the hardware of two runs differs for a device; empty if it does not.

    The host counts for a GPU, too: it launches the kernels, and it compiles.
    """
    sides = baseline.environment, candidate.environment
    ours, theirs = (environment.device(kind) for environment in sides)
    if ours is None or theirs is None:
        return "" if ours is theirs else f"no {kind} in one of the runs"
    found = hardware_changes(ours, theirs)
    hosts = [environment.device("cpu") for environment in sides]
    if kind != "cpu" and hosts[0] and hosts[1]:
        found += [f"host {text}" for text in hardware_changes(hosts[0], hosts[1])]
    return ", ".join(found)


def incomplete(
    name: str, run: Archive | files.Run, candidate: Archive | None = None
) -> Iterator[str]:
    """Yield a caution if a run lacks planned cases, with the way to complete it.

    Args:
        name: What the run is called.
        run: The run.
        candidate: What it is compared with, if it is the baseline.
    """
    cut = ", and its last line was cut short" if run.truncated else ""
    is_packed = run.path.suffix == ".gz"
    path = run.path.with_suffix("") if is_packed else run.path
    paired = files.candidate_of(path)
    if paired.exists():
        path = paired  # a session continues both
    again = reproduction.resuming_words(run.header.arguments, reproduction.as_seen(str(path)))
    way = f"to continue it, run: {shlex.join(again)}"
    if is_packed:
        way = f"to continue it, unpack it with gunzip {shlex.quote(str(run.path))}, then run: "
        way += shlex.join(again)
    if candidate is not None and candidate.missing and candidate.path == paired:
        way = "what continues the candidate continues it, too"
    if run.missing:
        yield (
            f"the {name} {run.path} is incomplete: {len(run.missing)} of "
            f"{len(run.header.planned)} cases were not observed{cut}; {way}"
        )


def revisions(baseline: Header, candidate: Header) -> Iterator[str]:
    """Yield a caution if different revisions of compilegate judged the runs."""
    ours, theirs = baseline.revision or "unknown", candidate.revision or "unknown"
    if ours != theirs:
        yield (
            f"the runs were judged by two revisions of compilegate ({ours}, {theirs}): "
            "--replay judges a run again"
        )


def unrecorded(baseline: Header, candidate: Header) -> Iterator[str]:
    """Yield a caution if runs of one torch may differ in what one of them does not record."""
    sides = {"baseline": baseline.environment, "candidate": candidate.environment}
    if is_unknown(*sides.values()) and is_one_torch(baseline, candidate):
        lacking = [f"the {name}" for name, side in sides.items() if side.inventory is None]
        who = lacking[0] if len(lacking) == 1 else "each of the runs"
        yield f"{who} records versions only: libraries and settings may differ"


def is_one_torch(baseline: Header, candidate: Header) -> bool:
    """Return whether both runs had the same build of torch."""
    ours, theirs = (side.environment.versions.get("torch") for side in (baseline, candidate))
    return ours is not None and ours == theirs
