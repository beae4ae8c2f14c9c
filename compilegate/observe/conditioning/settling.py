"""Treat each module of a model in its first call: statistics, biases and the scale of layers."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from compilegate.observe.conditioning.edits import ADDED_NOISE, Edits
from compilegate.observe.conditioning.visibility import in_band, spread_of
from compilegate.observe.floating import has_arithmetic

#: After a batch norm, every eighth channel is on the other side of zero, and another one near the
#: upper end of the clamps.
ONE_IN = 8


@contextlib.contextmanager
def settling(edits: Edits, *, rescale: bool) -> Iterator[None]:
    """Treat each module in its first call, so that later modules get the inputs of a treated model.

    Args:
        edits: Collects the changes.
        rescale: Whether to rescale layers whose output is out of the band.
    """
    module = edits.subject.module
    assert isinstance(module, nn.Module)
    owners = Counter(id(p) for part in module.modules() for p in part.parameters(recurse=False))
    sides = _sides(module)
    seen: set[nn.Module] = set()

    def before(part: nn.Module, args: tuple[Any, ...]) -> None:
        if part in seen:
            return
        if args and isinstance(args[0], Tensor):
            _prepare_norm(edits, part, args[0].detach(), sides)
        if (bias := _sized_bias(edits, part)) is not None:
            edits.write_bias(bias, 0.0)

    def after(part: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> Any:
        if part in seen:
            return output
        seen.add(part)
        if not isinstance(output, Tensor) or not has_arithmetic(output) or output.numel() < 2:
            return output

        def again() -> Tensor:
            called: Tensor = part.forward(*args, **kwargs)
            return called

        weight = part._parameters.get("weight")
        if rescale and weight is not None and weight.dim() > 1 and owners[id(weight)] == 1:
            output = _rescaled(edits, weight, output, again)
        if (bias := _sized_bias(edits, part)) is not None:
            edits.write_bias(bias, spread_of(output))
            output = again()
        return output

    with contextlib.ExitStack() as stack:
        hookable = (p for p in module.modules() if not isinstance(p, torch.jit.ScriptModule))
        for part in hookable:
            stack.callback(part.register_forward_pre_hook(before).remove)
            stack.callback(part.register_forward_hook(after, with_kwargs=True).remove)
        yield


def _sides(module: nn.Module) -> list[float]:
    """Return the biases that the channels of a model's batch norms get, in turn."""
    parts = [*module.modules()]
    ends = [part.max_val for part in parts if isinstance(part, nn.Hardtanh)]
    sides = [1.0] * ONE_IN
    sides[0] = -1.0
    if any(isinstance(part, (nn.Hardswish, nn.Hardsigmoid)) for part in parts):
        sides[0], ends = -2.0, [*ends, 3.0]
    if ends:
        sides[ONE_IN // 2] = max(ends) - 1
    return sides


def _prepare_norm(edits: Edits, part: nn.Module, given: Tensor, sides: Sequence[float]) -> None:
    """Set the fresh statistics of a norm and its zero bias from its input of shape (N, C, …).

    Random networks of BatchNorm and ReLU are chaotic: each layer subtracts what its channels have
    in common, and scales up what rounding left of the rest, until bf16 gradients are noise. So the
    mean is set half way to that of the channel. The variance is set half way between the mean
    squares over all channels and over the channel.

    The bias moves to one, where few units are near the kink of ReLU. In some channels it moves to
    minus one, as far from the kink: without negative numbers, a ReLU that leaks would compute the
    same, also in every window of a max-pool. In a model with clamps such as ReLU6, it moves in some
    channels to one from their ends, which hardly any number would reach otherwise. The bias does
    not move after an activation, because channels may be dead there, and everything else in them is
    noise.

    Args:
        edits: Collects the changes.
        part: Any module. Only a norm with running statistics is changed.
        given: Its input.
        sides: The biases of the channels, in turn.
    """
    buffers, bias = part._buffers, part._parameters.get("bias")
    mean, variance = (buffers.get(name) for name in ("running_mean", "running_var"))
    if mean is None or variance is None or given.shape[1:2] != mean.shape:
        return
    channels = given.double().transpose(0, 1).flatten(1)
    center = channels.mean(1) * 0.5
    squares = (channels - center[:, None]).square().mean(1)
    if {id(mean), id(variance)} <= edits.fresh:
        edits.write(mean, center)
        edits.write(variance, (squares + squares.mean()) / 2)
    if id(bias) in edits.biases and channels.min() < -channels.std():
        assert bias is not None
        _, noise = edits.biases[id(bias)]
        turns = torch.tensor(sides).repeat(-(-bias.numel() // len(sides)))[: bias.numel()]
        edits.write(bias, turns.to(bias) + ADDED_NOISE * noise)


def _sized_bias(edits: Edits, part: nn.Module) -> Tensor | None:
    """Return the constant bias of a layer that has a matrix. A norm has a gain instead."""
    weight, bias = part._parameters.get("weight"), part._parameters.get("bias")
    return bias if weight is not None and weight.dim() > 1 and id(bias) in edits.biases else None


def _rescaled(edits: Edits, weight: Tensor, output: Tensor, again: Callable[[], Tensor]) -> Tensor:
    """Scale the weight of a layer until its output is in the band. Return the output."""
    original, first = weight.detach().clone(), output
    for _ in range(3):  # a bias can hide the scale
        spread = spread_of(output)
        if in_band(spread) or spread == 0 or not math.isfinite(spread):
            return output
        edits.write(weight, weight.detach() * 2.0 ** -round(math.log2(spread)))
        output = again()
    if not in_band(spread_of(output)):  # a layer that normalises its weight
        edits.write(weight, original)
        return first
    return output
