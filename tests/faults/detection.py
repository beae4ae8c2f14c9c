"""Decide from a run whether compilegate detected the fault that was planted in it."""

from __future__ import annotations

import re
from pathlib import Path

from compilegate.runs import files
from tests.faults.catalogue import Fault


def missed(fault: Fault, victim: str, run: files.Run, planted: Path) -> str:
    """Return why a fault counts as not detected, as a sentence, or an empty string.

    compilegate detects a fault if the fault took effect, its aspect failed with the expected text,
    and no other aspect failed.

    Args:
        fault: The fault.
        victim: The name of the victim that it was planted in.
        run: The run over that victim.
        planted: The folder in which each fault that took effect leaves a mark.
    """
    case = fault.case(victim)
    observation = run.observations.get(case)
    if observation is None:
        return f"{case} was not observed"
    mark = f"{fault.name}.{'everything' if fault.shipped else victim}"
    if not (planted / mark).exists():
        return f"{case}: the fault did not take effect{_trouble(observation)}"
    verdicts = {aspect: v for (of, aspect), v in run.verdicts.items() if of == case}
    failed = {aspect: v for aspect, v in verdicts.items() if v.outcome == "failed"}
    if fault.aspect not in failed:
        seen = {aspect: v.outcome for aspect, v in verdicts.items()}
        summary = verdicts[fault.aspect].summary if fault.aspect in verdicts else "not judged"
        return f"{case}: {fault.aspect} did not fail ({summary}); seen {seen}"
    text = "\n".join([failed[fault.aspect].summary, *failed[fault.aspect].details])
    if not re.search(fault.says, text):
        return f"{case}: {fault.aspect} failed, but its text does not match {fault.says!r}:\n{text}"
    if others := failed.keys() - {fault.aspect, *fault.also}:
        (other, *_) = sorted(others)
        return f"{case}: {sorted(others)} also failed: {failed[other].summary}"
    return ""


def unsound(fault: Fault, victim: str, run: files.Run) -> str:
    """Return the verdicts on the sound twin that did not pass, one a line, or an empty string."""
    case = fault.twin(victim)
    if case not in run.observations:
        return f"{case} was not observed"
    verdicts = {aspect: v for (of, aspect), v in run.verdicts.items() if of == case}
    if fault.aspect not in verdicts:
        return f"{case}: {fault.aspect} was not judged"
    wrong = [v for v in verdicts.values() if v.outcome != "passed"]
    return "\n".join(f"{case}: {v.aspect} {v.outcome}: {v.summary}" for v in wrong)


def _trouble(observation: files.Observation) -> str:
    return f": {observation.failure.message}" if observation.failure else ""
