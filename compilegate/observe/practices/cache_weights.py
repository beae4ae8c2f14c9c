"""Other weights for the model of a case, which code in a cache must use or must not serve."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
import torch._inductor.config
from torch import nn

from compilegate.observe.model.subject import Subject
from compilegate.observe.model.weight_changes import change_weights
from compilegate.observe.practices.bench import Bench, StepFacts
from compilegate.observe.practices.cache_folders import in_use
from compilegate.observe.practices.unavailable import StepUnavailableError
from compilegate.records.call import Checked

Weights = dict[str, torch.Tensor]


def other_weights(bench: Bench) -> Weights:
    """Return weights that differ from the case's.

    Raises:
        StepUnavailableError: The model has none.
    """
    other = bench.build()
    tensors = [*other.parameters().values(), *other.buffers().values()]
    if not tensors:
        raise StepUnavailableError("the model has no weights")
    change_weights(tensors, other.case.device, bench.request.seed)
    return {name: value.clone() for name, value in _module(other).state_dict().items()}


def compare_with(bench: Bench, facts: StepFacts, weights: Weights) -> None:
    """Compile a new model that has other weights, and compare its call with eager's.

    Args:
        bench: The bench.
        facts: Receives the comparison.
        weights: The weights of both sides.
    """
    eager, compiled = bench.build(), bench.build_compiled()
    for subject in (eager, compiled):
        _module(subject).load_state_dict(weights)
    facts.add(bench.compare(eager, compiled, weights=weights))


def freeze(bench: Bench, folder: Path) -> None:
    """Compile the model with frozen weights, then with others, which code must not mix up.

    Inductor looks a frozen weight up by its shape alone where the code of its graph does not depend
    on its values. A hit is right as long as the answer is that of the other weights.
    """
    name = "freeze other weights, with the code of frozen ones in the cache"
    with torch._inductor.config.patch(freezing=True), bench.step(name) as facts:
        others = other_weights(bench)
        with in_use(bench, folder):
            bench.call(bench.build_compiled())
        with in_use(bench, folder):
            compare_with(bench, facts, others)
            facts.outputs = _of_whole_tensors(facts.outputs)


def _of_whole_tensors(found: Checked) -> Checked:
    """Return a comparison without columns, slices and pooled errors.

    Freezing folds a batch norm into the weights of a convolution, and rounds these again in half
    precision, so that single channels err more than eager's. Old weights show in the whole tensor.
    """
    errors = tuple(replace(error, column=-1, slices=()) for error in found.errors)
    return replace(found, errors=errors, pooled=None)


def _module(subject: Subject) -> nn.Module:
    """Return the original module of a model that has weights."""
    assert isinstance(subject.module, nn.Module)
    return subject.module
