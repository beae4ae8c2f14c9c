"""What only a GPU shows: lost contexts, CUDA graphs, masks, scaled gradients, its own figures."""

import re
import statistics

import pytest
import torch

from compilegate.suites import test_speedup
from tests.integration.conftest import ZOOS, Session, command, run_to_its_end

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

INFER, TRAIN = "{}-cuda-infer-f32-default-static", "{}-cuda-train-f32-default-static"
HALF = "{}-cuda-train-f16-default-static"
GRAPHS = "{}-cuda-{}-f32-reduce_overhead-static"
CASES = [
    *(INFER.format(m) for m in ("healthy_first", "takes_all_memory", "reads_beyond")),
    *(INFER.format(m) for m in ("draws_by_weights", "asserts_finite", "has_labels")),
    *(TRAIN.format(m) for m in ("drops", "drops_attention", "drops_biased_attention")),
    *(TRAIN.format(m) for m in ("draws_rows", "has_labels")),
    *(HALF.format(m) for m in ("healthy_last", "overflows")),
    *(HALF.format(m) for m in ("drops", "drops_attention", "drops_biased_attention")),
    *(
        GRAPHS.format(m, "infer")
        for m in ("writes_its_input", "asks_the_processor", "healthy_last")
    ),
    *(GRAPHS.format(m, "train") for m in ("records_no_backward", "healthy_last", "drops")),
]


@pytest.fixture(scope="module")
def seen(tmp_path_factory) -> Session:
    """All of the GPU's zoo in one session."""
    runs = tmp_path_factory.mktemp("gpu") / "runs"
    chosen = [word for case in CASES for word in ("--cases", case)]
    words = command("--zoo", str(ZOOS / "gpu.py"), *chosen, runs=runs, backend="inductor")
    return run_to_its_end(words, None, runs, timeout_s=540.0)


def exact_failures(seen, case):
    """What failed, of what does not depend on how busy a machine is or how small a model."""
    failed = seen.failed(case)
    return {a: s for a, s in failed.items() if a not in ("speedup", "energy", "memory")}


@pytest.mark.parametrize(
    "case",
    [
        INFER.format("healthy_first"),
        HALF.format("healthy_last"),
        GRAPHS.format("healthy_last", "infer"),
        GRAPHS.format("healthy_last", "train"),
        GRAPHS.format("drops", "train"),
        TRAIN.format("drops"),
        HALF.format("drops"),
        TRAIN.format("drops_attention"),
        HALF.format("drops_attention"),
        TRAIN.format("drops_biased_attention"),
        HALF.format("drops_biased_attention"),
        TRAIN.format("draws_rows"),
        TRAIN.format("has_labels"),
        INFER.format("draws_by_weights"),
        INFER.format("asserts_finite"),
        INFER.format("has_labels"),
        HALF.format("overflows"),
    ],
)
def test_healthy_models_pass_all_aspects_but_speed(seen, case):
    assert not exact_failures(seen, case)
    assert seen.verdicts(case)["forward"].outcome in ("passed", "inconclusive")


def test_running_out_of_memory_is_an_outcome_with_the_peak(seen):
    """Inconclusive where others hold memory of the same GPU."""
    verdicts = seen.verdicts(INFER.format("takes_all_memory")).values()
    (summary,) = {v.summary for v in verdicts if v.outcome in ("failed", "inconclusive")}
    assert "ran out of memory in stage 'eager': CUDA out of memory" in summary
    assert "peak allocated" in summary


def test_a_lost_context_costs_that_case_only(seen):
    (summary,) = set(seen.failed("reads_beyond").values())
    assert "device-side assert" in summary
    assert not exact_failures(seen, GRAPHS.format("healthy_last", "infer"))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("draws_by_weights", "multinomial.default gets a probability out of range"),
        ("has_labels", "binary_cross_entropy.default gets a probability out of range"),
        ("asserts_finite", "device-side assert triggered"),
    ],
)
def test_calls_in_which_eager_loses_the_context_are_left_out(seen, model, reason):
    observed = seen.run().observations[INFER.format(model)]
    assert any(reason in line for line in observed.unprobed)
    assert observed.probes


