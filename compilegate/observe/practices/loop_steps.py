"""The steps of a practice that trains in a loop: its first steps, which compile, and the rest."""

from __future__ import annotations

from collections.abc import Callable

from compilegate.observe.practices.bench import Bench, StepFacts
from compilegate.observe.practices.eager_loops import EagerLoops, skipped_text
from compilegate.observe.practices.loops import Loop, Recipe, Strengths

#: After the first steps, little rounding is amplified, and everything was compiled: SGD makes its
#: momentum in the first step and reads it in the second.
FIRST = 3


def train(
    bench: Bench,
    recipe: Recipe,
    strengths: Strengths,
    make: Callable[[], Loop],
    *,
    needed: int | None = None,
) -> None:
    """Train in a compiled loop, and compare it with eager's after the first steps and at the end.

    Args:
        bench: Keeps the steps.
        recipe: What a step does.
        strengths: The constants of the recipe.
        make: Makes the compiled loop. Its first step compiles.
        needed: The most compilations that the first steps need; None if any number is right.
    """
    loop: Loop | None = None
    first = min(FIRST, recipe.steps)
    with bench.step(f"{recipe}: {first} steps", needed=needed) as facts:
        eager = EagerLoops.shared(bench, recipe, strengths, (first, recipe.steps))
        loop = make()
        _advance(bench, loop, first)
        _compare(facts, eager, loop, first)
    is_done = bool(bench.steps[-1].raised or bench.steps[-1].unavailable)
    if loop is None or is_done or recipe.steps == first:
        return
    with bench.step(f"{recipe}: {recipe.steps} steps", needed=0) as facts:
        _advance(bench, loop, recipe.steps - first)
        _compare(facts, eager, loop, recipe.steps)


def _advance(bench: Bench, loop: Loop, steps: int) -> None:
    for _ in range(steps):
        with bench.progress.spend("compile" if not loop.losses else "run"):
            loop.step()
        bench.progress.beat()


def _compare(facts: StepFacts, eager: EagerLoops, loop: Loop, mark: int) -> None:
    reached = loop.snapshot()
    ours, theirs = eager.skipped(mark), skipped_text(reached)
    facts.note("steps skipped by GradScaler", "value", ours, theirs)
    if ours == theirs:  # otherwise all numbers differ, too
        facts.add(eager.compare(reached, mark))
