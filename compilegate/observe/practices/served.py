"""A model that is served: calls that differ in the values of their inputs, and eager's answers."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch

from compilegate.observe import nested
from compilegate.observe.capture import compiling, eager_calls
from compilegate.observe.compare.call_comparer import CallComparer
from compilegate.observe.compare.distances import distances
from compilegate.observe.compare.eager_noise import repeats
from compilegate.observe.model.calls import has_fixed_inputs
from compilegate.observe.model.equality import is_same
from compilegate.observe.model.reference import Reference
from compilegate.observe.model.result import Result
from compilegate.observe.model.weight_changes import change_weights
from compilegate.observe.practices.bench import Bench, StepFacts
from compilegate.observe.practices.calling_threads import CallingThreads
from compilegate.observe.practices.unavailable import StepUnavailableError, check_eager
from compilegate.records.call import Checked, Difference
from compilegate.zoo.example import Call

#: Enters a mode for one call, such as ``torch.inference_mode``.
Mode = Callable[[], AbstractContextManager[object]]

#: How often each thread makes its call in a step: the calls overlap in other places each time.
_CALLS = 3

#: An answer is another one if it is this many times as near to it. Rounding is far smaller.
_FAR = 1000.0


class Served:
    """A model, compiled or about to be, and eager's answers to one call for each thread.

    Args:
        bench: The bench.
        count: How many calls there are.
        weights: The weights of both sides, by name, where they are not those of the case.

    Attributes:
        compiled: The model that is compiled.
        eager: The eager model with the same weights.
        calls: The arguments of the calls of the compiled model; those of eager hold equal values.
        eager_calls: The arguments of eager's calls.

    Raises:
        StepUnavailableError: Eager raises, or its answers are alike, or cannot be repeated.
    """

    def __init__(
        self, bench: Bench, count: int, *, weights: Mapping[str, torch.Tensor] | None = None
    ) -> None:
        builder = bench.builder if weights is None else replace(bench.builder, weights=weights)
        self._bench = bench
        self.eager, self.compiled = builder(), builder()
        for side in (self.eager, self.compiled):
            side.caches_casts = False  # the threads share that cache, whose lock deadlocks
        self._buffers = {name: one.clone() for name, one in self.compiled.buffers().items()}
        example = self.eager.example
        if example.calls or has_fixed_inputs(example):
            raise StepUnavailableError("the recipe makes no inputs that differ from call to call")
        self._planned = [replace(bench.planned, index=index) for index in range(count)]
        self.eager_calls = [self.eager.prepare(planned) for planned in self._planned]
        self.calls = [self.compiled.prepare(planned) for planned in self._planned]
        self._answers = [self._ask_eager(index) for index in range(count)]
        self._refuse_others()
        self._comparer = CallComparer(
            self.eager,
            self.compiled,
            Reference(builder),
            builder,
            bench.progress.time,
            half=bench.half,
        )

    def _ask_eager(self, index: int) -> Result:
        made = eager_calls.call(self.eager, self.eager_calls[index], index)
        check_eager(made.error)
        if made.draws:
            raise StepUnavailableError("a call draws random numbers, whose order threads change")
        return made

    def _refuse_others(self) -> None:
        """Refuse a model whose answer depends on the calls before: threads change their order."""
        if not repeats(self._ask_eager(0).output, self._answers[0].output):
            raise StepUnavailableError("eager's answer to the same call changes after other calls")

    def compile(self, **changed: Any) -> None:
        """Compile the model as the case demands, without calling it.

        Args:
            **changed: Arguments of ``torch.compile`` that replace those of the case.
        """
        bench, compiled = self._bench, self.compiled
        if changed:
            chosen = compiling.options(compiled.case, bench.request.backend)
            compiled.run = torch.compile(compiled.module, **{**chosen, **changed})
        else:
            compiling.compile_subject(compiled, bench.builder.model, bench.request.backend)

    def answer(
        self, index: int, mode: Mode = contextlib.nullcontext, call: Call | None = None
    ) -> Result:
        """Make a call of the compiled model, in whatever thread this runs in.

        Args:
            index: The number of the call.
            mode: Is entered for the call, outside of the grad mode and autocast of the case.
            call: The arguments, where they are not those of that number.
        """
        call = call or self.calls[index]
        with mode():
            return self.compiled.output_of(call, self.compiled.forward(call))

    def compare(self, facts: StepFacts, index: int, made: Result) -> None:
        """Add the comparison of an answer with eager's and with the reference's."""
        facts.outputs += self._comparer.of_call(self._planned[index], self._answers[index], made)[0]

    def compare_of_thread(self, facts: StepFacts, number: int, made: Result) -> None:
        """Add the comparison of a thread's answer, and whether it is that of another thread.

        An answer is another thread's if it is far nearer to that in eager than to its own.
        """
        self.compare(facts, number, made)
        own, *others = (
            _distance(made, answer) for answer in (self._answers[number], *self._answers)
        )
        nearest = min(range(len(others)), key=others.__getitem__)
        found = number if others[nearest] * _FAR >= own else nearest
        if found != number:
            where, whose = f"answer of thread {number + 1}", f"that of thread {found + 1}"
            mixed_up = Difference(where=where, what="required", eager="its own", compiled=whose)
            facts.outputs += Checked(differences=(mixed_up,))

    def compare_threads(
        self, facts: StepFacts, threads: CallingThreads, mode_of: Callable[[int], Mode]
    ) -> None:
        """Let every thread make its call a few times, all at once, and add each answer.

        Args:
            facts: What the step shows.
            threads: The threads.
            mode_of: Returns the mode that a thread enters, given its number.
        """
        rounds = [
            threads.run(lambda number: self.answer(number, mode_of(number))) for _ in range(_CALLS)
        ]
        for number in range(threads.count):
            for made in _distinct([answers[number] for answers in rounds]):
                self.compare_of_thread(facts, number, made)

    def compare_state(self, facts: StepFacts) -> None:
        """Make the first call alone, and add its comparison: it shows the state of the model.

        What eager writes to buffers depends on the number of calls, so these are as built.
        """
        with torch.inference_mode():  # it may also write to what a call in this mode has made
            for name, buffer in self.compiled.buffers().items():
                if f"buffer {name}" in self._answers[0].written and name in self._buffers:
                    buffer.copy_(self._buffers[name])
        made = self._bench.call(self.compiled)
        facts.add(self._comparer.of_call(self._planned[0], self._answers[0], made))

    def note_inference(self, facts: StepFacts, mode: Mode) -> None:
        """Note whether the outputs of a call are inference tensors where eager's are."""
        flags = []
        for side, calls in ((self.eager, self.eager_calls), (self.compiled, self.calls)):
            with mode():
                outputs = nested.output_tensors(side.forward(calls[0]))
            flags.append({path: tensor.is_inference() for path, tensor in outputs.items()})
        for path, is_inference in flags[0].items():
            facts.note(path, "is_inference", is_inference, flags[1].get(path))


