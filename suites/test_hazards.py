"""Patterns that break graphs or compile again do so as known, and their rewrites do not.

A hazard that the observed PyTorch captures is an improvement, and passes. What a catalogue expects
was measured in versions from 2.14 to 2.15. Ids are judged there; a later version may give a break
another id, but not cause more of them. Before, only answers and unreported breaks are judged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import replace
from itertools import zip_longest

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding, shorten
from compilegate.judging.judge import Judge
from compilegate.judging.practices import judge_steps
from compilegate.records.hazard import Hazard, Written
from compilegate.records.observation import Observation
from compilegate.records.wording import counted

#: The oldest and the newest version in which the expectations of the catalogue were measured.
MEASURED = (2, 14), (2, 15)


def rule(observation: Observation, budget: Budget) -> Finding:
    """Answers are eager's, breaks and recompilations no more than known, and rewrites capture."""
    steps = judge_steps(observation, "hazards")
    if steps.outcome == "skipped":
        return steps
    hazards = observation.practices["hazards"].hazards
    lines = [f"{each.name}: {text}" for each in hazards for text in _complaints(each)]
    notes = [f"{each.name} {text}" for each in hazards for text in _improvements(each)]
    if steps.outcome == "failed":  # a wrong answer matters most
        details = (*steps.details, *shorten(lines))
        return replace(steps, details=details, complaints=(*steps.complaints, *lines))
    if lines:
        return Finding.failure(lines)
    if steps.outcome != "passed":
        return steps
    better = f"; improvements: {', '.join(notes)}" if notes else ""
    return Finding("passed", f"{counted(len(hazards), 'hazard')}, {steps.summary}{better}")


def _version(hazard: Hazard) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", hazard.torch)[:2]))


def _complaints(hazard: Hazard) -> Iterator[str]:
    """Yield what is worse than known, as far as the version of PyTorch can be judged."""
    written, whole, rewritten = hazard.as_written, hazard.whole, hazard.rewritten
    oldest, newest = MEASURED
    if whole.breaks and not whole.refused:
        yield f"fullgraph=True raises no error at the graph break {', '.join(whole.breaks)}"
    if _version(hazard) < oldest:
        return
    if rewritten.refused:
        yield f"fullgraph=True refuses the rewrite: {rewritten.refused}"
    if rewritten.recompiles > hazard.rewritten_recompiles:
        yield f"the rewrite compiles again {counted(rewritten.recompiles, 'time')}"
    if whole.refused and hazard.captured_whole:
        yield f"fullgraph=True refuses it, but captured it in PyTorch 2.14: {whole.refused}"
    new = Counter(written.breaks) - Counter(hazard.breaks)
    more = len(written.breaks) > len(hazard.breaks)
    if new and (more or _version(hazard) <= newest):
        yield f"breaks the graph with {', '.join(_with_places(written, new))}, {_known(hazard)}"
    if written.recompiles > hazard.recompiles:
        yield f"compiles again {counted(written.recompiles, 'time')}, {hazard.recompiles} known"


def _with_places(written: Written, ids: Container[str]) -> Iterator[str]:
    """Yield the breaks of these ids, each with its place where that is known."""
    for identity, place in zip_longest(written.breaks, written.places, fillvalue=""):
        if identity in ids:
            yield f"{identity} at {place}" if place else identity


def _known(hazard: Hazard) -> str:
    if not hazard.breaks:
        return "none is known"
    verb = "is" if len(hazard.breaks) == 1 else "are"
    return f"known {verb} {', '.join(hazard.breaks)}"


def _improvements(hazard: Hazard) -> Iterator[str]:
    """Yield what is better than known."""
    if hazard.breaks and not hazard.as_written.breaks:
        yield f"breaks no graph (known: {', '.join(hazard.breaks)})"
    if not (hazard.captured_whole or hazard.whole.refused or hazard.whole.breaks):
        yield "is captured by fullgraph=True"
    if hazard.as_written.recompiles < hazard.recompiles:
        times = counted(hazard.as_written.recompiles, "time")
        yield f"compiles again {times} (known: {hazard.recompiles})"


@pytest.mark.aspect("hazards")
def test_hazards_are_known_and_their_rewrites_are_captured(judge: Judge) -> None:
    judge(rule)
