"""What changed in the patterns of a catalogue that break graphs or compile again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compilegate.records.hazard import Hazard
from compilegate.runs.slim import SlimObservation
from compilegate.upgrade.verdict_changes import Change

#: A property of a hazard, how bad it is, and in words.
_Trait = tuple[str, int, str]


def of_hazards(then: SlimObservation, now: SlimObservation) -> Iterator[Change]:
    """Find patterns that one PyTorch captures, or compiles once, and the other does not.

    How many breaks a pattern has is left to its verdict: after a break, a version that resumes may
    meet a second one, where another leaves the rest to eager.
    """
    known = {found.name: _traits(found) for found in _hazards(then)}
    worse, better = [], []
    for found in _hazards(now):
        pairs = zip(known.get(found.name, ()), _traits(found), strict=False)
        for (trait, earlier, before), (_, later, after) in pairs:
            text = f"{found.name}, {trait}: {before} → {after}"
            if later > earlier:
                worse.append(text)
            elif later < earlier:
                better.append(text)
    if worse:
        yield Change("hazards", "worse", worse[0], tuple(worse[1:]))
    if better:
        yield Change("hazards", "better", better[0], tuple(better[1:]))


def _hazards(observation: SlimObservation) -> Sequence[Hazard]:
    practice = observation.practices.get("hazards")
    return practice.hazards if practice is not None else ()


def _traits(hazard: Hazard) -> tuple[_Trait, ...]:
    written, whole, rewritten = hazard.as_written, hazard.whole, hazard.rewritten
    refused = bool(whole.refused or whole.breaks)
    return (
        ("graph breaks", bool(written.breaks), ", ".join(written.breaks) or "none"),
        ("with fullgraph=True", refused, "refused" if refused else "captured"),
        ("recompilations", written.recompiles, str(written.recompiles)),
        ("rewritten", bool(rewritten.refused), "refused" if rewritten.refused else "captured"),
        ("rewritten, recompilations", rewritten.recompiles, str(rewritten.recompiles)),
    )
