"""Twins: the same computation, written in another way, must give the same answers.

A twin gives the compiler another program: other layouts, other fusions, other graph passes. What is
right for one program and wrong for its twin is a miscompilation that no single program shows.
The literature calls this metamorphic testing, or equivalence modulo inputs:
https://doi.org/10.1145/2594291.2594334
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional
from torch.utils import _pytree

from compilegate.observe import nested
from compilegate.observe.capture import compiling
from compilegate.observe.model.reference import Reference
from compilegate.observe.model.subject import Subject
from compilegate.observe.practices.bench import Bench
from compilegate.observe.practices.unavailable import StepUnavailableError
from compilegate.records.practice import Practice
from compilegate.zoo.example import Argument, argument_of

#: Turns a model into its twin, in place.
Rewrite = Callable[[Subject], None]


def observe(bench: Bench) -> Practice:
    """Compare each twin, in eager and compiled.

    The steps come in pairs. If eager itself does not give the twin's answers, the programs are no
    twins: batch statistics see the halves of a batch.
    """
    if bench.draws:
        bench = _without_dropout(bench)
    for name, rewrite in REWRITES.items():
        with bench.step(f"{name}, in eager") as facts:
            facts.add(bench.compare(bench.build(), _twin(bench, rewrite)))
        if bench.has_failed:
            continue
        with bench.step(name) as facts:
            facts.add(bench.compare(_twin(bench, rewrite), _compiled_twin(bench, rewrite)))
    return bench.practice()


def _without_dropout(bench: Bench) -> Bench:
    """Return a bench whose layers of dropout drop nothing.

    Masks are drawn in the order of memory. Code with another layout, as Inductor chooses it for
    convolutions, drops other elements than eager.
    """
    builder = replace(bench.builder, drops=False)
    return replace(bench, builder=builder, reference=Reference(builder))


def _twin(bench: Bench, rewrite: Rewrite) -> Subject:
    subject = bench.build()
    rewrite(subject)
    return subject


def _compiled_twin(bench: Bench, rewrite: Rewrite) -> Subject:
    bench.forget_compiled()
    subject = _twin(bench, rewrite)
    options = compiling.options(bench.builder.case, bench.request.backend)
    subject.run = torch.compile(subject.run, **options)
    return subject


def _disguise_inputs(subject: Subject) -> None:
    """Reshape, mask and transpose the inputs, which changes none of their values."""
    run = subject.run

    def disguised(*args: Any, **kwargs: Any) -> Any:
        changed = [_masked(value) for value in args]
        return run(*changed, **{name: _masked(value) for name, value in kwargs.items()})

    subject.run = disguised


def _halve_batch(subject: Subject) -> None:
    """Call the model with the last part of a batch, then with the first, and join the outputs."""
    run, batch = subject.run, _batch_dims(subject)

    def halved(*args: Any, **kwargs: Any) -> Any:
        dims = {id(argument_of(name, args, kwargs)): dim for name, dim in batch.items()}

        def part(tensor: torch.Tensor, *, first: bool) -> torch.Tensor:
            dim = dims.get(id(tensor))
            return tensor if dim is None else _halves(tensor, dim)[not first]

        last, first = (
            run(
                *nested.mapped(args, functools.partial(part, first=is_first)),
                **nested.mapped(kwargs, functools.partial(part, first=is_first)),
            )
            for is_first in (False, True)
        )
        return _pytree.tree_map(_joined, first, last)

    subject.run = halved


def _disguise_layers(subject: Subject) -> None:
    """Let the output of each layer pass through a view, a transposition or a padding."""
    changes = itertools.cycle((_viewed, _transposed_twice, _padded_and_cut))
    for layer, change in zip(_layers(subject), changes, strict=False):
        layer.register_forward_hook(_changing(change))
    run = subject.run

    def contiguous(*args: Any, **kwargs: Any) -> Any:
        return _pytree.tree_map_only(torch.Tensor, torch.Tensor.contiguous, run(*args, **kwargs))

    subject.run = contiguous  # the last layer's output may be cut


def _split_layers(subject: Subject) -> None:
    """Compute the two halves of each layer's features apart, and join them."""
    layers = [(layer, _SPLIT[type(layer)]) for layer in _layers(subject) if type(layer) in _SPLIT]
    wide = [(layer, of) for layer, of in layers if layer.get_parameter("weight").shape[of.dim] > 1]
    if not wide:
        raise StepUnavailableError(
            "the model has no linear layer, convolution or embedding with several features"
        )
    for layer, of in wide:
        layer.register_forward_hook(of.hook)


