"""The empty compiled call: cheap, of the case's setting, and seen by nothing else of the case."""

import pytest
import torch
from torch import nn

from compilegate.observe.capture import compile_log, compiling
from compilegate.observe.device import device
from compilegate.observe.device.cpu import Cpu
from compilegate.observe.measure.empty_call import empty_call_ns
from compilegate.records.case import Case
from tests.unit.observed import observation

SETTINGS = ("infer-f32-default-static", "train-f32-default-static", "infer-f32-default-dynamic")


def of(setting, backend="aot_eager"):
    compile_log.reset()
    return empty_call_ns(Case.parse(f"mlp-cpu-{setting}"), device("cpu"), backend)


@pytest.mark.parametrize("setting", SETTINGS)
def test_an_empty_call_takes_some_time(setting):
    assert 0 < of(setting) < 1e9


@pytest.mark.parametrize("setting", SETTINGS)
def test_an_empty_call_is_compiled_once(setting):
    of(setting, "inductor")
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert not torch._dynamo.utils.counters["unimplemented"]


def test_an_empty_call_generates_no_code():
    torch._inductor.metrics.reset()
    of("train-f32-default-static", "inductor")
    assert torch._inductor.metrics.generated_kernel_count == 0


def test_a_training_call_has_a_backward(monkeypatch):
    """So it takes longer. Here each call is made once, and leaves a gradient or none."""
    backwards = []
    monkeypatch.setattr(torch.Tensor, "backward", lambda self, *_: backwards.append(self))
    monkeypatch.setattr(Cpu, "elapsed_ns", lambda self, step, calls: step() or 3e6)
    of("infer-f32-default-static")
    assert not backwards
    of("train-f32-default-static")
    assert backwards


@pytest.mark.parametrize(
    ("device_and_mode", "mode"),
    [
        ("cuda-infer-f32-default", None),
        ("cuda-infer-f32-reduce_overhead", "reduce-overhead"),
        ("cuda-infer-f32-max_autotune", "reduce-overhead"),
        ("cuda-infer-f32-max_autotune_no_cudagraphs", None),
        ("cpu-infer-f32-max_autotune", None),
    ],
)
def test_an_autotuning_mode_is_not_tuned_for_an_empty_call(device_and_mode, mode):
    case = Case.parse(f"mlp-{device_and_mode}-static")
    assert compiling.options(case, "inductor", tunes=False)["mode"] == mode
    tuned = compiling.options(case, "inductor")["mode"]
    assert (tuned == mode) is not case.autotunes


def test_a_timed_case_has_it_and_its_own_compilations_only():
    timed = observation(lambda: nn.Linear(4, 4), wants=("capture", "time", "vary"))
    assert timed.timing.empty_call_ns > 0
    untimed = observation(lambda: nn.Linear(4, 4), wants=("capture", "vary"))
    assert untimed.timing is None
    assert timed.capture.graphs == untimed.capture.graphs
    assert timed.capture.compilations == untimed.capture.compilations
