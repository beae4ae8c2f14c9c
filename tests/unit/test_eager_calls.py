"""Eager calls: what compiles itself in them is no work of compiled code."""

import pytest
import torch
import torch._dynamo.utils as dynamo
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from compilegate.judging.budget import Budget
from compilegate.judging.judge import judge
from compilegate.observe.capture import compile_log, eager_calls
from compilegate.suites import test_graph_breaks, test_recompiles
from tests.unit.observed import Linear, observation


class Attention(nn.Module):
    """Attends causally. It makes the mask at each call, whose length may be another one.

    Args:
        reads_mask: Whether Python reads a value of the mask.
    """

    def __init__(self, *, reads_mask=False):
        super().__init__()
        self.project = nn.Linear(4, 12)
        self.reads_mask = reads_mask

    def forward(self, x):
        def causal(b, h, query, key):
            return query >= key

        query, key, value = self.project(x).reshape(len(x), 32, 3, 1, 4).permute(2, 0, 3, 1, 4)
        mask = create_block_mask(causal, None, None, 32, 32, device=x.device.type)
        if self.reads_mask and mask.kv_num_blocks.sum() < 0:
            return query
        return flex_attention(query, key, value, block_mask=mask)


def attention(**options):
    return {"inputs": lambda batch: (torch.randn(batch, 32, 4),), "signal": False, **options}


def verdict_on(seen, suite, aspect):
    return judge(seen, Budget(), aspect, suite.rule, seen.wants).verdict


@pytest.mark.long
def test_a_block_mask_that_forward_makes_is_no_graph_break():
    seen = observation(Attention, backend="inductor", **attention())
    assert verdict_on(seen, test_graph_breaks, "graph_breaks").outcome == "passed"
    assert verdict_on(seen, test_recompiles, "recompiles").outcome == "passed"
    assert seen.capture.graphs == 2  # one for each batch
    assert all(
        "_flex_attention_hop_wrapper" not in c.code.function for c in seen.capture.compilations
    )


def test_a_block_mask_whose_values_python_reads_is_a_graph_break():
    options = attention(wants=("capture",), batch=(8,))
    seen = observation(lambda: Attention(reads_mask=True), backend="aot_eager", **options)
    found = verdict_on(seen, test_graph_breaks, "graph_breaks")
    assert found.outcome == "failed"
    assert "1 graph break not budgeted: generic_jump" in found.summary


def doubled(x, y):
    return 2 * y


def compiles_itself():
    """Return a layer that gives its output to a function, which compiles itself in eager."""

    def action(x, y):
        compiled = torch.compiler.is_compiling()
        return (doubled if compiled else torch.compile(doubled, backend="eager"))(x, y)

    return Linear(action)


def test_what_eager_compiles_while_it_is_timed_is_left_out():
    seen = observation(compiles_itself, "train", wants=("capture", "time", "vary"))
    assert (seen.status, seen.capture.graphs) == ("completed", 2)
    assert "doubled" not in {one.code.function for one in seen.capture.compilations}


def test_records_are_as_before_the_block_and_code_stays():
    compile_log.reset()
    compiled = torch.compile(doubled, backend="eager")
    try:
        with eager_calls.left_out() as found:
            compiled(1, torch.ones(3))
        assert (len(found), compile_log.graphs(), compile_log.compilations()) == (1, 0, 0)
        compiled(1, torch.ones(3))
        assert compile_log.compilations() == 0
        compiled(1, torch.ones(3, 4))
        assert (compile_log.graphs(), compile_log.compilations()) == (1, 1)
        assert dynamo.graph_break_reasons == []
    finally:
        compile_log.reset()
