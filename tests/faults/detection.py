"""Whether a fault was detected, read from the run in which it was planted."""

from __future__ import annotations

import re
from pathlib import Path

from compilegate.runs import files
from tests.faults.catalogue import Fault


def missed(fault: Fault, victim: str, run: files.Run, planted: Path) -> str:
    """Why a fault in a victim counts as not detected, as a sentence; empty where it was.

    Detected is what took hold, failed its aspect for the reason it should, and nothing else.

    Args:
        fault: The fault.
        victim: What it was planted in.
        run: The run in which it was.
        planted: The folder of marks left by faults that took hold.
    """
    case = fault.case(victim)
    observation = run.observations.get(case)
    if observation is None:
        return f"{case} was not observed"
    mark = f"{fault.name}.{'everything' if fault.shipped else victim}"
    if not (planted / mark).exists():
        return f"{case}: the fault did not take hold{_trouble(observation)}"
    verdicts = {aspect: v for (of, aspect), v in run.verdicts.items() if of == case}
    failed = {aspect: v for aspect, v in verdicts.items() if v.outcome == "failed"}
    if fault.aspect not in failed:
        seen = {aspect: v.outcome for aspect, v in verdicts.items()}
        summary = verdicts[fault.aspect].summary if fault.aspect in verdicts else "not judged"
        return f"{case}: {fault.aspect} did not fail ({summary}); seen {seen}"
    text = "\n".join([failed[fault.aspect].summary, *failed[fault.aspect].details])
    if not re.search(fault.says, text):
        return f"{case}: {fault.aspect} failed, but does not say {fault.says!r}:\n{text}"
    if others := failed.keys() - {fault.aspect, *fault.also}:
        (other, *_) = sorted(others)
        return f"{case}: {sorted(others)} failed, too: {failed[other].summary}"
    return ""


def unsound(fault: Fault, victim: str, run: files.Run) -> str:
    """What failed of the victim without the fault, or was left undecided; empty if nothing."""
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
