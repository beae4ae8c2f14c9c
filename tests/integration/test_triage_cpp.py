"""C++ that does not compile: which operator of a fused kernel has the line."""

import contextlib

import pytest

from compilegate.records.observation import Failure
from compilegate.triage.findings import Findings
from compilegate.triage.report import issue
from compilegate.triage.search.ladder import Stage
from compilegate.triage.search.seen import Seen
from compilegate.triage.search.trials import part
from compilegate.triage.steps import lines, workarounds
from tests.integration.test_triage_trials import trials_of
from tests.unit.making import make_environment

pytestmark = pytest.mark.long

ZOO = """\
import torch
from torch import nn
from torch._inductor.codegen import cpp
from compilegate import Example, model

{plant}

class Shift(nn.Module):
    def forward(self, x):
        y = nn.functional.pad(x.sigmoid()[:, 16:], (0, 16))
        z = torch.zeros_like(x)
        z[:, 16:] = y[:, :48].exp()
        return z.cos()

@model("shift", settings=("infer-f32-default-static",))
def shift():
    return Example(Shift(), inputs=lambda: (torch.randn(4, 64),))
"""
#: Vectors alone are wrong: of ``exp``, or of a mask within another mask.
EXP = "cpp.CppVecOverrides.exp = staticmethod(lambda x: f'broken({x})')"
MASKED = """
whole = cpp.CppVecOverrides.masked
def masked(mask, body, other):
    kernel, is_inner = cpp.V.kernel, cpp.V.kernel._load_mask is not None
    made = whole(mask, body, other)
    if not (is_inner and made.is_vec):
        return made
    return kernel.cse.generate(kernel.compute, f"broken({made})", dtype=made.dtype)
cpp.CppVecOverrides.masked = staticmethod(masked)
"""


@pytest.fixture
def planted(tmp_path, request):
    """Trials of a model in whose kernel C++ is broken, as a parameter says."""
    (tmp_path / "shift.py").write_text(ZOO.format(plant=request.param))
    (tmp_path / "made").mkdir()
    with contextlib.closing(
        trials_of("shift", "forward", tmp_path / "shift", tmp_path / "made")
    ) as trials:
        trials.cold = True  # caches do not know that C++ is broken
        made = trials._observe(trials.suspect.case.id, "shift", "inductor", ("capture",), seed=0)
        yield trials, made


@pytest.mark.parametrize(
    ("planted", "operator", "code"),
    [
        (EXP, "exp", "z[:, 16:] = y[:, :48].exp()"),
        (MASKED, "constant_pad_nd", "y = nn.functional.pad(x.sigmoid()[:, 16:], (0, 16))"),
    ],
    indirect=["planted"],
)
def test_the_line_belongs_to_one_of_the_operators_that_are_fused(planted, operator, code):
    trials, made = planted
    assert isinstance(made.failure, Failure)
    vars(trials.suspect)["observation"] = made
    findings = Findings(stage=Stage("inductor", {"inductor": Seen("bad")}))
    bisected = {"backend": "inductor", "subsystem": "lowerings", "what": "slice_scatter_default"}
    findings.bisected = bisected
    lines.find(trials, findings, print)
    assert findings.cpp is not None, findings.notes
    assert "broken(" in findings.cpp.line
    assert findings.cpp.source.endswith(f" in forward: {code}")
    text = issue.text(trials.suspect, findings, make_environment(), "observe", "")
    assert f"# [Inductor] {operator}: " in text
    assert f"`{operator}` generates the line of C++ that does not compile: `auto " in text
    # It was not bisected how it compiles, so the case is tried.
    workarounds.find(trials, findings, print)
    scalar = "torch.compile(model, options={'cpp.simdlen': 1})"
    assert (scalar, "the case compiles without vectorisation") in findings.workarounds


@pytest.mark.parametrize("planted", [""], indirect=True)
def test_no_line_of_code_that_compiles_has_an_operator(planted):
    trials, made = planted
    assert made.failure is None
    assert trials.told(part(), "cpp") == (None, "completed")
