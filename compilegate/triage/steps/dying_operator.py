"""Tries the operator alone that the stack of a hang or a crash names."""

from __future__ import annotations

from collections.abc import Callable

from compilegate.culprits import stacks
from compilegate.triage.findings import Findings
from compilegate.triage.scripts import programs
from compilegate.triage.search.trials import Trials, part


def find(trials: Trials, findings: Findings, say: Callable[[str], None]) -> None:
    """Find the operator that a function of the compiler handles where the case dies or hangs.

    Args:
        trials: Observes it.
        findings: The stage. They receive the operator, if it fails alone.
        say: Is given a line for each thing that is found.

    Raises:
        OutOfTimeError: The time for the culprit is over.
    """
    suspect, stage = trials.suspect, findings.stage
    failure, status = suspect.observation.failure, suspect.observation.status
    if failure is None or status not in ("timed_out", "crashed") or not stage.backend:
        return
    if place := stacks.in_compiler(failure):
        say(f"  its stack: {place}")
    functions = stacks.functions(failure)
    if not place or not functions or stage.left_out or findings.guilty or findings.is_recognised:
        return
    graph, _ = trials.told(part(), "graph")
    try:
        whole = programs.program_of(graph or {"why": "none"}, suspect.case, stage.shown_by)
    except programs.UnprintableError:  # a submodule may have a graph
        return
    found = [p for p in programs.of_one_operator(whole) if programs.handled_by(p, functions)]
    for one, symptom in zip(found, trials.symptoms(found), strict=True):
        if symptom is not None:
            findings.alone = one, symptom
            findings.place.name_operator(one.statements[0])
            say(f"  operator: {one.statements[0].text}")
            return
