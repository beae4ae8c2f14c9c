"""What eager does in a training loop, which bounds how far a compiled loop may be from float64.

Twenty steps amplify rounding: a ReLU opens a step later, and AdamW divides by the size of a
gradient that is near zero. Two correct loops end as far apart as that takes them. The loop
therefore runs in float64, in eager, and, where compiled code errs more than that, in eager again
from weights and inputs that are nudged by a rounding error. The largest distance of these loops
from float64 is the noise that compiled code is allowed a multiple of.
"""

from __future__ import annotations

import contextlib
import gc
import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Self

import torch

from compilegate.observe.compare.eager_noise import UNIT
from compilegate.observe.compare.nearest_reference import Nudge
from compilegate.observe.compare.values import compare_values, is_doubtful
from compilegate.observe.device import device as device_of
from compilegate.observe.model.float64 import Lifting
from compilegate.observe.model.random_draws import DrawRecording, ReplayError
from compilegate.observe.model.subject import Subject
from compilegate.observe.practices.bench import Bench, Compared
from compilegate.observe.practices.loops import Loop, Nudges, Recipe, Snapshot, Strengths
from compilegate.observe.practices.unavailable import (
    StepUnavailableError,
    refuse_to_go_on,
    unless_eager_raises,
)
from compilegate.observe.threads import one_thread
from compilegate.records.call import Checked

#: The sizes of the nudges, in rounding errors: four loops each, until the error is explained. A
#: correct loop may jump where none of a few others does, and larger nudges show more jumps. The
#: distance of a nudged loop counts in full: a loop rounds in each step, and is nudged once.
NUDGES = {"f32": (1, 8, 64), "bf16": (1, 1, 2), "f16": (1, 1, 4)}
SAMPLES = 4
IN_FULL = Nudge(1.0, 1.0)


class EagerLoops:
    """The eager loop of a recipe, the same one in float64, and nudged ones.

    Args:
        bench: Builds the models.
        recipe: What a step does.
        strengths: The constants of the recipe.
        marks: After how many steps loops are compared; ascending.

    Raises:
        StepUnavailableError: Eager raises.
    """

    def __init__(
        self, bench: Bench, recipe: Recipe, strengths: Strengths, marks: tuple[int, ...]
    ) -> None:
        self._bench, self._recipe, self._strengths, self._marks = bench, recipe, strengths, marks
        self._half = bench.half
        self._sampled: list[dict[int, Snapshot]] = []
        try:
            self._eager, self._truth = self._pair(replays=bench.draws)
        except ReplayError:  # the reference draws the same numbers by itself
            self._eager, self._truth = self._pair(replays=False)

    @classmethod
    def shared(
        cls, bench: Bench, recipe: Recipe, strengths: Strengths, marks: tuple[int, ...]
    ) -> Self:
        """Return the loops of a recipe, which practices of one case share.

        Raises:
            StepUnavailableError: Eager raises.
        """
        key = (cls, recipe, marks)
        if key not in bench.shared:
            bench.shared[key] = cls(bench, recipe, strengths, marks)
        found: Self = bench.shared[key]
        return found

    def _loop(self, subject: Subject, **others: Any) -> Loop:
        return make_loop(self._bench, subject, self._recipe, self._strengths, **others)

    def _pair(self, *, replays: bool) -> tuple[dict[int, Snapshot], dict[int, Snapshot]]:
        """Run the eager loop and that of the reference in turns.

        The reference skips the steps that eager skips.

        Args:
            replays: Whether the reference gets the random numbers that eager drew.

        Raises:
            ReplayError: It cannot get them, and draws the same ones by itself.
        """
        loop, lifting = self._loop(self._bench.build()), Lifting()
        needed = device_of(self._bench.builder.case.device).draws_by_kernel
        replay = _Replay(lifting, is_needed=needed)
        if replays:
            loop.around_forward = replay.record
        truth: Loop | None = None
        with contextlib.suppress(Exception):  # without float64, samples show eager's noise
            truth = self._loop(self._bench.builder(lifting), reference=True)
            truth.around_forward, truth.around_backward = replay.replay, replay.lift
        found: dict[int, Snapshot] = {}
        exact: dict[int, Snapshot] = {}
        for step in range(1, self._marks[-1] + 1):
            with unless_eager_raises():
                loop.step()
            if truth is not None:
                try:
                    truth.step(skips=step - 1 in loop.skipped)
                except Exception as error:
                    refuse_to_go_on(error)
                    if isinstance(error, ReplayError) and not needed:
                        raise
                    truth, exact = None, {}
            if step in self._marks:
                found[step] = loop.snapshot()
                if truth is not None:
                    exact[step] = truth.snapshot()
            self._bench.progress.beat()
        return found, exact

    def compare(self, compiled: Snapshot, mark: int) -> Compared:
        """Compare a compiled loop with eager's, next to the distance of eager's loops.

        Args:
            compiled: What the compiled loop has reached.
            mark: After how many steps.
        """
        checked = self._compare(compiled, mark)
        for drawn, nudge in enumerate(NUDGES[self._bench.builder.case.computes_in]):
            known = self._truth or self._sampled
            if known and not any(is_doubtful(one, half=self._half) for one in checked):
                break
            if drawn * SAMPLES >= len(self._sampled):  # not drawn for an earlier comparison
                with self._bench.progress.spend("reference"):
                    self._sample(nudge)
            checked = self._compare(compiled, mark)
        return checked

    def _sample(self, nudge: float) -> None:
        """Run a few nudged loops. One that raises shows nothing."""
        case = self._bench.builder.case
        for _ in range(SAMPLES):
            nudges = Nudges(nudge * UNIT[case.computes_in], case.device, len(self._sampled))
            try:
                loop = self._loop(self._bench.build(), nudges=nudges)
                reached = dict(_reached(loop, self._marks, self._bench))
            except Exception as error:
                refuse_to_go_on(error)
                reached = {}
            self._sampled.append(reached)
            if case.device != "cpu":
                gc.collect()  # a loop holds itself, and no lack of GPU memory frees it

    def _compare(self, compiled: Snapshot, mark: int) -> Compared:
        eager, truth = self._eager[mark], self._truth.get(mark)
        samples = [sample[mark] for sample in self._sampled if mark in sample]

        values = _pooled_values if self._recipe.plain else _values

        def of(group: str) -> Checked:
            return compare_values(
                values(eager, group),
                values(compiled, group),
                [values(truth, group)] if truth else [],
                [(values(sample, group), IN_FULL) for sample in samples],
                half=self._half,
            )

        with self._bench.progress.spend("compare"), one_thread():
            return of("losses"), of("updates"), of("buffers")

    def skipped(self, mark: int) -> str:
        """Return the steps that eager's ``GradScaler`` skipped, as text."""
        return skipped_text(self._eager[mark])


