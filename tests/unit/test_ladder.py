"""The stage of a failure that only CUDA graphs show. Other stages are tested on real failures."""

from types import SimpleNamespace

import pytest

from compilegate.records.case import Case
from compilegate.triage import ladder
from compilegate.triage.releases import Seen


class Trials:
    """Trials of a case that fails in Inductor, and in its mode without CUDA graphs or not."""

    def __init__(self, setting, without_graphs):
        case = Case.parse(f"m-{setting}")
        self.suspect = SimpleNamespace(case=case, observation=SimpleNamespace(backend="inductor"))
        self.modes, self._without_graphs = [], without_graphs

    def of_backend(self, backend):
        return Seen("bad" if backend == "inductor" else "good")

    def of_mode(self, mode):
        self.modes.append(mode)
        return Seen(self._without_graphs)


@pytest.mark.parametrize(
    ("mode", "other"),
    [("reduce_overhead", "default"), ("max_autotune", "max_autotune_no_cudagraphs")],
)
@pytest.mark.parametrize(
    ("without_graphs", "name"),
    [("good", "CUDA graphs"), ("bad", "Inductor"), ("unobservable", "Inductor")],
)
def test_what_is_right_without_cuda_graphs_is_of_cuda_graphs(mode, other, without_graphs, name):
    trials = Trials(f"cuda-infer-f32-{mode}-static", without_graphs)
    stage = ladder.climb(trials)
    assert (stage.name, stage.backend, trials.modes) == (name, "inductor", [other])
    assert stage.cure == (other if name == "CUDA graphs" else "")


@pytest.mark.parametrize("setting", ["cuda-infer-f32-default", "cpu-infer-f32-default"])
def test_a_case_that_records_no_cuda_graphs_is_not_tried_without_them(setting):
    trials = Trials(f"{setting}-static", "good")
    assert ladder.climb(trials).name == "Inductor"
    assert not trials.modes