#: What is rewritten, and how. The keys are names of steps.
REWRITES: Mapping[str, Rewrite] = {
    "inputs reshaped, masked and transposed twice": _disguise_inputs,
    "the batch in two parts, the last one first": _halve_batch,
    "views, double transpositions and cut padding after layers": _disguise_layers,
    "layers split and joined": _split_layers,
}


def _batch_dims(subject: Subject) -> dict[Argument, int]:
    """Return which dimension of each input is the batch: the first that the model declares.

    Raises:
        StepUnavailableError: The model declares none.
    """
    dims = subject.example.dims
    names = [name for declared in dims.values() for name in declared.values()]
    if not names:
        raise StepUnavailableError("the model declares no batch dimension")
    return {
        argument: dim
        for argument, declared in dims.items()
        for dim, name in declared.items()
        if name == names[0]
    }


def _joined(first: Any, last: Any) -> Any:
    """Join the outputs of two parts of a batch. What has no batch is that of the first part."""
    is_tensor = isinstance(first, torch.Tensor) and first.dim() > 0
    return torch.cat([first, last]) if is_tensor else first


def _masked(x: Any) -> Any:
    """Return equal values that were reshaped, masked where nothing is, and transposed twice."""
    if not isinstance(x, torch.Tensor):
        return x
    x = x.reshape(-1).reshape(x.shape)
    if x.is_floating_point():
        x = torch.where(x.isnan(), x.new_zeros(()), x)
    return _transposed_twice(x).contiguous()


def _viewed(x: torch.Tensor) -> torch.Tensor:
    return x.unsqueeze(0).squeeze(0)


def _transposed_twice(x: torch.Tensor) -> torch.Tensor:
    if x.dim() < 2:
        return x
    return x.transpose(-1, -2).contiguous().transpose(-1, -2)


def _padded_and_cut(x: torch.Tensor) -> torch.Tensor:
    return functional.pad(x, (0, 1))[..., :-1]


def _layers(subject: Subject) -> Iterator[nn.Module]:
    """Yield the innermost modules that have parameters.

    Raises:
        StepUnavailableError: The model is a function, or a single layer.
    """
    module = subject.module
    layers = [
        one
        for one in (module.modules() if isinstance(module, nn.Module) else ())
        if one is not module and not [*one.children()] and [*one.parameters()]
    ]
    if not layers:
        raise StepUnavailableError("the model has no layers inside")
    yield from layers


def _changing(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    """Return a hook that changes the output of a layer, where it is one floating tensor."""

    def hook(layer: nn.Module, args: Any, output: Any) -> Any:
        floats = isinstance(output, torch.Tensor) and output.is_floating_point()
        return change(output) if floats and output.dim() > 0 else output

    return hook


def _halves(weight: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    size = weight.shape[dim]
    return weight.narrow(dim, 0, size // 2), weight.narrow(dim, size // 2, size - size // 2)


def _bias_halves(layer: Any) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    return (None, None) if layer.bias is None else _halves(layer.bias, 0)


def _split_linear(layer: nn.Linear, args: Any, output: torch.Tensor) -> torch.Tensor:
    parts = zip(_halves(layer.weight, 0), _bias_halves(layer), strict=True)
    return torch.cat([functional.linear(args[0], *part) for part in parts], -1)


def _split_convolution(layer: nn.Conv2d, args: Any, output: torch.Tensor) -> torch.Tensor:
    if layer.groups > 1:
        return output
    parts = zip(_halves(layer.weight, 0), _bias_halves(layer), strict=True)
    return torch.cat([layer._conv_forward(args[0], *part) for part in parts], 1)


def _split_embedding(layer: nn.Embedding, args: Any, output: torch.Tensor) -> torch.Tensor:
    padding = layer.padding_idx
    halves = _halves(layer.weight, 1)
    return torch.cat([functional.embedding(args[0], half, padding) for half in halves], -1)


class _Split(NamedTuple):
    """How a layer is split: the hook that does it, and the dimension of features in its weight."""

    hook: Callable[..., torch.Tensor]
    dim: int


_SPLIT: Mapping[type[nn.Module], _Split] = {
    nn.Linear: _Split(_split_linear, 0),
    nn.Conv2d: _Split(_split_convolution, 0),
    nn.Embedding: _Split(_split_embedding, 1),
}
