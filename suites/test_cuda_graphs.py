"""A mode that uses CUDA graphs records them, and skips none except for reasons in the budget.

Without CUDA graphs ``reduce-overhead`` runs like the default mode and only logs a warning.
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_cudagraph_trees.html
"""

from __future__ import annotations

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.records.observation import Observation
from compilegate.records.wording import counted


def rule(observation: Observation, budget: Budget) -> Finding:
    """CUDA graphs were recorded, and every reason to skip one is known."""
    capture = observation.capture
    assert capture is not None
    unknown = [
        reason
        for reason in capture.cudagraph_skips
        if not any(known in reason for known in budget.cudagraph_skips)
    ]
    if unknown:
        # A reason may state that only a part runs without them.
        lines = [
            f"runs without CUDA graphs{' ' if reason.startswith('in part: ') else ': '}{reason}"
            for reason in unknown
        ]
        # The number of inputs and the operators, in parentheses, change from run to run.
        reasons = {reason.partition(" (")[0] for reason in unknown}
        proposal = {"cudagraph_skips": sorted({*budget.cudagraph_skips, *reasons})}
        return Finding.failure(lines, proposal=proposal)
    known = f"{len(capture.cudagraph_skips)} skipped for budgeted reasons"
    if capture.cudagraphs:
        also = f", {known}" if capture.cudagraph_skips else ""
        return Finding("passed", f"{counted(capture.cudagraphs, 'CUDA graph')} recorded{also}")
    if capture.cudagraph_skips:
        return Finding("passed", f"no CUDA graph, {known}: {capture.cudagraph_skips[0]}")
    return Finding("failed", "no CUDA graph was recorded, and PyTorch names no reason")


@pytest.mark.aspect("cuda_graphs")
def test_cuda_graphs_are_recorded(judge: Judge) -> None:
    judge(rule)
