"""Judges the steps of a practice: the part that all suites of practices share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from compilegate.judging.finding import Finding, indented, shorten
from compilegate.judging.judge import is_crowded, share
from compilegate.judging.tensors import BLIND_SHARE, Numerics, examine_groups
from compilegate.judging.tracebacks import without_torch
from compilegate.records.observation import Observation
from compilegate.records.practice import Practice, PracticeName, Step
from compilegate.records.wording import counted


def judge_steps(observation: Observation, name: PracticeName) -> Finding:
    """Judge every step of a practice: its errors, its numbers, and its compilations.

    Args:
        observation: What was measured.
        name: The practice.
    """
    practice = observation.practices.get(name)
    if practice is None:
        return Finding("skipped", "the first call raises, as in eager: no practice to observe")
    if practice.unavailable:
        return Finding("skipped", f"unavailable: {practice.unavailable}")
    raised = [*_raised(practice)]
    numerics = examine_groups(
        observation,
        [
            (step.name, checked)
            for step in practice.steps
            for checked in (step.outputs, step.gradients, step.state)
        ],
    )
    lines = [*raised, *numerics.complaints, *_recompiled(practice)]
    # Memory that ran out in a process of its own proves nothing where others held it.
    if (
        raised
        and len(lines) == len(raised)
        and all(is_crowded(step.held_by_others) for step in _failed(practice))
    ):
        return Finding("inconclusive", lines[0], (*shorten(lines), *_traceback(practice)))
    lines = [*_folded(lines)]
    if not practice.graphs and not raised and not all(s.unavailable for s in practice.steps):
        lines.append("nothing was compiled in any step")  # what a step lacks says why
    if lines:
        return Finding.failure(lines, more=_traceback(practice))
    return _of_sound(practice, numerics)


def _of_sound(practice: Practice, numerics: Numerics) -> Finding:
    """Judge steps in which nothing is wrong: whether they show anything."""
    taken = [step for step in practice.steps if not step.unavailable]
    left_out = [step for step in practice.steps if step.unavailable]
    if not numerics.tensors:
        reason = f": {left_out[0].unavailable}" if left_out else ""
        return Finding("failed", f"no step could be checked{reason}")
    if numerics.blind_times > BLIND_SHARE * numerics.floating:
        share = f"{numerics.blind_times} of {numerics.floating} tensors are blind"
        return Finding("inconclusive", f"{share}: they prove nothing", numerics.blind_lines)
    if numerics.finding is not None:
        return numerics.finding
    compared = f"{counted(numerics.tensors, 'value')} compared"
    text = f"{counted(len(taken), 'step')}, {compared}{numerics.notes}"
    if left_out:
        reasons: dict[str, list[str]] = {}
        for step in left_out:
            reasons.setdefault(step.unavailable, []).append(step.name)
        parts = [f"{', '.join(names)} ({why})" for why, names in reasons.items()]
        text += f"; not taken: {', '.join(parts)}"
    return Finding("passed", text)


def _failed(practice: Practice) -> Iterator[Step]:
    return (step for step in practice.steps if step.raised)


def _folded(lines: Iterable[str]) -> Iterator[str]:
    """Yield each line once, with how often it occurs: threads that fail alike say the same."""
    for line, times in Counter(lines).items():
        yield f"{line} ({times} times)" if times > 1 else line


def _raised(practice: Practice) -> Iterator[str]:
    for step in _failed(practice):
        held = step.held_by_others
        why = f"; other processes held {share(held)} of the memory" if is_crowded(held) else ""
        yield f"{step.name}: raised {step.raised}{why}"


def _traceback(practice: Practice) -> Iterator[str]:
    """Yield the traceback of the first error, which may have those of other processes, too."""
    first = next(_failed(practice), None)
    if first is not None:
        yield from indented(without_torch(first.traceback))


def _recompiled(practice: Practice) -> Iterator[str]:
    for step in practice.steps:
        if excess := excess_compilations(step):
            line = (
                f"{step.name}: {step.compilations} compilations, {step.needed} needed"
                if step.needed
                else f"{step.name}: {counted(excess, 'more compilation')}, where none is needed"
            )
            yield ": ".join((line, *step.reasons[:1]))


def excess_compilations(step: Step) -> int:
    """Return how many more compilations a step caused than it needs."""
    if step.compilations is None or step.needed is None:
        return 0
    return max(step.compilations - step.needed, 0)
