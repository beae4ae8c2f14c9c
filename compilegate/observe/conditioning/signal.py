"""Signal: changes weights that hide the computation, so that a wrong kernel shows.

A freshly initialised model often cannot show one. Heads and gates that start at zero make any
answer right, layer scales of 1e-6 take a branch out of the sum, a norm gain of exactly one may be
lost without a trace, and BatchNorm's initial statistics let activations die away in evaluation
mode. See ``docs/signal.md``. ``python -m compilegate.observe.conditioning.signal MODEL…`` prints
what the treatment does.
"""

from __future__ import annotations

import argparse
import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from compilegate.observe import error_text
from compilegate.observe.conditioning.visibility import in_band, is_bias, measure, spread_of
from compilegate.observe.model.calls import first_call
from compilegate.observe.model.subject import Subject
from compilegate.records.case import Case, UnknownNameError
from compilegate.records.request import StageReport
from compilegate.zoo import registry
from compilegate.zoo.registry import Model

#: What constant tensors are moved by, relative to their scale.
NOISE = 0.1

#: Constants below are layer scales; random tensors of a smaller root mean square are enlarged.
SMALL_SCALE, TINY = 0.05, 1e-3

#: The index of a call that no case makes.
_OWN_CALL = 1000


@dataclass(frozen=True)
class Treated:
    """What treatment changed.

    Attributes:
        state: New values by the names of parameters and buffers, on the device and in the dtype of
            the built model; empty where nothing had to change.
    """

    state: dict[str, Tensor] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        """Whether anything has to be copied into the model."""
        return bool(self.state)


def treat(
    model: Model, device: str, seed: int, report: StageReport = lambda stage: None
) -> Treated:
    """New values for those weights of a model that hide its computation.

    A throwaway module is built by the recipe under the seed. What is changed, in this order:

    1. Parameters that are constant or vanishingly small: gains and layer scales become noise around
       one; other constants get noise, a bias a tenth of what its layer returns.
    2. BatchNorm's statistics, where they still have their initial values: they come half way to
       those of the first call's activations; its zero biases go to one (see :func:`_prepare_norm`).
    3. The scale of layers, only where :class:`Visibility` then shows a fault: in one forward pass,
       in order, the weight of each layer whose output is out of the band is multiplied by a power
       of two, which rounds nothing (LSUV: Mishkin & Matas, "All you need is a good init", 2015). It
       is dropped if it leaves as many faults.

    Everything else keeps its value, and so do frozen parameters. Nothing is changed in a function,
    where ``Example.signal`` is false, and where the model raises: the observation reports that.

    Args:
        model: Its recipe.
        device: ``cpu`` or ``cuda``.
        seed: Of weights, inputs and noise. The noise is the same on every device.
        report: Told when the model is built, and when it is called.
    """
    try:
        return Treated(_treat(model, device, seed, report))
    except Exception:  # the model's own
        return Treated()


def _treat(model: Model, device: str, seed: int, report: StageReport) -> dict[str, Tensor]:
    case = Case(model.name, device, "train", "f32", "default", "static")
    report("build")
    subject = Subject(model, case, seed, input_gradients=False)
    state = [*subject.parameters().values(), *subject.buffers().values()]
    if not subject.example.signal or not state:
        return {}
    planned = first_call(model.sizes(device))
    # Inputs that no case sees, or BatchNorm's statistics would be those of the case's first call.
    if not subject.example.calls:
        planned = replace(planned, index=_OWN_CALL)
    report("eager")
    edits = _Edits(subject)
    _enliven(edits, torch.Generator().manual_seed(seed))
    figures = measure(subject, planned, _settling(edits, rescale=False))
    result = dict(edits.state)
    if any(figures.faults):
        after = measure(subject, planned, _settling(edits, rescale=True))
        if after.faults < figures.faults:
            result, figures = edits.state, after
    return result if figures.finite else {}


class _Edits:
    """Changes to the parameters and buffers of a subject.

    Attributes:
        state: What has been written, by name.
        fresh: Ids of the running statistics that nothing has set yet.
        biases: By the id of a constant bias, its value and the unit noise that it is to get.
    """

    def __init__(self, subject: Subject) -> None:
        tensors = {**subject.parameters(), **subject.buffers()}
        self.subject = subject
        self.state: dict[str, Tensor] = {}
        self.biases: dict[int, tuple[float, Tensor]] = {}
        self.fresh = {
            id(tensor)
            for name, tensor in tensors.items()
            if name.endswith(("running_mean", "running_var")) and _constant(tensor) is not None
        }
        self._names = {id(tensor): name for name, tensor in tensors.items()}

    def write(self, tensor: Tensor, value: Tensor) -> None:
        """Change a tensor of the module in place."""
        with torch.no_grad():
            tensor.copy_(value)
        self.state[self._names[id(tensor)]] = tensor.detach().clone()

    def write_bias(self, bias: Tensor, scale: float) -> None:
        """Give a constant bias its noise, beside activations of some scale."""
        constant, noise = self.biases[id(bias)]
        self.write(bias, constant + NOISE * scale * noise)


