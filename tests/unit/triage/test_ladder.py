"""The stage of what fails in a mode of Inductor. Other stages are tested on real failures."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from compilegate.records.case import Case
from compilegate.records.part import CheckpointDraws
from compilegate.triage.findings import Findings
from compilegate.triage.report import issue
from compilegate.triage.search import ladder
from compilegate.triage.search.seen import Seen
from tests.unit.failing import A, wrong
from tests.unit.making import make_environment
from tests.unit.triage.test_titles import suspect_of


class Trials:
    """Trials of a case that fails in Inductor, and in its simpler modes as they are given."""

    cold = False

    def __init__(self, setting, below=(), **states):
        case = Case.parse(f"m-{setting}-static")
        observation, verdict = (
            SimpleNamespace(backend="inductor"),
            SimpleNamespace(aspect="forward"),
        )
        self.suspect = SimpleNamespace(
            case=case, observation=observation, verdict=verdict, is_of_values=True
        )
        self.modes, self._states = [], states
        self._below, self.backends = dict(zip(ladder.LADDER, below, strict=False)), []

    def of_backend(self, backend, mode=""):
        if not mode:
            self.backends.append(backend)
            return Seen("bad" if backend == "inductor" else self._below.get(backend, "good"))
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


@pytest.mark.parametrize(
    ("below", "backend", "apart", "observed"),
    [
        (("bad", "bad"), "eager", [], 3),
        (("bad", "unobservable"), "eager", [], 3),
        (("good", "bad", "bad"), "aot_eager", [], 4),
        (("bad", "good", "bad"), "aot_eager_decomp_partition", ["eager"], 4),
        (("bad", "good", "good"), "inductor", ["eager"], 4),
        (("good", "bad", "good"), "inductor", ["aot_eager"], 4),
        (("good", "good", "bad"), "aot_eager_decomp_partition", [], 4),
        (("unobservable", "good", "bad"), "", [], 4),
        (("good", "unobservable", "bad"), "", [], 4),
    ],
)
def test_a_backend_that_fails_while_one_that_does_more_passes_is_not_the_stage(
    below, backend, apart, observed
):
    trials = Trials(CPU.format("default"), below)
    stage = ladder.climb(trials)
    assert (stage.backend, stage.apart, len(trials.backends)) == (backend, apart, observed)


def reported(backend, draws=False, **drawn):
    """The report of a case that fails from a backend on, and draws in checkpoints."""
    stage = ladder.Stage(backend, {backend: Seen("bad")}, draws=CheckpointDraws(**drawn))
    suspect = suspect_of(replace(wrong(A), draws=draws))
    return issue.text(suspect, Findings(stage=stage), make_environment(), "observe", "")


@pytest.mark.parametrize(
    ("backend", "drawn", "doubts"),
    [
        ("eager", {}, False),
        ("eager", {"kept": ("net.py:3: y = dropout(x)",)}, False),
        ("aot_eager", {"renewed": ("net.py:3: y = dropout(x)",)}, True),
        ("inductor", {"renewed": ("net.py:3: y = dropout(x)",)}, False),
    ],
)
def test_a_report_doubts_a_stage_only_where_eager_draws_anew_on_purpose(backend, drawn, doubts):
    text = reported(backend, draws=True, **drawn)
    assert ("Doubt this stage: no script can tell" in text) is doubts
    assert ("`net.py:3: y = dropout(x)` draws random numbers in" in text) is bool(drawn)
    assert ("`eager` was tried without checkpoints" in text) is ("kept" in drawn)


@pytest.mark.parametrize(
    ("backend", "below", "shown_by"),
    [("eager", "off", "aot_eager"), ("aot_eager", "off", "aot_eager"), ("inductor", None, None)],
)
def test_no_script_relies_on_a_backend_that_draws_others_in_a_checkpoint(backend, below, shown_by):
    """Nor is that backend a workaround, which is the one below the stage."""
    plain = ladder.Stage(backend, {})
    drawing = ladder.Stage(backend, {}, draws=CheckpointDraws(kept=("net.py:3: y",)))
    assert drawing.below == (below or plain.below)
    assert drawing.shown_by == (shown_by or backend)
    assert (plain.shown_by, plain.below == "off") == (backend, backend == "eager")


def test_a_report_names_a_backend_that_fails_by_itself():
    seen = {"inductor": Seen("bad"), "eager": Seen("bad"), "aot_eager": Seen("good")}
    findings = Findings(stage=ladder.Stage("inductor", seen))
    text = issue.text(suspect_of(wrong(A)), findings, make_environment(), "observe", "")
    assert "`eager` also fails, but not for this reason: a backend that does more passes." in text
    findings.stage.backend = "eager"
    text = issue.text(suspect_of(wrong(A)), findings, make_environment(), "observe", "")
    assert "by itself" not in text
