"""More eager calls, which show what is not stable in a call with extreme numbers."""

from __future__ import annotations

from dataclasses import replace

import torch

from compilegate.observe.compare import stable
from compilegate.observe.compare.stable import Rival
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.complex_signs import OtherSigns
from compilegate.observe.model.deviations import Deviations, SquaredDeviations
from compilegate.observe.model.nan_choices import OtherChoices, OtherLayouts
from compilegate.observe.model.probes import Probe
from compilegate.observe.model.result import Result
from compilegate.observe.phases.calls import PairedCalls


def rivals_of(calls: PairedCalls, planned: PlannedCall, probe: Probe, made: Result) -> list[Rival]:
    """Make the eager calls that show where overflow, underflow or a choice decides.

    Args:
        calls: Makes them.
        planned: The probing call.
        probe: What it has.
        made: What eager returns.
    """
    rivals = []
    if probe.rival is not None:
        rivals.append(Rival(calls.call_eager(replace(planned, probe=probe.rivalled()))))
    # A call that may overflow was left out if the square of a deviation does.
    if probe.has_zeros or (probe.rival is not None and not probe.may_overflow):
        squared, signs = SquaredDeviations(), OtherSigns()
        with squared, signs:
            rival = Rival(calls.call_eager(planned), is_as_right=True)
        rivals += [rival] if squared.changed or signs.changed else []
    on_gpu = calls.eager.case.device == "cuda"
    if probe.has_extreme_floats and not (stable.is_finite(made) and _returns_floats(made)):
        with OtherChoices(on_gpu=on_gpu):
            rivals.append(Rival(calls.call_eager(planned), is_as_right=True))
        if on_gpu:
            with OtherLayouts():
                rivals.append(Rival(calls.call_eager(planned)))
    return rivals


def _returns_floats(made: Result) -> bool:
    """Whether all outputs are floating: only those can be NaN and show what NaN decides."""
    tensors = [one for one in made.output.values() if isinstance(one, torch.Tensor)]
    return all(one.is_floating_point() or one.is_complex() for one in tensors)


def squares_overflow(calls: PairedCalls, planned: PlannedCall) -> bool:
    """Whether eager computes a standard deviation in float64 that compiled code cannot square.

    Args:
        calls: Makes the call in eager.
        planned: The probing call.
    """
    deviations = Deviations()
    with deviations:
        calls.call_eager(planned)
    return deviations.overflow
