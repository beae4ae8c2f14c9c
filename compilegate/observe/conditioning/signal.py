"""Signal: change weights that hide the computation, so that a wrong kernel shows.

A freshly initialised model often hides wrong kernels. If heads and gates start at zero, every
answer is right. A layer scale of 1e-6 removes a branch from the sum. If a norm gain is exactly one,
compiled code can lose it without a trace. With BatchNorm's initial statistics, activations vanish
in evaluation mode.

``python -m compilegate.observe.conditioning.signal MODEL…`` prints the effect of the treatment.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from compilegate.observe import error_text
from compilegate.observe.conditioning.branches import Branches
from compilegate.observe.conditioning.edits import ADDED_NOISE, Edits, constant_of, size_of
from compilegate.observe.conditioning.settling import settling
from compilegate.observe.conditioning.visibility import is_bias, measure_visibility
from compilegate.observe.floating import has_arithmetic
from compilegate.observe.model.calls import first_call
from compilegate.observe.model.subject import Subject
from compilegate.output.streams import clean_streams
from compilegate.records.case import AXES, Case, UnknownNameError
from compilegate.records.request import StageReport
from compilegate.zoo import registry
from compilegate.zoo.registry import Model

#: Constants below the first number are layer scales. Random tensors whose root mean square is below
#: the second are scaled up.
SMALL_SCALE, TINY = 0.05, 1e-3

#: The index of a call that no case makes.
_OWN_CALL = 1000


@dataclass(frozen=True)
class Treated:
    """The result of a treatment.

    Attributes:
        state: The new values of parameters and buffers by name, on the device and in the dtype of
            the built model. It is empty if nothing had to change.
    """

    state: dict[str, Tensor] = field(default_factory=dict)

    @property
    def description(self) -> Literal["as built", "treated"]:
        """Whether the treatment changed any value, in a word of the observation."""
        return "treated" if self.state else "as built"


def treat(
    model: Model, device: str, seed: int, report: StageReport = lambda stage: None
) -> Treated:
    """Return new values for the weights of a model that hide its computation.

    The recipe builds a separate module under the seed. The treatment changes, in this order:

    1. Parameters that are constant or vanishingly small. Gains and layer scales become noise around
       one. Other constants get noise; that of a bias is a tenth of the output of its layer.
    2. Statistics of BatchNorm that still have their initial values. They move half way to those of
       the activations in the first call. Zero biases of BatchNorm move to one: see
       :mod:`.settling`.
    3. The scale of layers, but only if :class:`Visibility` shows a fault after the first two steps.
       One forward pass multiplies the weight of each layer whose output is out of the band by a
       power of two, which rounds nothing (LSUV: Mishkin & Matas, "All you need is a good init",
       2015). The new scales are dropped if they leave as many faults.

    Everything else keeps its value, and so do frozen parameters. Nothing changes for a function, if
    ``Example.signal`` is false, or if the model raises; the observation reports the error.

    Args:
        model: The zoo entry.
        device: ``cpu`` or ``cuda``.
        seed: The seed of weights, inputs and noise. The noise is the same on every device.
        report: Is called with the stage when the model is built and when it is called.
    """
    try:
        return Treated(_treat(model, device, seed, report))
    except Exception:  # the model raised it
        return Treated()


def _treat(model: Model, device: str, seed: int, report: StageReport) -> dict[str, Tensor]:
    case = Case(model.name, device, "train", "f32", "default", "static")
    report("build")
    subject = Subject(model, case, seed, input_gradients=False)
    state = [*subject.parameters().values(), *subject.buffers().values()]
    if not subject.example.signal or not state:
        return {}
    planned = first_call(model.sizes(device))
    # With the inputs of a case, BatchNorm's statistics would be exactly those of its first call.
    if not subject.example.calls:
        planned = replace(planned, index=_OWN_CALL)
    report("eager")
    edits = Edits(subject)
    _enliven(edits, torch.Generator().manual_seed(seed))
    with subject.recorder.shared.as_left():  # the case's first call finds them as built
        figures = measure_visibility(subject, planned, settling(edits, rescale=False))
        result = dict(edits.state)
        if any(figures.faults):
            after = measure_visibility(subject, planned, settling(edits, rescale=True))
            if after.faults < figures.faults:
                result, figures = edits.state, after
    return result if figures.finite else {}


def _enliven(edits: Edits, generator: torch.Generator) -> None:
    """Add noise to constant parameters, and scale up those that are vanishingly small."""
    for name, parameter in edits.subject.parameters().items():
        if not (parameter.requires_grad and has_arithmetic(parameter) and parameter.numel()):
            continue
        constant = constant_of(parameter)
        if constant is None:
            if (size := size_of(parameter)) < TINY:
                edits.write(parameter, parameter.detach() * (ADDED_NOISE / size))
            continue
        noise = torch.randn(parameter.shape, generator=generator).to(parameter)
        if is_bias(name):
            edits.biases[id(parameter)] = constant, noise
            edits.write_bias(parameter, 1.0)
        elif constant == 0 and not _is_gain(name, parameter):
            edits.write(parameter, ADDED_NOISE * noise)
        elif abs(constant) < SMALL_SCALE:
            edits.write(parameter, 1 + ADDED_NOISE * noise)
        elif parameter.numel() > 1:  # any single number shows as much
            edits.write(parameter, constant * (1 + ADDED_NOISE * noise))


def _is_gain(name: str, tensor: Tensor) -> bool:
    """Whether a zero parameter is a factor: a scalar, or the weight of a norm."""
    return tensor.numel() == 1 or (tensor.dim() == 1 and name.endswith("weight"))


@clean_streams()
def main() -> None:
    """Print how well models show their computation before and after treatment, on CPU."""
    description = (
        "Print how much outputs and gradients depend on the weights, before and after treatment, "
        "and the branches of activations, clamps, masks and pools that no number reaches."
    )
    parser = argparse.ArgumentParser(
        "python -m compilegate.observe.conditioning.signal", description=description
    )
    parser.add_argument("names", nargs="*", metavar="MODEL", help="default: the whole zoo")
    parser.add_argument("--zoo", action="append", default=[], metavar="FILE", help="a zoo file")
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of weights and inputs (default: 0)"
    )
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
            rows.append(measure_visibility(subject, first_call(model.sizes("cpu"))))
        missing = _unreached(model, seed, state)
    except Exception as error:  # the model raised it
        print(f"{model.name:32} {error_text.with_kind(error)}")
        return
    for label, figures in zip((model.name, "  treated"), rows, strict=True):
        low, high = (most(figures.spreads.values(), default=0.0) for most in (min, max))
        total = len(figures.gradients)
        counts = [f"{len(found)}/{total}" for found in (figures.silent, figures.remote)]
        print(f"{label:32} {low:11.2g} … {high:10.2g} {counts[0]:>12} {counts[1]:>12}")
    if missing:
        print(f"  no number reaches: {', '.join(missing)}")


def _unreached(model: Model, seed: int, state: dict[str, Tensor]) -> list[str]:
    """Return the branches that no number of the first call reaches, and in which phase."""
    phases: dict[str, list[str]] = {}
    for phase in AXES["phase"]:
        case = Case(model.name, "cpu", phase, "f32", "default", "static")
        subject = Subject(model, case, seed, input_gradients=False, weights=state)
        followed = Branches()
        with followed:
            subject.forward(subject.prepare(first_call(model.sizes("cpu"))))
        for branch in followed.missing:
            phases.setdefault(branch, []).append(phase)
    return [name if len(seen) > 1 else f"{name} ({seen[0]})" for name, seen in phases.items()]


if __name__ == "__main__":
    main()
