"""Metric: a team's own measure of its own model on its own data, eager against compiled.

The numbers of a call may be within their bounds while a task goes wrong: a threshold may lie where
many samples are. ``Example.metric`` returns one score for each sample, so that both sides are
compared pair by pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from compilegate.observe import error_text, nested
from compilegate.observe.device import out_of_memory
from compilegate.observe.model import cast_weights
from compilegate.observe.model.float64 import Lifting
from compilegate.observe.model.forward import setting
from compilegate.observe.model.seeding import seed_everything
from compilegate.observe.model.subject import Subject
from compilegate.observe.practices.bench import Bench
from compilegate.observe.practices.score_change import mean_change
from compilegate.observe.practices.unavailable import StepUnavailableError
from compilegate.records.practice import Practice


def observe(bench: Bench) -> Practice:
    """Score the samples with eager and compiled code, and the reference where they differ."""
    eager = bench.build()
    if eager.example.metric is None:
        return Practice(unavailable="the Example has no metric")
    with bench.step("the metric of eager and of compiled code") as facts:
        before = _scores_of_eager(bench, eager)
        with bench.progress.spend("compile"):
            after = _scores(bench, bench.build_compiled())
        facts.note("scores", "number", len(before), len(after))
        infinite = _infinite(after)
        text = f"{infinite} of {len(after)} are not finite" if infinite else "each a finite number"
        facts.require("scores", "each a finite number", text)
        if len(before) == len(after) and not _infinite(after):
            _note_change(bench, before, after)
    return bench.practice()


def _scores_of_eager(bench: Bench, eager: Subject) -> torch.Tensor:
    """Return the scores of eager.

    Raises:
        StepUnavailableError: The metric raises, or returns no score, or one that is not finite.
    """
    try:
        with bench.progress.spend("run"):
            scores = _scores(bench, eager)
    except Exception as error:
        if out_of_memory.is_fatal(error):
            raise
        raise StepUnavailableError(f"in eager, {error_text.with_kind(error)}") from error
    if not len(scores):
        raise StepUnavailableError("the metric returns no score")
    if strange := _infinite(scores):
        raise StepUnavailableError(f"in eager, {strange} of {len(scores)} scores are not finite")
    return scores


def _scores(bench: Bench, subject: Subject, lifting: Lifting | None = None) -> torch.Tensor:
    """Return the score of each sample, in float64 on the CPU."""
    seed_everything(bench.request.seed)
    metric = subject.example.metric
    assert metric is not None
    scores = metric(_callable(bench, subject, lifting))
    if isinstance(scores, torch.Tensor):
        return scores.detach().double().cpu().flatten()
    return torch.tensor([float(score) for score in scores], dtype=torch.float64)


def _callable(bench: Bench, subject: Subject, lifting: Lifting | None) -> Callable[..., Any]:
    """Return the model as the metric calls it: under the setting of the case, on its device."""
    case = subject.case
    dtype = lifting.dtype if lifting else cast_weights.half(case)

    def call(*args: Any, **kwargs: Any) -> Any:
        bench.progress.beat()
        recast = nested.Recast(case.device, dtype)
        args, kwargs = recast(args), recast(kwargs)
        with setting(case, lifting):
            return subject.run(*args, **kwargs)

    return call


def _infinite(scores: torch.Tensor) -> int:
    return int((~scores.isfinite()).sum())


def _note_change(bench: Bench, before: torch.Tensor, after: torch.Tensor) -> None:
    """Note how the metric changes, and how far eager's scores are from the reference's."""
    change = mean_change(before, after)
    bench.figures |= {
        "samples": len(before),
        "worse_samples": int((after < before).sum()),
        "better_samples": int((after > before).sum()),
        "eager_score": float(before.mean()),
        "compiled_score": float(after.mean()),
        "change_score": change.value,
        "change_low_score": change.low,
        "change_high_score": change.high,
    }
    if not torch.equal(before, after) and math.isfinite(noise := _noise(bench, before)):
        bench.figures["noise_score"] = noise


def _noise(bench: Bench, before: torch.Tensor) -> float:
    """Return eager's mean distance from the scores of the reference; NaN if that has none."""
    lifting = Lifting()
    try:
        with bench.progress.spend("reference"):
            truth = _scores(bench, bench.builder(lifting), lifting)
    except Exception as error:
        if out_of_memory.is_fatal(error):
            raise
        return math.nan
    return float((before - truth).abs().mean()) if len(truth) == len(before) else math.nan
