"""What a case costs too much of: which budget it had, and whether a script can measure it."""

from __future__ import annotations

from compilegate.judging.budget import Budget
from compilegate.records.observation import Observation
from compilegate.records.performance import Memory
from compilegate.triage.search.suspect import Suspect

#: A ratio to eager that differs from that of the run by more than this has another cause.
_FAR = 4.0
_IN_TABLE = "no script: the numbers are right, and the table above has their cost"


def budget(suspect: Suspect) -> Budget | None:
    """Return the budget of the peak of a call, which it exceeds; None for another failure."""
    if suspect.verdict.aspect != "memory" or suspect.fails_as_a_whole:
        return None
    found = suspect.budget(suspect.case)
    return None if found.max_memory_ratio is None else found


def is_over(suspect: Suspect) -> bool:
    """Whether the peak of a call is over its budget, rather than what is left or another size."""
    memory, most = _allowed(suspect)
    return memory is not None and memory.compiled_peak_bytes > most


def is_below_eager(suspect: Suspect) -> bool:
    """Whether a budget allows less memory than eager needs, so that eager would fail, too."""
    memory, most = _allowed(suspect)
    return memory is not None and memory.eager_peak_bytes > most


def is_far(suspect: Suspect, observation: Observation) -> bool:
    """Whether the memory of a trial is so far from that of the run that it has another cause."""
    seen, known = observation.memory, suspect.observation.memory
    if seen is None or known is None or suspect.cost != "memory":
        return False
    low, high = sorted((seen.ratio, known.ratio))
    return high > _FAR * low


def why_no_script(suspect: Suspect) -> str:
    """Return why no script measures a cost; empty where one does, and for other failures."""
    if not suspect.cost:
        return ""
    if not is_over(suspect):
        return _IN_TABLE
    if is_below_eager(suspect):
        return "no script: the budget allows less memory than eager needs"
    if suspect.case.uses_cuda_graphs:
        return f"{_IN_TABLE}: CUDA graphs keep their memory between calls"
    return ""


def _allowed(suspect: Suspect) -> tuple[Memory | None, float]:
    """Return the memory that the run saw and the bytes that were allowed; None without them."""
    found = budget(suspect)
    if found is None or found.max_memory_ratio is None or suspect.observation.memory is None:
        return None, 0
    memory = suspect.observation.memory
    return memory, found.max_memory_ratio * memory.eager_peak_bytes + found.memory_slack_bytes
