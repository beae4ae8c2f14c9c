"""Builds the models of a case: the eager one, the compiled one, and those of the reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd as _Dropout

from compilegate.observe.model.float64 import Lifting
from compilegate.observe.model.subject import Subject
from compilegate.observe.phases.progress import Progress
from compilegate.records.case import Case
from compilegate.zoo.registry import Model


@dataclass
class Builder:
    """Builds a case's model again and again, each time with the same weights.

    Attributes:
        model: Its recipe.
        case: The setting.
        seed: Seeds weights, inputs and cotangents.
        progress: Counts the time.
        weights: Values that replace those that the recipe gives, by name.
        input_gradients: Whether floating inputs require a gradient.
        written_inputs: The inputs that do not, because the model writes to them.
        training: Which of ``train()`` and ``eval()`` a module is in; None where its phase says so.
        drops: Whether layers of dropout drop anything.
    """

    model: Model
    case: Case
    seed: int
    progress: Progress
    weights: Mapping[str, torch.Tensor] = field(default_factory=dict)
    input_gradients: bool = False
    written_inputs: tuple[str, ...] = ()
    training: bool | None = None
    drops: bool = True

    def __call__(self, lifting: Lifting | None = None) -> Subject:
        """Build the model, in the precision of a lifting if one is given."""
        with self.progress.spend("build"):
            subject = Subject(
                self.model,
                self.case,
                self.seed,
                lifting=lifting,
                input_gradients=self.input_gradients,
                written_inputs=self.written_inputs,
                weights=self.weights,
            )
            if self.training is not None and isinstance(subject.module, nn.Module):
                subject.module.train(self.training)
            if not self.drops:
                _let_everything_through(subject.module)
            return subject


def _let_everything_through(module: object) -> None:
    for layer in module.modules() if isinstance(module, nn.Module) else ():
        if isinstance(layer, _Dropout):
            layer.p = 0.0
