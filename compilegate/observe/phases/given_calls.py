"""Probing calls of recipes that give their arguments: whether the first call can be made again."""

from __future__ import annotations

from functools import cached_property

import torch

from compilegate.observe import error_text
from compilegate.observe.compare import stable
from compilegate.observe.model.calls import FIRST_PROBE, PlannedCall, gives_arguments
from compilegate.observe.model.forward import SelectorError
from compilegate.observe.model.probes import Probe
from compilegate.observe.model.result import Result
from compilegate.observe.phases.calls import PairedCalls
from compilegate.observe.phases.probed_references import ProbedReferences

#: If eager and the reference disagree in a larger share of the output, calls before have left
#: state that the reference lacks: it begins with the parameters and buffers of eager alone.
_MOST_UNLIKE = 0.1
_AGAIN = PlannedCall(FIRST_PROBE, {})


class GivenCalls:
    """Says which probing calls a recipe that gives its arguments cannot have.

    Args:
        calls: Made the calls of the case.
        references: Make the calls in float64.
    """

    def __init__(self, calls: PairedCalls, references: ProbedReferences) -> None:
        self._calls, self._references = calls, references

    def against(self, probe: Probe) -> str:
        """Return why a probing call is left out; empty if it is made.

        Raises:
            Exception: Memory ran out, or the GPU's context is lost.
        """
        if not gives_arguments(self._calls.eager.example):
            return ""
        if probe.makes_inputs:
            return "the recipe has no function that makes other inputs"
        return self._reason

    @cached_property
    def _reason(self) -> str:
        """Why the first call cannot be made again; empty if it can.

        The calls that a recipe lists may build on each other: a cache grows, an action swaps
        weights.
        """
        if any(call.before or call.after for call in self._calls.eager.example.calls):
            return "the recipe lists actions before or after its calls"
        if any(made.raised for made in self._calls.seen.calls):
            return "eager raises in a call that the recipe lists"
        try:
            self._calls.eager.prepare(_AGAIN)
        except Exception as error:
            return f"the arguments cannot be copied: {error_text.with_kind(error)}"
        return self._reason_of_result()

    def _reason_of_result(self) -> str:
        """Make the first call again, and return what prevents its comparison."""
        try:
            made = self._calls.call_eager(_AGAIN)
        except SelectorError as error:
            return f"in the first call again, {error}"
        if made.error is not None:
            return f"the first call again raises in eager {error_text.with_kind(made.error)}"
        truths = self._references.results(_AGAIN, made)
        if not truths:
            return f"the reference of the first call again raises {self._references.trouble}"
        share = min(_unlike(made, truth) for truth in truths)
        if share <= _MOST_UNLIKE:
            return ""
        return f"in the first call again, eager and float64 disagree in {share:.0%} of the output"


def _unlike(made: Result, truth: Result) -> float:
    """Return the share of the output of eager that is far from a reference; 1 for other shapes."""
    if _shapes(made) != _shapes(truth):
        return 1.0
    return stable.settled(made, made, [truth])[1]


def _shapes(made: Result) -> dict[str, torch.Size | None]:
    """Return the shapes of an output; None for what is no tensor."""
    return {
        name: value.shape if isinstance(value, torch.Tensor) else None
        for name, value in made.output.items()
    }
