"""The reasons for which CUDA graphs are skipped, which can be read without a GPU."""

import logging
from collections import Counter
from types import SimpleNamespace

import pytest
import torch._dynamo.utils as dynamo
from torch._inductor import cudagraph_utils, output_code
from torch._inductor.utils import BoxedBool

from compilegate.observe.capture import compile_log, cuda_graphs
from compilegate.observe.capture.compile_log import CompileLog


@pytest.fixture(autouse=True)
def clean():
    """Reset the compiler before and after each test."""
    compile_log.reset()
    yield
    compile_log.reset()


def test_a_reason_for_skipping_is_kept_whichever_log_this_pytorch_writes_it_to():
    message = "skipping cudagraphs due to mutated inputs (1 instances)"
    compile_log.reset()
    cudagraph_utils.log_cudagraph_skip_and_bump_counter(f"{message}\nFound from: …")
    assert CompileLog().capture().cudagraph_skips == (message,)


@pytest.mark.parametrize("log", ["cudagraphs", "perf_hints"])
def test_advice_about_many_sizes_is_no_reason(log):
    advice = "CUDAGraph supports dynamic shapes by recording a new graph for each size"
    compile_log.reset()
    logging.getLogger(f"torch._inductor.cudagraph_utils.__{log}").warning(advice)
    assert CompileLog().capture().cudagraph_skips == ()


def test_a_graph_that_is_cut_into_parts_runs_without_cuda_graphs_between_them():
    compile_log.reset()
    assert not CompileLog().capture().cudagraph_skips
    dynamo.counters["inductor"]["cudagraph_partitions"] += 3
    (reason,) = CompileLog().capture().cudagraph_skips
    assert reason.startswith("in part: cut at operations that cannot be recorded")


@pytest.mark.parametrize(
    ("message", "kept"),
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
def test_the_operation_at_which_a_graph_is_cut_is_kept(message, kept):
    log = CompileLog(graphs=True)
    cuda_graphs.cuts_log.debug(message)
    dynamo.counters["inductor"]["cudagraph_partitions"] += kept is not None
    assert log.capture().cudagraph_skips == ((kept,) if kept else ())


def test_a_graph_of_which_nothing_can_be_recorded_is_reported():
    log = CompileLog(graphs=True)
    cuda_graphs.cuts_log.debug("    op3: reason=unbacked binding ops, ir=FallbackKernel")
    (reason,) = log.capture().cudagraph_skips
    assert reason == "in part: cut at unbacked binding ops"


def test_the_debug_log_is_enabled_only_where_graphs_are_wanted():
    for graphs in (True, False):
        CompileLog(graphs=graphs)
        assert cuda_graphs.cuts_log.isEnabledFor(logging.DEBUG) is graphs


@pytest.mark.parametrize(
    ("recorded", "reported"),
    [
        (Counter(FORWARD=2), True),
        (Counter(FORWARD=2, BACKWARD=1), False),
        (Counter(INFERENCE=2), False),
        (Counter(), False),
    ],
)
def test_forwards_without_a_backward_are_reported(monkeypatch, recorded, reported):
    monkeypatch.setattr(cuda_graphs, "recorded", lambda: recorded)
    seen = CompileLog().capture()
    assert any("none of a backward" in reason for reason in seen.cudagraph_skips) is reported
    assert seen.cudagraphs == recorded.total()


@pytest.mark.parametrize(
    ("reasons", "device", "reported"),
    [
        (["non-Tensor inputs"], "cuda", ("skipping cudagraphs due to non-Tensor inputs",)),
        (["non-Tensor inputs"], "cpu", ()),
        ([], "cuda", ()),
    ],
)
def test_a_reason_that_pytorch_does_not_log_is_reported(reasons, device, reported):
    graph = SimpleNamespace(
        cudagraph_info=SimpleNamespace(cudagraph_fail_reasons=reasons),
        device_types={device},
        current_callable=lambda inputs: inputs,
        fx_kwargs={"is_backward": False},
        partition_maps=None,
    )
    output_code.cudagraph_partition_post_compile([], graph, BoxedBool(True), {}, None)
    assert CompileLog().capture().cudagraph_skips == reported
