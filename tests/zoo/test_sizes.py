"""No size that varies is by accident as large as one that does not.

Under ``dynamic=True``, equal sizes of a call's inputs share a symbol. If a layer's weights fix one
of them, PyTorch fixes the other, too, and compiles again for the next size.
"""

import pytest
import torch

from compilegate import Example
from compilegate.observe import nested
from compilegate.zoo import registry

MODELS = {
    f"{name}-{device}": (model, device)
    for name, model in registry.load().items()
    for device in model.devices
    if model.vary and model.family != "regressions"
}


def described(example, sizes):
    """The tensors of a call with their varying dimensions; none if inputs do not vary."""
    if not (callable(example.inputs) or callable(example.kwargs)):
        return []
    given = example.inputs(**sizes) if callable(example.inputs) else example.inputs
    args = given if isinstance(given, tuple) else (given,)
    kwargs = example.kwargs(**sizes) if callable(example.kwargs) else (example.kwargs or {})
    return [
        (name, leaf, example.dims.get(key, {}))
        for key, value in [*enumerate(args), *kwargs.items()]
        for name, leaf in nested.leaves(value, str(key))
        if isinstance(leaf, torch.Tensor)
    ]


def equal_by_accident(example, sizes):
    """The dimensions that do not vary and are as large as one that does."""
    return [
        f"argument {name}, dimension {dim} of {tuple(tensor.shape)}"
        for name, tensor, varying in described(example, sizes)
        for dim, size in enumerate(tensor.shape)
        if varying and dim not in varying and size in sizes.values()
    ]


@pytest.mark.parametrize("name", MODELS)
def test_sizes_that_vary_differ_from_those_that_do_not(name):
    model, device = MODELS[name]
    if model.requires:
        pytest.importorskip(model.requires)
    sizes = {name: some[0] for name, some in model.sizes(device).items()}
    try:
        with torch.device("meta"):
            example = model.example(device)
    except NotImplementedError:  # it computes with its weights while it is built
        example = model.example(device)
    with torch.device("meta"):
        found = equal_by_accident(example, sizes)
    assert len({*sizes.values()}) == len(sizes)
    assert not found


def test_an_accident_is_seen():
    given = Example(
        torch.nn.Identity(),
        inputs=lambda batch, length: (torch.empty(batch, length, 128),),
        dims={0: {0: "batch", 1: "length"}},
    )
    assert equal_by_accident(given, {"batch": 4, "length": 128}) == [
        "argument 0, dimension 2 of (4, 128, 128)"
    ]
    assert not equal_by_accident(given, {"batch": 4, "length": 64})
