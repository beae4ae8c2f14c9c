"""CUDA graphs, as far as it can be seen without a GPU: what PyTorch says of those it leaves out."""

import logging
from collections import Counter
from types import SimpleNamespace

import pytest
import torch._dynamo.utils as dynamo
from torch._inductor import cudagraph_utils, output_code
from torch._inductor.utils import BoxedBool

from compilegate.observe.capture import compile_log, cuda_graphs
from compilegate.observe.capture.compile_log import Recorder


@pytest.fixture(autouse=True)
def clean():
    """Nothing compiled or counted before, nothing left behind."""
    compile_log.reset()
    yield
    compile_log.reset()


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("skipping cudagraphs due to mutated inputs (1 instances)", True),
        ("CUDAGraph supports dynamic shapes by recording a new graph for each size", False),
    ],
)
def test_why_graphs_are_skipped_is_kept_and_advice_is_not(said, kept):
    compile_log.reset()
    cudagraph_utils.cudagraphs_log.warning("%s\nFound from: …", said)
    assert Recorder().capture().cudagraph_skips == ((said,) if kept else ())


def test_a_graph_that_is_cut_into_parts_runs_without_cuda_graphs_between_them():
    compile_log.reset()
    assert not Recorder().capture().cudagraph_skips
    dynamo.counters["inductor"]["cudagraph_partitions"] += 3
    (reason,) = Recorder().capture().cudagraph_skips
    assert reason.startswith("in part: cut at operations that cannot be recorded")


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (
            "    op3: reason=cpu ops, ir=Pointwise, fx=aten.sin.default(arg0_1, 2)",
            "in part: cut at cpu ops (aten.sin.default)",
        ),
        ("    op3: reason=DeviceCopy ops, ir=X", "in part: cut at DeviceCopy ops"),
        ("Created 1 graph partitions: 1 cudagraphable, 0 non-cudagraphable", None),
        ("    op3: reason=partition … when cudagraphs is disabled, ir=X", None),
        ("         x = refuse(x, reason='none', fx=torch.sin)", None),
    ],
)
def test_at_what_a_graph_is_cut_is_kept(said, kept):
    recorder = Recorder(graphs=True)
    cuda_graphs.cuts_log.debug(said)
    dynamo.counters["inductor"]["cudagraph_partitions"] += kept is not None
    assert recorder.capture().cudagraph_skips == ((kept,) if kept else ())


def test_a_graph_of_which_nothing_can_be_recorded_is_told():
    recorder = Recorder(graphs=True)
    cuda_graphs.cuts_log.debug("    op3: reason=unbacked binding ops, ir=FallbackKernel")
    (reason,) = recorder.capture().cudagraph_skips
    assert reason == "in part: cut at unbacked binding ops"


def test_pytorchs_log_of_debugging_costs_nothing_where_no_graph_is_wanted():
    for graphs in (True, False):
        Recorder(graphs=graphs)
        assert cuda_graphs.cuts_log.isEnabledFor(logging.DEBUG) is graphs


@pytest.mark.parametrize(
    ("recorded", "told"),
    [
        (Counter(FORWARD=2), True),
        (Counter(FORWARD=2, BACKWARD=1), False),
        (Counter(INFERENCE=2), False),
        (Counter(), False),
    ],
)
def test_forwards_without_a_backward_are_told(monkeypatch, recorded, told):
    monkeypatch.setattr(cuda_graphs, "recorded", lambda: recorded)
    seen = Recorder().capture()
    assert any("no graph of a backward" in reason for reason in seen.cudagraph_skips) is told
    assert seen.cudagraphs == recorded.total()


@pytest.mark.parametrize(
    ("reasons", "device", "told"),
    [
        (["non-Tensor inputs"], "cuda", ("skipping cudagraphs due to non-Tensor inputs",)),
        (["non-Tensor inputs"], "cpu", ()),
        ([], "cuda", ()),
    ],
)
def test_a_graph_of_which_pytorch_tells_no_reason_is_told_with_it(reasons, device, told):
    graph = SimpleNamespace(
        cudagraph_info=SimpleNamespace(cudagraph_fail_reasons=reasons),
        device_types={device},
        current_callable=lambda inputs: inputs,
        fx_kwargs={"is_backward": False},
        partition_maps=None,
    )
    output_code.cudagraph_partition_post_compile([], graph, BoxedBool(True), {}, None)
    assert Recorder().capture().cudagraph_skips == told
