"""The stage of what fails in a mode of Inductor. Other stages are tested on real failures."""

from types import SimpleNamespace

import pytest

from compilegate.records.case import Case
from compilegate.triage.search import ladder
from compilegate.triage.search.seen import Seen


class Trials:
    """Trials of a case that fails in Inductor, and in its simpler modes as they are given."""

    def __init__(self, setting, **states):
        case = Case.parse(f"m-{setting}-static")
        self.suspect = SimpleNamespace(case=case, observation=SimpleNamespace(backend="inductor"))
        self.modes, self._states = [], states

    def of_backend(self, backend, mode=""):
        if not mode:
            return Seen("bad" if backend == "inductor" else "good")
        self.modes.append(mode)
        return Seen(self._states[mode])


GPU, CPU = "cuda-infer-f32-{}", "cpu-infer-f32-{}"


@pytest.mark.parametrize(
    ("setting", "states", "name", "off"),
    [
        (GPU.format("reduce_overhead"), ["good"], "CUDA graphs", "inductor default"),
        (
            GPU.format("max_autotune"),
            ["good"],
            "CUDA graphs",
            "inductor max-autotune-no-cudagraphs",
        ),
        (GPU.format("max_autotune"), ["bad", "good"], "autotuning", "inductor default"),
        (GPU.format("max_autotune_no_cudagraphs"), ["good"], "autotuning", "inductor default"),
        (CPU.format("max_autotune"), ["good"], "autotuning", "inductor default"),
        (GPU.format("reduce_overhead"), ["bad"], "Inductor", "aot_eager_decomp_partition"),
        (GPU.format("max_autotune"), ["bad", "bad"], "Inductor", "aot_eager_decomp_partition"),
        (GPU.format("max_autotune"), ["unobservable"], "Inductor", "aot_eager_decomp_partition"),
        (GPU.format("default"), [], "Inductor", "aot_eager_decomp_partition"),
        (CPU.format("default"), [], "Inductor", "aot_eager_decomp_partition"),
    ],
)
def test_the_first_simpler_mode_that_passes_names_the_stage(setting, states, name, off):
    simpler = ["default"]
    if setting == GPU.format("max_autotune"):
        simpler = ["max_autotune_no_cudagraphs", "default"]
    trials = Trials(setting, **dict(zip(simpler, states, strict=False)))
    stage = ladder.climb(trials)
    assert (stage.name, stage.backend, stage.off) == (name, "inductor", off)
    assert trials.modes == simpler[: len(states)]