def _enliven(edits: _Edits, generator: torch.Generator) -> None:
    """Move parameters that are constant or vanishingly small."""
    for name, parameter in edits.subject.parameters().items():
        if not (parameter.requires_grad and parameter.is_floating_point() and parameter.numel()):
            continue
        constant = _constant(parameter)
        if constant is None:
            if (size := _size(parameter)) < TINY:
                edits.write(parameter, parameter.detach() * (NOISE / size))
            continue
        noise = torch.randn(parameter.shape, generator=generator).to(parameter)
        if is_bias(name):
            edits.biases[id(parameter)] = constant, noise
            edits.write_bias(parameter, 1.0)
        elif constant == 0 and not _is_gain(name, parameter):
            edits.write(parameter, NOISE * noise)
        elif abs(constant) < SMALL_SCALE:
            edits.write(parameter, 1 + NOISE * noise)
        elif parameter.numel() > 1:  # a single number is as informative as any other
            edits.write(parameter, constant * (1 + NOISE * noise))


def _is_gain(name: str, tensor: Tensor) -> bool:
    """Whether a zero multiplies: a gate, or the gain of a norm, which torch calls its weight."""
    return tensor.numel() == 1 or (tensor.dim() == 1 and name.endswith("weight"))


@contextlib.contextmanager
def _settling(edits: _Edits, *, rescale: bool) -> Iterator[None]:
    """Settle each module in its first call, so that what follows sees what it will return."""
    module = edits.subject.module
    assert isinstance(module, nn.Module)
    owners = Counter(id(p) for part in module.modules() for p in part.parameters(recurse=False))
    seen: set[nn.Module] = set()

    def before(part: nn.Module, args: tuple[Any, ...]) -> None:
        if part in seen:
            return
        if args and isinstance(args[0], Tensor):
            _prepare_norm(edits, part, args[0].detach())
        if (bias := _sized_bias(edits, part)) is not None:
            edits.write_bias(bias, 0.0)

    def after(part: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> Any:
        if part in seen:
            return output
        seen.add(part)
        if not isinstance(output, Tensor) or not output.is_floating_point() or output.numel() < 2:
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


def _prepare_norm(edits: _Edits, part: nn.Module, given: Tensor) -> None:
    """Set the fresh statistics of a norm, and its zero bias, by what it is given: (N, C, …).

    Random networks of BatchNorm and ReLU are chaotic: each layer subtracts what its channels have
    in common and enlarges what rounding left of the rest, until bf16 gradients are noise. So the
    mean is set half way to that of the channel, and the variance half way from the mean square over
    all channels to that of the channel. The bias is moved to one, where few units are near ReLU's
    kink; not after an activation, where channels may be dead, and all the rest of them noise.
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
        edits.write(bias, 1 + NOISE * noise)


def _sized_bias(edits: _Edits, part: nn.Module) -> Tensor | None:
    """The constant bias of a layer: beside a matrix, not beside the gain of a norm."""
    weight, bias = part._parameters.get("weight"), part._parameters.get("bias")
    return bias if weight is not None and weight.dim() > 1 and id(bias) in edits.biases else None


def _rescaled(edits: _Edits, weight: Tensor, output: Tensor, again: Callable[[], Tensor]) -> Tensor:
    """The output of a layer after its weight was scaled to bring it into the band."""
    original, first = weight.detach().clone(), output
    for _ in range(3):  # more than once where a bias hides the scale
        spread = spread_of(output)
        if in_band(spread) or spread == 0 or not math.isfinite(spread):
            return output
        edits.write(weight, weight.detach() * 2.0 ** -round(math.log2(spread)))
        output = again()
    if not in_band(spread_of(output)):  # a layer that normalises its weight
        edits.write(weight, original)
        return first
    return output


def _constant(tensor: Tensor) -> float | None:
    """The value that all elements have."""
    flat = tensor.detach().flatten()
    if flat.numel() > 1 and flat[0] != flat[1]:  # nearly always, and quickly found
        return None
    return float(flat[0]) if bool((flat == flat[0]).all()) else None


def _size(tensor: Tensor) -> float:
    """Root mean square."""
    return float(tensor.detach().norm()) / math.sqrt(tensor.numel())


def main() -> None:
    """Print the figures of models before and after treatment, on CPU."""
    description = "Print how well models show their computation, before and after treatment."
    parser = argparse.ArgumentParser(
        "python -m compilegate.observe.conditioning.signal", description=description
    )
    parser.add_argument("names", nargs="*", metavar="MODEL", help="default: the whole zoo")
    parser.add_argument("--zoo", action="append", default=[], metavar="FILE", help="a zoo file")
    parser.add_argument("--seed", type=int, default=0, help="of weights and inputs (default: 0)")
    options = parser.parse_args()
    try:
        models = registry.load_with(options.zoo)
        for name in options.names:
            if name not in models:
                raise UnknownNameError("model", name, models)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    print(f"{'model':32} {'spread of outputs':>24} {'silent':>12} {'remote':>12}")
    for name in options.names or models:
        _print_figures(models[name], options.seed)


def _print_figures(model: Model, seed: int) -> None:
    rows = []
    try:
        for state in ({}, treat(model, "cpu", seed).state):
            case = Case(model.name, "cpu", "train", "f32", "default", "static")
            subject = Subject(model, case, seed, input_gradients=False, weights=state)
            if not subject.parameters():
                print(f"{model.name:32} has no parameters")
                return
            rows.append(measure(subject, first_call(model.sizes("cpu"))))
    except Exception as error:  # the model's own
        print(f"{model.name:32} {error_text.with_kind(error)}")
        return
    for label, figures in zip((model.name, "  treated"), rows, strict=True):
        low, high = (most(figures.spreads.values(), default=0.0) for most in (min, max))
        total = len(figures.gradients)
        counts = [f"{len(found)}/{total}" for found in (figures.silent, figures.remote)]
        print(f"{label:32} {low:11.2g} … {high:10.2g} {counts[0]:>12} {counts[1]:>12}")


if __name__ == "__main__":
    main()