def skipped_text(reached: Snapshot) -> str:
    """Return the steps that ``GradScaler`` skipped, counted from one."""
    return ", ".join(str(step + 1) for step in reached.skipped) or "none"


def _values(reached: Snapshot, group: str) -> Mapping[str, torch.Tensor]:
    if group == "losses":
        return {"losses": reached.losses}
    found: Mapping[str, torch.Tensor] = getattr(reached, group)
    return found


def _pooled_values(reached: Snapshot, group: str) -> Mapping[str, torch.Tensor]:
    """Return the updates of all parameters as one, and the floating buffers as one.

    At its defaults, AdamW steps by the sign of the first gradient. Rounding decides it where a
    gradient is near zero, as chance has it in a small tensor, but steadily in all of them together.
    Where a batch norm follows, the gradient of a whole channel can be zero: its weights then drift
    as the kernel happens to round, and the running mean with them, but no output.
    """
    found = _values(reached, group)
    if group == "losses":
        return found
    floating = {name: value for name, value in found.items() if value.is_floating_point()}
    exact = {name: value for name, value in found.items() if name not in floating}
    if not floating:
        return exact
    return {group: torch.cat([value.flatten() for value in floating.values()]), **exact}


def _reached(loop: Loop, marks: tuple[int, ...], bench: Bench) -> Iterator[tuple[int, Snapshot]]:
    for step in range(1, marks[-1] + 1):
        loop.step()
        bench.progress.beat()
        if step in marks:
            yield step, loop.snapshot()


class _Replay:
    """Records what each micro-batch of eager draws, and replays it in the reference.

    Args:
        lifting: The lifting of the reference.
        is_needed: Whether the reference certainly draws other numbers.
    """

    def __init__(self, lifting: Lifting, *, is_needed: bool) -> None:
        self._lifting, self._is_needed = lifting, is_needed
        self._recordings: dict[int, DrawRecording] = {}

    def record(self, index: int) -> AbstractContextManager[object]:
        self._recordings[index] = recording = DrawRecording(is_needed=self._is_needed)
        return recording.active()

    @contextlib.contextmanager
    def replay(self, index: int) -> Iterator[None]:
        recording = self._recordings.pop(index, None)
        self._lifting.replay = recording.replay() if recording else None
        yield

    def lift(self, index: int) -> AbstractContextManager[object]:
        return self._lifting.active()


def make_loop(
    bench: Bench, subject: Subject, recipe: Recipe, strengths: Strengths, **others: Any
) -> Loop:
    """Return a loop with the sizes and the seed of a case. See :class:`.Loop` for the others."""
    return Loop(subject, recipe, strengths, bench.planned.sizes, bench.request.seed, **others)


def strengths_of(bench: Bench) -> Strengths:
    """Return the constants of a case's loops, which its practices share.

    Raises:
        StepUnavailableError: The model cannot be trained: it has no parameters, or no gradient.
    """
    if Strengths not in bench.shared:
        bench.shared[Strengths] = _strengths_of(bench)
    found: Strengths = bench.shared[Strengths]
    return found


def _strengths_of(bench: Bench) -> Strengths:
    """Return the constants of a case's loops, from eager's first gradient."""
    subject = bench.build()
    if subject.example.calls:
        raise StepUnavailableError("the model lists its own calls, which a loop cannot repeat")
    trained = [p.detach() for p in subject.parameters().values() if p.requires_grad]
    if not trained:
        raise StepUnavailableError("the model has no parameters to train")
    loop = make_loop(bench, subject, Recipe("SGD", plain=True), Strengths.of(1.0, 1.0, 1))
    with unless_eager_raises():
        loop.add_gradients(0)
    gradient, weights = loop.gradient_norm(), float(torch.stack([p.norm() for p in trained]).norm())
    if not (gradient > 0 and math.isfinite(gradient) and weights > 0):
        raise StepUnavailableError(f"the norm of its first gradient is {gradient}")
    return Strengths.of(gradient, weights, sum(p.numel() for p in trained))
