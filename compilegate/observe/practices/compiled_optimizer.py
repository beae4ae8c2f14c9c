"""A compiled optimizer: ``torch.compile`` of ``optimizer.step``, in the loop of a compiled model.

A schedule needs a learning rate that is a tensor: each other float would compile the step again.
https://docs.pytorch.org/tutorials/recipes/compiling_optimizer_lr_scheduler.html
"""

from __future__ import annotations

import os
import statistics
from typing import Any

import torch

from compilegate.observe.capture import compile_log, compiling
from compilegate.observe.device import device as device_of
from compilegate.observe.measure.rounds import paired_rounds
from compilegate.observe.practices.bench import Bench
from compilegate.observe.practices.eager_loops import make_loop, strengths_of
from compilegate.observe.practices.loop_steps import train
from compilegate.observe.practices.loops import Loop, Recipe, Strengths
from compilegate.observe.practices.unavailable import StepUnavailableError
from compilegate.records.practice import Practice
from compilegate.records.statistics import paired_speedup

#: AdamW is last, because its step is timed.
RECIPES = (Recipe("SGD"), Recipe("AdamW", scales=True))

#: Seconds for timing the steps of both optimizers.
_TIMED_S = 1.0


def observe(bench: Bench) -> Practice:
    """Train with each compiled optimizer; then time a step of AdamW, eager and compiled."""
    try:
        strengths = strengths_of(bench)
    except StepUnavailableError as reason:
        return Practice(unavailable=str(reason))
    loops: list[Loop] = []
    for recipe in RECIPES:

        def make(recipe: Recipe = recipe) -> Loop:
            loops.append(_compiled_loop(bench, recipe, strengths))
            return loops[-1]

        train(bench, recipe, strengths, make)
        with bench.step(f"graphs of the compiled step, {recipe.optimizer}") as facts:
            folder = os.path.dirname(torch.optim.__file__)
            is_captured = compile_log.captured_in(folder)
            facts.require_graph(is_captured=is_captured, where="optimizer.step")
    if not any(step.raised or step.unavailable for step in bench.steps):
        _time(bench, loops[-1], strengths)
    return bench.practice()


def _compiled_loop(bench: Bench, recipe: Recipe, strengths: Strengths) -> Loop:
    loop = make_loop(bench, bench.build_compiled(), recipe, strengths, tensor_rate=True)
    options = compiling.options(bench.builder.case, bench.request.backend)
    optimizer: Any = loop.optimizer
    optimizer.step = torch.compile(optimizer.step, **options)
    return loop


def _time(bench: Bench, compiled: Loop, strengths: Strengths) -> None:
    """Time the steps of an eager and of a compiled optimizer, on gradients of the same sizes."""
    eager = make_loop(bench, bench.build(), RECIPES[-1], strengths)
    for loop in (eager, compiled):
        loop.optimizer.zero_grad()
        loop.add_gradients(0)
    with bench.progress.alone():
        timing = paired_rounds(
            eager.optimizer.step,
            compiled.optimizer.step,
            device=device_of(bench.builder.case.device),
            seed=bench.request.seed,
            threshold=1.0,
            budget_s=_TIMED_S,
            beat=bench.progress.beat,
        )
    speedup = paired_speedup(timing.eager_ns, timing.compiled_ns)
    bench.figures |= {
        "optimizer_eager_ms": statistics.median(timing.eager_ns) / 1e6,
        "optimizer_compiled_ms": statistics.median(timing.compiled_ns) / 1e6,
        "optimizer_speedup_low_x": speedup.low,
        "optimizer_speedup_high_x": speedup.high,
    }
