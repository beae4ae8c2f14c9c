"""Build the module of a model under a seed, in one precision, on one device."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from compilegate.observe.model import cast_weights
from compilegate.observe.model.calls import arguments, first_call
from compilegate.observe.model.given_arguments import with_own_inputs
from compilegate.observe.model.holder import holder_of
from compilegate.observe.model.seeding import QuickWeights, seed_everything
from compilegate.observe.threads import one_thread
from compilegate.records.case import Case
from compilegate.zoo.example import Example
from compilegate.zoo.registry import Model, ZooError

#: The parameters of modules that recipes have returned, and the names of the recipes.
_BUILT: WeakIdKeyDictionary = WeakIdKeyDictionary()


def build(
    model: Model,
    case: Case,
    seed: int,
    *,
    dtype: torch.dtype | None,
    weights: Mapping[str, torch.Tensor] | None,
) -> Example:
    """Call the recipe of a model and prepare its module for a case.

    Args:
        model: The zoo entry.
        case: The case, which determines the device and the phase.
        seed: The seed of the weights.
        dtype: The precision of floating parameters and buffers; None keeps that of the case.
        weights: Values that replace those of parameters and buffers, by name.

    Raises:
        ZooError: The recipe returns a module that it has returned before.
    """
    seed_everything(seed)
    with one_thread(), QuickWeights():
        example = with_own_inputs(model.example(case.device))
    module = holder_of(example.module)
    _refuse_shared(module, model)
    _initialize_lazy_parameters(module, model, example, case.device)
    module.train(case.phase == "train")
    with torch.no_grad():
        for name, tensor in {**parameters_of(module), **buffers_of(module)}.items():
            if weights and name in weights:
                tensor.copy_(weights[name])
    cast_weights.cast(module, case, lifted=dtype)
    return example


def _refuse_shared(module: nn.Module, model: Model) -> None:
    """Refuse a module that another side has: it would be cast and trained for both.

    A part of a model that triage compiles alone is another recipe's.
    """
    parameters = [*module.parameters()]
    if any(_BUILT.get(parameter) == model.name for parameter in parameters):
        raise ZooError(
            f"the recipe of {model.name} returns the same module again, or a part of it: eager, "
            "compiled code and the reference each need their own. Build the module in the recipe, "
            "or return copy.deepcopy(MODULE)"
        )
    for parameter in parameters:
        _BUILT[parameter] = model.name


def parameters_of(module: object) -> dict[str, nn.Parameter]:
    """The parameters of a model by name; of a function, those of the modules that it holds."""
    return dict(holder_of(module).named_parameters())


def buffers_of(module: object) -> dict[str, torch.Tensor]:
    """The buffers of a model by name; of a function, those of the modules that it holds."""
    return dict(holder_of(module).named_buffers())


def _initialize_lazy_parameters(
    module: nn.Module, model: Model, example: Example, device: str
) -> None:
    """Call a lazy module once: PyTorch creates its parameters in the first call."""
    state = (*module.parameters(), *module.buffers())
    if any(map(nn.parameter.is_lazy, state)):
        call = arguments(example, first_call(model.sizes(device)))
        with torch.no_grad():
            module.eval()
            example.module(*call.args, **call.kwargs)
