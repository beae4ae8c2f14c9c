"""Where a backward raises, while it is compiled or runs, a report has the line of its forward."""

import contextlib
from dataclasses import replace

import pytest

from compilegate.triage.findings import Findings
from compilegate.triage.report import issue
from compilegate.triage.search.ladder import Stage
from compilegate.triage.search.seen import Seen
from compilegate.triage.search.trials import part
from compilegate.triage.steps import lines
from tests.integration.test_triage_trials import trials_of
from tests.unit.making import make_environment

pytestmark = pytest.mark.long

ZOO = """\
import torch
from torch import nn
from torch._inductor.decomposition import decompositions
from torch._inductor.lowering import lowerings
from compilegate import Example, model

aten = torch.ops.aten
library = torch.library.Library("refused", "DEF")
library.define("run(Tensor x) -> Tensor")
library.impl("run", lambda x: torch.empty_like(x), "Meta")

def refuse(*_, **__):
    raise RuntimeError("refused")

library.impl("run", refuse, "CompositeExplicitAutograd")
{plant}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, x):
        x = self.lin(x)
        x = nn.functional.avg_pool2d(x[None], 2)
        x = x.tanh()
        return x.exp()

@model("net", settings=("train-f32-default-static",))
def net():
    return Example(Net(), inputs=lambda: (torch.randn(4, 8),))
"""
DECOMPOSED = "aot_eager_decomp_partition"
LOWERS = "lowerings[aten.avg_pool2d_backward.default] = refuse"
TRACES = "decompositions[aten.tanh_backward.default] = refuse"
RUNS = "decompositions[aten.tanh_backward.default] = lambda g, y: torch.ops.refused.run(g)"


@contextlib.contextmanager
def observed(folder, plant, backend):
    """Trials of a model whose backward raises as it does in an observation of it."""
    (folder / "net.py").write_text(ZOO.format(plant=plant))
    (folder / "made").mkdir()
    with contextlib.closing(
        trials_of("net", "gradients", folder / "net", folder / "made", backend=backend)
    ) as trials:
        case = "net-cpu-train-f32-default-static"
        made = trials._observe(case, "net", backend, ("capture",), seed=0)
        trials.suspect = replace(trials.suspect, observation=made)
        yield trials


@pytest.mark.parametrize(
    ("plant", "backend", "code"),
    [
        (LOWERS, "inductor", "x = nn.functional.avg_pool2d(x[None], 2)"),
        (TRACES, DECOMPOSED, "x = x.tanh()"),
        (RUNS, DECOMPOSED, "x = x.tanh()"),
    ],
    ids=["compiles", "is traced", "runs"],
)
def test_the_line_whose_backward_raises_is_named(plant, backend, code, tmp_path):
    findings = Findings(stage=Stage(backend, {backend: Seen("bad")}))
    with observed(tmp_path, plant, backend) as trials:
        assert trials.suspect.observation.status == "raised"
        lines.find(trials, findings, print)
        text = issue.text(trials.suspect, findings, make_environment(), "observe", "")
    assert findings.raises_at.endswith(f": {code}")
    assert f"the code that raises, or its forward, is called at `{findings.raises_at}`" in text
    assert text.partition("\n")[0].endswith(f" at {findings.wrong_line}")


def test_where_nothing_raises_no_line_is_named(tmp_path):
    with observed(tmp_path, "", "aot_eager") as trials:
        assert trials.suspect.observation.failure is None
        assert trials.told(part(backend="aot_eager"), "raising") == ("", "")
