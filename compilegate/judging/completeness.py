"""Whether a case was judged at all. What was not judged never reads as good."""

from __future__ import annotations

from collections.abc import Iterable

from compilegate.records.observation import Observation, Stage
from compilegate.records.practice import PRACTICES
from compilegate.records.verdict import Verdict

#: The stages before anything is compiled.
BEFORE_COMPILING: tuple[Stage, ...] = ("start", "build", "eager")
#: The message of a library that a model needs and that cannot be imported.
_NOT_IMPORTED = " cannot be imported"


def missing_library(observation: Observation | None) -> str:
    """Return the library for want of which a case was not built; empty for every other case.

    A case that this processor or GPU cannot run lacks no library: nobody can install what it needs.
    """
    failure = observation.failure if observation is not None else None
    if observation is None or failure is None or observation.status != "unavailable":
        return ""
    library, found, _ = failure.message.partition(_NOT_IMPORTED)
    return library if found and failure.stage == "build" else ""


def was_observed(observation: Observation, aspect: str) -> bool:
    """Whether all that an aspect needs was observed, though the case may have failed later.

    Practices come last. One that ends the case spoils nothing that was observed before it.
    """
    if not ended_in_practice(observation):
        return observation.failure is None
    return aspect in observation.practices or aspect not in PRACTICES


def ended_in_practice(observation: Observation) -> bool:
    """Whether a practice ended a case, of which all else had been observed."""
    failure = observation.failure
    return failure is not None and failure.stage in PRACTICES and observation.capture is not None


def is_open(observation: Observation | None, verdicts: Iterable[Verdict]) -> bool:
    """Whether the result of a planned case is unknown, so that its run is no success.

    The case was not observed, has no verdict, or needs a library that the environment lacks.

    Args:
        observation: What was measured; None where the case was not observed.
        verdicts: The verdicts on it.
    """
    return observation is None or bool(missing_library(observation)) or not list(verdicts)


def is_judged(verdicts: Iterable[Verdict]) -> bool:
    """Whether any verdict was reached; a skipped test reaches none."""
    return any(verdict.outcome != "skipped" for verdict in verdicts)


def nothing_compiled(observation: Observation) -> bool:
    """Whether a case that ended ran eagerly throughout.

    Where every call must raise, there may be no graph, but Dynamo must have looked at the code.
    """
    capture = observation.capture
    if observation.raises and capture is not None:
        return not (capture.compilations or capture.breaks)
    if capture is None or capture.graphs == 0:
        return True
    return observation.backend == "inductor" and not capture.lowered