def test_graphs_are_recorded_or_missed(seen):
    healthy = seen.verdicts(GRAPHS.format("healthy_last", "train"))["cuda_graphs"]
    assert healthy.outcome == "passed"
    assert "CUDA graphs recorded" in healthy.summary
    mixed = seen.verdicts(GRAPHS.format("writes_its_input", "infer"))["cuda_graphs"]
    assert mixed.outcome == "failed"
    assert "mutated inputs" in mixed.summary


def test_graphs_of_another_size_are_replayed_and_without_graphs_calls_overlap(seen):
    observations = seen.run().observations
    graphs, plain = (
        observations[setting.format("healthy_last", *phase)]
        for setting, phase in ((GRAPHS, ["train"]), (HALF, []))
    )
    sizes = [16, 16, 16, 12, 16, 12, 12]
    assert [call.sizes["batch"] for call in graphs.calls] == sizes
    assert graphs.capture.cudagraphs == 4  # a forward and a backward at the sizes that came twice
    assert [call.sizes["batch"] for call in plain.calls] == [*sizes, 16]
    assert [call.overlaps for call in plain.calls] == 7 * [False] + [True]
    assert plain.left_out == ""


def test_a_graph_that_is_recorded_in_parts_fails(seen):
    cut = seen.verdicts(GRAPHS.format("asks_the_processor", "infer"))["cuda_graphs"]
    assert cut.outcome == "failed"
    assert re.search("in part: cut at|skipping cudagraphs due to", cut.summary)


def test_a_backward_without_a_graph_fails(seen):
    lost = seen.verdicts(GRAPHS.format("records_no_backward", "train"))["cuda_graphs"]
    assert lost.outcome == "failed"
    assert "graphs of forwards were recorded, but none of a backward" in lost.summary


@pytest.mark.parametrize("model", ["drops", "drops_attention", "drops_biased_attention"])
@pytest.mark.parametrize("setting", [TRAIN, HALF], ids=["f32", "f16"])
def test_the_reference_is_given_the_masks_that_eager_drew(seen, model, setting):
    observed = seen.run().observations[setting.format(model)]
    assert observed.reference.startswith("float64")
    assert all(error.has_reference for error in observed.calls[0].outputs.errors)
    assert max(error.eager_rms for error in observed.calls[0].outputs.errors) < 0.01


def test_gradients_that_overflow_do_so_on_both_sides_until_the_scale_has_fallen(seen):
    case = HALF.format("overflows")
    assert seen.verdicts(case)["gradients"].outcome == "passed"
    overflowed = [call.overflowed for call in seen.run().observations[case].calls]
    assert overflowed[0]
    assert not overflowed[-1]


def test_the_gpu_is_timed_by_its_own_clock(seen):
    timing = seen.run().observations[INFER.format("healthy_first")].timing
    assert timing.clock == "events"
    assert timing.items == 16
    assert 0 < timing.compiled_kernels_ns <= 1.2 * min(timing.compiled_ns)
    # A round aims at 5 ms by the pace of the first calls, and a GPU can get faster after them.
    for side in (timing.eager_ns, timing.compiled_ns):
        assert timing.iterations == 200 or timing.iterations * statistics.median(side) >= 2.5e6


def test_memory_of_graphs_is_counted(seen):
    observations = seen.run().observations
    graphs = observations[GRAPHS.format("healthy_last", "train")].memory
    plain = observations[HALF.format("healthy_last")].memory
    assert graphs.graphs_bytes > 0
    assert plain.graphs_bytes == 0
    assert plain.compile_peak_bytes > 0
    for memory in (graphs, plain):
        assert memory.eager_reserved_bytes >= memory.eager_peak_bytes
        assert memory.compiled_reserved_bytes >= memory.compiled_peak_bytes
        assert memory.compiled_kept_bytes - memory.eager_kept_bytes <= 1024
    assert graphs.compiled_reserved_bytes >= graphs.graphs_bytes


@pytest.mark.parametrize(
    "case",
    [
        INFER.format("healthy_first"),
        HALF.format("healthy_last"),
        GRAPHS.format("healthy_last", "infer"),
        GRAPHS.format("healthy_last", "train"),
    ],
)
def test_an_empty_compiled_call_is_timed_in_every_phase_and_mode(seen, case):
    timing = seen.run().observations[case].timing
    assert 0 < timing.empty_call_ns < 1e7
    assert any(line.startswith("empty compiled call: ") for line in test_speedup.describe(timing))
