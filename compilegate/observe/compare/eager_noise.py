"""Sample eager's own error again where compiled code errs more than eager.

One eager run shows one draw of its rounding error. Some models amplify rounding: a maximum is
nearly a tie, a batch norm has few values, two experts have nearly the same score. Another draw may
then err far more. Compiled code rounds in other places, so it is such a draw.

If compiled code errs more than eager, eager runs again on inputs and parameters that are nudged by
a rounding error, in whole units in the last place. A run that returns the same as without the nudge
shows nothing and is dropped. The largest error of the others is the noise. If it does not explain
the error of compiled code, larger nudges follow. An error that jumps (a ReLU opens, a maximum
moves) may have jumped in compiled code, too, and counts in full. An error that grows with the nudge
is divided by the nudge.

Inputs of whole numbers, halves and quarters stay as they are, for 2.5 is 2.5 in all code: ``round``
of it is no near tie. What operators round is nudged there instead.

Compiled code on a CPU sums one number after the other, and eager in pairs. In single precision,
further runs there nudge sums as far as this moves them.

If no such run explains the error, others nudge the results of all operators, or leave out roundings
to half precision as fused code does. One of them counts only if compiled code agrees with it: both
then round, and decide, in the same way.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from compilegate.observe import error_text
from compilegate.observe.capture import eager_calls
from compilegate.observe.compare.nearest_reference import Nudge
from compilegate.observe.model import cast_weights
from compilegate.observe.model.call_state import tensors_held
from compilegate.observe.model.calls import (
    PlannedCall,
    fixed_arguments,
    input_tensors,
    invoke,
)
from compilegate.observe.model.dispatch_mode import Mode
from compilegate.observe.model.equality import is_same
from compilegate.observe.model.nudged_results import NudgedResults, NudgedResultsOfFixedPoint
from compilegate.observe.model.nudging import is_fixed_point, without_repeats
from compilegate.observe.model.nudging import nudge as move
from compilegate.observe.model.plain_values import set_plain
from compilegate.observe.model.restarting import start_as
from compilegate.observe.model.result import Result
from compilegate.observe.model.snapshot import Snapshot
from compilegate.observe.model.subject import Subject
from compilegate.records.case import Case
from compilegate.zoo.example import Call

#: The number of runs at each size of the nudge.
SAMPLES = 4
#: How often a call is made again to see what it does not repeat.
REPETITIONS = 2
#: The relative size of a rounding error, by the number format that a case computes in.
UNIT = {"f32": 2.0**-23, "bf16": 2.0**-9, "f16": 2.0**-12}
#: The sizes of the nudge in such units, tried in this order while the error is not explained.
NUDGES = {"f32": (1, 8, 64), "bf16": (1, 2), "f16": (1, 4)}
#: The sizes for weights in half precision. They move by one and by two units in their last place,
#: and such a unit is at least two rounding errors.
_NUDGES_OF_HALVES = (2, 4)
#: How the names of state begin that a nudge moves itself.
_NUDGED = ("input", "buffer ")
#: It is far from the seeds of weights and inputs. With the same random numbers, all nudges would
#: push in one direction.
_FIRST_SEED = 2_000_003


def nudges_of(case: Case) -> tuple[int, ...]:
    """Return the sizes of the nudge for a case, in the order in which they are tried."""
    return _NUDGES_OF_HALVES if cast_weights.half(case) else NUDGES[case.computes_in]


@dataclass(frozen=True)
class Sample:
    """A nudged run of an eager call.

    Attributes:
        result: The result of the run.
        nudge: The size of the nudge.
    """

    result: Result
    nudge: Nudge


class Sampler:
    """Repeats eager calls with nudges, on a separate module.

    Args:
        build: Builds the eager model.

    Attributes:
        failed: Why calls could not be made again, each reason once.
    """

    def __init__(self, build: Callable[[], Subject]) -> None:
        self.failed: dict[str, None] = {}
        self._build = build
        self._acted = 0  # the number of listed calls whose action before was taken
        self._began: Snapshot | None = None  # the state before the first run of a call

    def samples(
        self,
        planned: PlannedCall,
        eager: Subject,
        result: Result,
        nudge: float,
        *,
        results: Callable[[int], Mode] | None = None,
        first: int = 0,
        until: Callable[[Sample], bool] = lambda sample: False,
    ) -> list[Sample] | None:
        """Return the nudged runs of a call that differ from it; None if it cannot be repeated.

        Args:
            planned: The call.
            eager: The eager subject. Its parameters are those of the call, except where the call
                wrote to them.
            result: The result of the call. A repetition without a nudge must return the same:
                otherwise the call depends on unknown state.
            nudge: The size of the nudge, in units in the last place; zero if nothing moves.
            results: Changes the results of operators, too, given a seed.
            first: The seed of the first run.
            until: Whether no run is needed after this one.
        """
        with self._noting_errors(), self._keeping(planned):
            repeated = self._call(self._restored(planned, eager, result), planned)
            if not repeats(repeated.output, result.output):
                self.failed["it then returned other numbers"] = None
                return None
            comparable = self._comparable(repeated, result)
            repeated.state = {name: repeated.state[name] for name in comparable}
            drawn = []
            for seed in range(first, first + SAMPLES):
                sample = self._nudged(planned, eager, result, nudge, seed, results=results)
                held = sample.result.state
                sample.result.state = {name: held[name] for name in comparable & held.keys()}
                if not _is_equal(sample.result, repeated):
                    drawn.append(sample)
                    if until(sample):
                        break
            return drawn
        return None

    @contextlib.contextmanager
    def _noting_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.failed[f"it then raised {error_text.with_kind(error)}"] = None

    def again(self, planned: PlannedCall, eager: Subject, result: Result) -> list[Result]:
        """Return the results of the same call, made again without a nudge; none if that fails.

        One whose tensors differ is left out: the call depends on unknown state.

        Args:
            planned: The call.
            eager: The eager subject.
            result: The result of the call.
        """
        with contextlib.suppress(Exception), self._keeping(planned):
            made = []
            for _ in range(REPETITIONS):
                one = self._call(self._restored(planned, eager, result), planned)
                one.state = {name: one.state[name] for name in _begun_alike(one, result)}
                made.append(one)
            return [one for one in made if repeats(one.output, result.output)]
        return []

    @contextlib.contextmanager
    def _keeping(self, planned: PlannedCall) -> Iterator[None]:
        """Put inputs and the module back at the end: a recipe may give all sides one tensor."""
        kept: dict[torch.Tensor, torch.Tensor] = {}
        try:
            inputs = input_tensors(self._prepare(planned)).values()
            kept = {tensor: tensor.detach().clone() for tensor in inputs}
            self._began = self._snapshot()
            yield
        finally:
            self._end()
            with torch.no_grad():
                for tensor, value in kept.items():
                    _write(tensor, value)

    def _nudged(
        self,
        planned: PlannedCall,
        eager: Subject,
        known: Result,
        nudge: float,
        seed: int,
        *,
        results: Callable[[int], Mode] | None,
    ) -> Sample:
        call = self._restored(planned, eager, known)
        given = [*input_tensors(call).values()]
        fractions = [tensor for tensor in given if not is_fixed_point(tensor)]
        if len(fractions) < len(given) and results in (None, NudgedResults):
            results = functools.partial(NudgedResultsOfFixedPoint, device=eager.case.device)
        moved = (*self._built.parameters().values(), *fractions)
        unit = UNIT[eager.case.computes_in]
        if {tensor.dtype for tensor in moved if tensor.is_floating_point()} == {torch.float64}:
            unit = torch.finfo(torch.float64).eps
        amount = nudge * unit * (2 if cast_weights.half(eager.case) else 1)
        with torch.no_grad():
            size = move(moved, amount, _FIRST_SEED + seed) if nudge else 0.0
        units = (nudge or 1) if size <= amount else size / unit
        with results(_FIRST_SEED + seed) if results else contextlib.nullcontext():
            nudged = self._call(call, planned)
        return Sample(nudged, Nudge(units, units * max(unit / UNIT["f32"], 1.0)))

    @functools.cached_property
    def _built(self) -> Subject:
        return self._build()

    def _snapshot(self) -> Snapshot:
        subject = self._built
        return Snapshot(subject.module, parameters=False, given=fixed_arguments(subject.example))

    def _end(self) -> None:
        """Put the module back. Where that fails, it repeats no later call, which then shows."""
        began, self._began = self._began, None
        if began is not None:
            with contextlib.suppress(Exception):
                began.put_back()

    def _restored(self, planned: PlannedCall, eager: Subject, known: Result) -> Call:
        """Return the arguments of a call, with all values as they were before it."""
        call = self._prepare(planned)
        if self._began is not None:  # a model may take its branches in turn
            self._began.put_back()
        start_as(self._built, eager, known)
        set_plain(self._built.module, known.before)
        with torch.no_grad():
            held = {**tensors_held(self._built.recorder.state.read(call)), **input_tensors(call)}
            for name, tensor in held.items():
                before = known.before.get(name)
                if not isinstance(before, torch.Tensor) or before.shape != tensor.shape:
                    continue
                _write(tensor, before)
        return call

    def _call(self, call: Call, planned: PlannedCall) -> Result:
        result = eager_calls.call(self._built, call, planned.index)
        if result.error is not None:
            raise result.error
        return result

    def _comparable(self, repeated: Result, known: Result) -> set[str]:
        """Return the names of the state that nudged runs can be compared in.

        It begins as that of the known call did, or does not depend on how it begins.
        """
        ends_alike = (n for n, v in repeated.state.items() if is_same(v, known.state.get(n)))
        return _begun_alike(repeated, known) | {*ends_alike}

    def _prepare(self, planned: PlannedCall) -> Call:
        """Return the arguments of a call, after the actions before it and before earlier calls."""
        subject = self._built
        calls = subject.example.calls
        for listed in calls[self._acted : planned.index + 1]:
            if listed.before is not None:
                invoke(listed.before, subject.module)
            self._acted += 1
        call = subject.prepare(planned)
        call.before = call.after = None
        return call


def _write(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Write a value to a tensor if a call or a nudge has changed it. It may be expanded."""
    if not is_same(tensor, value):
        once, source = without_repeats(tensor, value)
        once.copy_(source)


def _is_equal(run: Result, repeated: Result) -> bool:
    """Whether a nudge changed nothing: it was lost in rounding, or nothing depends on it."""
    return all(
        ours.keys() == theirs.keys() and all(is_same(ours[name], theirs[name]) for name in ours)
        for ours, theirs in (
            (run.output, repeated.output),
            (run.gradients, repeated.gradients),
            (_written(run), _written(repeated)),
        )
    )


def _begun_alike(run: Result, known: Result) -> set[str]:
    """Return the names of the state that began as that of a known call did."""
    return {
        name
        for name in run.state
        if name.startswith(_NUDGED) or is_same(run.before.get(name), known.before.get(name))
    }


def _written(result: Result) -> dict[str, Any]:
    """Return the state that a call wrote to."""
    return {name: result.state[name] for name in result.written if name in result.state}


def repeats(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Whether two outputs are nearly equal. Atomic additions may change them slightly on a GPU."""
    return ours.keys() == theirs.keys() and all(
        leaf.shape == theirs[name].shape
        and float((leaf - theirs[name]).double().nan_to_num().norm())
        <= 0.01 * float(leaf.double().nan_to_num().norm())
        for name, leaf in ours.items()
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
    )