def _distance(ours: Result, theirs: Result) -> float:
    """Return the Euclidean distance of the outputs of two calls; infinite if shapes differ.

    Elements that are not finite in the same way are no distance apart.
    """
    found = 0.0
    for path, tensor in theirs.output.items():
        other = ours.output.get(path)
        if not isinstance(tensor, torch.Tensor) or not isinstance(other, torch.Tensor):
            continue
        if other.shape != tensor.shape:
            return math.inf
        found = math.hypot(found, float(torch.linalg.vector_norm(distances(other, tensor))))
    return found


def other_weights(bench: Bench) -> dict[str, torch.Tensor]:
    """Return weights that differ from the case's, by name."""
    other = bench.build()
    tensors = {**other.parameters(), **other.buffers()}
    change_weights(tensors.values(), other.case.device, bench.request.seed)
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def _distinct(answers: list[Result]) -> list[Result]:
    """Return answers that differ, bit by bit: comparing one of them with the reference suffices."""
    found: list[Result] = []
    for answer in answers:
        if not any(_are_same(answer, known) for known in found):
            found.append(answer)
    return found


def _are_same(ours: Result, theirs: Result) -> bool:
    return (
        ours.layout == theirs.layout
        and ours.output.keys() == theirs.output.keys()
        and all(is_same(value, theirs.output[name]) for name, value in ours.output.items())
    )
