"""Compiled outputs equal eager's in structure, shape, dtype, stride, aliasing, and every value.

Values are compared with an fp64 run, at every call and every size.
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_troubleshooting.html
"""

from __future__ import annotations

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.judging.tensors import examine, untreated
from compilegate.records.observation import Observation


def rule(observation: Observation, budget: Budget) -> Finding:
    """No output may differ beyond eager's own noise."""
    seen = examine(observation, "outputs")
    if seen.finding is not None:
        return seen.finding
    raised = [call.raised for call in observation.calls if call.raised]
    calls = len(observation.calls)
    if raised and len(raised) == calls:
        return Finding("passed", f"raises in all {calls} calls as eager does: {raised[0]}")
    if seen.tensors == 0:
        return Finding("failed", "the model returned no tensor: there is nothing to compare")
    if seen.compared == 0:
        hint = "return its tensors, or pick them with Example.output"
        return Finding("failed", f"no output can be compared: {seen.opaque[0]}; {hint}")
    figures = untreated(observation, "outputs")
    if seen.blind:
        name, why = next(iter(seen.blind.items()))
        return Finding("inconclusive", f"blind: {name} {why}{figures}", seen.blind_lines)
    also = f", {len(raised)} of which raise as eager does" if raised else ""
    probes = f" and {len(observation.probes)} probing calls" if observation.probes else ""
    summary = f"{seen.tensors} outputs over {calls} calls{probes}{also}{seen.notes}"
    return Finding("passed", f"{summary}, error {seen.worst:.2g}{figures}")


@pytest.mark.aspect("forward")
def test_outputs_match_eager(judge: Judge) -> None:
    judge(rule)
