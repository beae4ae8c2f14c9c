"""The training loop: a compiled model, trained by an optimizer as scripts do.

https://docs.pytorch.org/tutorials/beginner/introyt/trainingyt.html
https://docs.pytorch.org/docs/stable/notes/amp_examples.html
"""

from __future__ import annotations

import torch

from compilegate.observe.model import forward
from compilegate.observe.model.snapshot import Snapshot
from compilegate.observe.model.subject import Subject
from compilegate.observe.practices.bench import Bench
from compilegate.observe.practices.eager_loops import make_loop, strengths_of
from compilegate.observe.practices.loop_steps import train
from compilegate.observe.practices.loops import Loop, Recipe
from compilegate.observe.practices.unavailable import StepUnavailableError, unless_eager_raises
from compilegate.records.practice import Practice

#: The shortest loop, and two with everything that a script adds. Scaling by a power of two rounds
#: nothing in float32, so that a skipped step is observed on every device.
RECIPES = (Recipe("AdamW", plain=True), Recipe("AdamW", scales=True), Recipe("SGD"))


def observe(bench: Bench) -> Practice:
    """Train one compiled model by each recipe in turn, from the same weights."""
    try:
        strengths = strengths_of(bench)
    except StepUnavailableError as reason:
        return Practice(unavailable=str(reason))
    compiled = bench.build_compiled()
    # A model may count its steps, and compute with the count.
    initial = Snapshot(compiled.module, parameters=True, shared=compiled.recorder.shared)
    _validate(bench, compiled)
    for number, recipe in enumerate(RECIPES):

        def make(recipe: Recipe = recipe) -> Loop:
            initial.put_back()
            for parameter in compiled.parameters().values():
                parameter.grad = None
            return make_loop(bench, compiled, recipe, strengths)

        train(bench, recipe, strengths, make, needed=0 if number else None)
    return bench.practice()


def _validate(bench: Bench, compiled: Subject) -> None:
    """Call the model without gradients, as a script does first. Training needs other code."""
    with bench.step("a call under no_grad before training"):
        with unless_eager_raises():
            _call_without_gradients(bench, bench.build())
        with bench.progress.spend("compile"):
            _call_without_gradients(bench, compiled)


def _call_without_gradients(bench: Bench, subject: Subject) -> None:
    call = subject.prepare(bench.planned)
    with forward.setting(subject.case, None), torch.no_grad():
        subject.run(*call.args, **call.kwargs)
