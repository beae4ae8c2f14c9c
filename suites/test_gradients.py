"""Compiled gradients equal eager's, for every parameter and every floating input.

A fixed random cotangent over all outputs keeps gradients from cancelling out.
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_faq.html
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.judging.tensors import BLIND_SHARE, examine, untreated
from compilegate.records.observation import Observation

#: A gradient that is finite in eager alone, in a call in which some outputs have no loss.
_NAN_WITHOUT_LOSS = re.compile(
    r"probing call.*, a loss of .*: nonfinite differs: eager (?!nan|-?inf).*, compiled nan"
)
_CAUSE_OF_NAN = (
    "AOTAutograd gives outputs without a loss a gradient of zeros, and zero times an infinite "
    "derivative is NaN: detach what is only logged, or keep its derivative finite"
)


def rule(observation: Observation, budget: Budget) -> Finding:
    """No gradient may differ beyond eager's own noise."""
    seen = examine(observation, "gradients")
    if seen.finding is not None:
        return _with_cause_of_nan(seen.finding)
    calls = len(observation.calls)
    if observation.calls and all(call.raised for call in observation.calls):
        return Finding("passed", f"raises in all {calls} calls, as eager does")
    overflowed = sum(call.overflowed for call in observation.calls)
    if overflowed and (overflowed == calls or seen.floating == 0):
        text = f"overflow in all {overflowed} calls, in eager too: no optimizer would use them"
        return Finding("inconclusive", f"blind: scaled gradients {text}")
    if seen.floating == 0:
        return Finding("skipped", "nothing to differentiate: eager produces no gradient either")
    also = f", {overflowed} of which overflow as in eager" if overflowed else ""
    summary = (
        f"{seen.floating} gradients and updates over {calls} calls{also}{seen.notes}, "
        f"error {seen.worst:.2g}{untreated(observation, 'gradients')}{_left_out(observation)}"
    )
    if seen.blind_times > BLIND_SHARE * seen.floating:
        return Finding("inconclusive", f"blind: {summary}", seen.blind_lines)
    return Finding("passed", summary, seen.blind_lines)


def _with_cause_of_nan(finding: Finding) -> Finding:
    """Add why a gradient is NaN where some outputs have no loss, if that is what failed."""
    if not any(map(_NAN_WITHOUT_LOSS.match, (finding.summary, *finding.complaints))):
        return finding
    return replace(finding, details=(*finding.details, _CAUSE_OF_NAN))


def _left_out(observation: Observation) -> str:
    why = observation.left_out
    overlap = f"; two overlapping calls not tested: {why}" if why else ""
    return _inputs_left_out(observation) + overlap


def _inputs_left_out(observation: Observation) -> str:
    if not observation.input_gradients:
        return "; inputs cannot be differentiated in eager"
    names = observation.written_inputs
    return (
        f"; no gradients of {', '.join(names)}: autograd forbids in-place writes to these inputs"
        if names
        else ""
    )


@pytest.mark.aspect("gradients")
def test_gradients_match_eager(judge: Judge) -> None:
    judge(rule)
