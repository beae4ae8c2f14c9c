"""The training loop: a compiled model, trained by an optimizer as scripts do.

https://docs.pytorch.org/tutorials/beginner/introyt/trainingyt.html
https://docs.pytorch.org/docs/stable/notes/amp_examples.html
"""

from __future__ import annotations

import torch

from compilegate.observe.model.subject import Subject
from compilegate.observe.practices.bench import Bench, StepUnavailableError
from compilegate.observe.practices.eager_loops import make_loop, strengths_of
from compilegate.observe.practices.loop_steps import train
from compilegate.observe.practices.loops import Loop, Recipe
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
    initial = _state(compiled)
    for number, recipe in enumerate(RECIPES):

        def make(recipe: Recipe = recipe) -> Loop:
            restore(compiled, initial)
            return make_loop(bench, compiled, recipe, strengths)

        train(bench, recipe, strengths, make, needed=0 if number else None)
    return bench.practice()


def _state(subject: Subject) -> dict[str, torch.Tensor]:
    tensors = {**subject.parameters(), **subject.buffers()}
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def restore(subject: Subject, state: dict[str, torch.Tensor]) -> None:
    """Give a model its first weights and buffers back, and drop its gradients."""
    with torch.no_grad():
        for name, tensor in {**subject.parameters(), **subject.buffers()}.items():
            tensor.copy_(state[name])
            tensor.grad = None
