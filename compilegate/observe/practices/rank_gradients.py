"""The gradients that several ranks must find, computed in one process.

Each rank makes its own call, and the gradients of parameters are the mean over ranks. The call of
each rank is made in eager, in float64, and nudged where compiled code errs more than eager.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from compilegate.observe.compare.eager_noise import Sampler, nudges_of
from compilegate.observe.compare.nearest_reference import Nudge
from compilegate.observe.compare.values import compare_values, is_doubtful
from compilegate.observe.device import device as device_of
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.random_draws import DrawRecording
from compilegate.observe.model.reference import Reference
from compilegate.observe.model.result import Result
from compilegate.observe.practices.bench import Bench
from compilegate.observe.practices.distributed_ways import RANKS
from compilegate.observe.practices.unavailable import check_eager
from compilegate.observe.threads import one_thread
from compilegate.records.call import Checked

Gradients = Mapping[str, torch.Tensor | None]


class RankGradients:
    """What is known of the gradients of several ranks.

    Args:
        bench: Builds the models.

    Raises:
        StepUnavailableError: Eager raises.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._planned = [PlannedCall(rank, bench.planned.sizes) for rank in range(RANKS)]
        self._eager = [bench.build() for _ in self._planned]
        self._samplers = [Sampler(bench.builder) for _ in self._planned]
        self._made: list[Result] = []
        truths: list[Result] = []
        self._is_exact = True
        for rank in range(RANKS):
            recording = self._call(rank)
            reference = Reference(bench.builder)  # one that has taken no step
            with bench.progress.spend("reference"):
                truths += reference.results(self._planned[rank], recording)[:1]
            self._is_exact &= reference.is_exact
        self._truths = [self._of_results(truths)] if len(truths) == RANKS else []
        self._samples: list[tuple[Gradients, Nudge]] = []
        self._nudges = [*nudges_of(bench.builder.case)]

    def _call(self, rank: int) -> DrawRecording | None:
        """Make the call of a rank in eager. Return the random numbers that it drew."""
        bench, planned, eager = self._bench, self._planned[rank], self._eager[rank]
        by_kernel = device_of(bench.builder.case.device).draws_by_kernel
        recording = DrawRecording(is_needed=by_kernel) if bench.draws else None
        made = eager.call(eager.prepare(planned), planned.index, recording)
        check_eager(made.error)
        self._made.append(made)
        bench.progress.beat()
        return recording

    def compare(self, eager: Sequence[Gradients], compiled: Sequence[Gradients]) -> Checked:
        """Compare what each rank found.

        Args:
            eager: The gradients that each rank found in eager.
            compiled: Those that it found in compiled code.
        """
        sides = named(eager), named(compiled)
        checked = self._compare(*sides)
        while is_doubtful(checked, half=self._bench.half) or not (self._is_exact or self._samples):
            if not self._nudges:
                break
            self._sample(self._nudges.pop(0))
            checked = self._compare(*sides)
        return checked

    def _compare(self, eager: Gradients, compiled: Gradients) -> Checked:
        with self._bench.progress.spend("compare"), one_thread():
            return compare_values(
                eager, compiled, self._truths, self._samples, half=self._bench.half
            )

    def _sample(self, nudge: float) -> None:
        """Make nudged calls of each rank. What cannot be repeated shows nothing."""
        with self._bench.progress.spend("reference"):
            drawn = [
                sampler.samples(planned, eager, made, nudge)
                for sampler, planned, eager, made in zip(
                    self._samplers, self._planned, self._eager, self._made, strict=True
                )
            ]
        self._bench.progress.beat()
        for samples in zip(*drawn, strict=False):
            values = self._of_results([sample.result for sample in samples])
            self._samples.append((values, samples[0].nudge))

    def _of_results(self, results: Sequence[Result]) -> Gradients:
        """Return the gradients that ranks with these calls find."""
        parameters = self._eager[0].parameters()
        found: list[dict[str, torch.Tensor | None]] = []
        for result in results:
            gradients = dict(result.gradients)
            for name in parameters.keys() & gradients.keys():
                parts = [other.gradients[name] for other in results]
                seen = [part for part in parts if part is not None]
                gradients[name] = torch.stack(seen).sum(0) / RANKS if seen else None
            found.append(gradients)
        return named(found)


def named(ranks: Sequence[Gradients]) -> Gradients:
    """Return the gradients of all ranks, by names that failures show. None is left out."""
    return {
        f"gradient {name} on rank {rank}": value
        for rank, gradients in enumerate(ranks)
        for name, value in gradients.items()
        if value is not None
    }
