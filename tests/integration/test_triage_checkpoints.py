"""The stage of models that draw random numbers inside ``torch.utils.checkpoint``.

PyTorch's backend ``eager`` fails in all of them, though nothing is wrong with it.
"""

import contextlib
from dataclasses import replace

import pytest

from compilegate.records.case import Case
from compilegate.triage.findings import Findings
from compilegate.triage.report import issue
from compilegate.triage.search import ladder
from tests.integration.test_triage_trials import trials_of
from tests.unit.making import make_environment

pytestmark = pytest.mark.long

ZOO = """\
import torch
import torch._functorch.partitioners as partitioners
from torch import nn
from torch.utils.checkpoint import checkpoint
from compilegate import Example, model

{plant}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def inside(self, x):
        return nn.functional.dropout(self.lin(x).tanh(), 0.5, self.training)

    def forward(self, x):
        x = checkpoint(self.inside, x{options})
        return x * {scale}

@model("net", settings=("train-f32-default-static",))
def net():
    return Example(Net(), inputs=lambda: (torch.randn(6, 8),))
"""
#: Fails to have the backward draw what the forward drew.
DRAWS_AGAIN = "partitioners.functionalize_rng_ops = lambda _, *graphs, **__: graphs[:2]"
WRONG = "(1.01 if torch.compiler.is_compiling() else 1.0)"


def climbed(folder, backend="inductor", plant="", scale="1.0", options=""):
    """The stage of a model, and its report."""
    options = ", use_reentrant=False" + options
    (folder / "net.py").write_text(ZOO.format(plant=plant, scale=scale, options=options))
    (folder / "made").mkdir()
    with contextlib.closing(
        trials_of("net", "gradients", folder / "net", folder / "made", backend=backend)
    ) as trials:
        case = Case.parse("net-cpu-train-f32-default-static").id
        made = replace(trials.suspect.observation, case=case, draws=True)
        trials.suspect = replace(trials.suspect, observation=made)
        stage = ladder.climb(trials)
        findings = Findings(stage=stage)
        return stage, issue.text(trials.suspect, findings, make_environment(), "observe", "")


def test_a_fault_of_the_partitioner_is_told_from_dynamo(tmp_path):
    stage, report = climbed(tmp_path, plant=DRAWS_AGAIN)
    assert (stage.name, stage.backend, stage.shown_by) == ("partitioning", "aot_eager", "aot_eager")
    assert stage.off == "off"
    (line,) = stage.draws.kept
    assert line.endswith(": return nn.functional.dropout(self.lin(x).tanh(), 0.5, self.training)")
    assert "If nothing in a checkpoint is recomputed in the backward, the case passes." in report
    assert f"# [partitioning] net: gradients: wrong at {line.partition(': ')[0]}" in report


def test_a_fault_of_dynamo_is_still_dynamos_and_shows_with_a_backend_that_can_be_right(tmp_path):
    stage, _ = climbed(tmp_path, scale=WRONG)
    assert (stage.name, stage.backend, stage.shown_by) == ("Dynamo", "eager", "aot_eager")
    assert not stage.is_recomputed


def test_without_a_fault_nothing_fails_but_the_backend_that_draws_others(tmp_path):
    stage, report = climbed(tmp_path, backend="eager")
    assert not stage.is_confirmed
    assert "`eager` draws other numbers in the backward of a checkpoint, right or wrong" in report


def test_what_eager_draws_anew_on_purpose_is_doubted(tmp_path):
    stage, report = climbed(tmp_path, options=", preserve_rng_state=False")
    assert (stage.name, stage.backend) == ("AOTAutograd", "aot_eager")
    assert "no script can tell this from a fault" in report
