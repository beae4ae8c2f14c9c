"""Code in the compiler that is not PyTorch's is named where it is at fault, and only there."""

import json
from dataclasses import asdict, replace

import pytest
import torch
import torch._inductor.config as inductor
from torch._inductor.decomposition import decompositions

from compilegate.observe.dissect import own_code as observed
from compilegate.observe.dissect import parts
from compilegate.records.part import OwnCode
from compilegate.triage.findings import Findings
from compilegate.triage.folders import Triaged
from compilegate.triage.report import issue, ownership
from compilegate.triage.report.title import title_of
from compilegate.triage.scripts.script import Script
from compilegate.triage.search.ladder import Stage
from compilegate.triage.search.place import Place
from compilegate.triage.search.seen import Seen
from compilegate.triage.steps import own_code
from compilegate.triage.steps.causes import cause_of
from compilegate.triage.steps.scripting import retitle
from compilegate.zoo import registry
from compilegate.zoo.example import Example
from tests.unit.failing import A, wrong
from tests.unit.making import make_environment
from tests.unit.triage.test_lines import suspect_of

HOOK = "post_grad_custom_post_pass"
CLAMP = OwnCode(kind="pass", keys=(HOOK,), name="nimbus.passes.Clamp", source="passes.py:3")
SOFTPLUS = OwnCode(
    kind="decomposition", keys=("aten.softplus.default",), name="nimbus.soft", source="soft.py:9"
)
GATE = OwnCode(kind="lowering", keys=("nimbus.gate.default",), name="nimbus.gate", source="g.py:1")
DECOMPOSED = "<OpOverload(op='aten.softplus', overload='default')>"


class Clamp:
    """A pass that changes nothing."""

    def __call__(self, graph):
        return graph


def softplus(x, beta=1, threshold=20):
    return torch.log1p(torch.exp(x * beta)) / beta


@pytest.fixture
def registering():
    """A function that registers a pass and a decomposition, which the test undoes."""
    table = {**decompositions}

    def register():
        setattr(inductor, HOOK, Clamp())
        decompositions[torch.ops.aten.softplus.default] = softplus

    with inductor.patch({HOOK: None}):
        yield register
    decompositions.clear()
    decompositions.update(table)


def mine():
    return {one.name: one for one in observed.registered() if one.name.startswith(__name__)}


def test_code_of_others_is_told_from_that_of_pytorch_and_is_taken_out(registering):
    assert not mine()
    registering()
    found = mine()
    assert [(one.kind, one.keys) for one in found.values()] == [
        ("pass", (HOOK,)),
        ("decomposition", ("aten.softplus.default",)),
    ]
    assert "test_own_code.py:" in found[f"{__name__}.Clamp"].source
    assert all(not one.name.startswith("torch.") for one in observed.registered())
    observed.take_out(["aten.softplus.default"])
    assert [one.kind for one in mine().values()] == ["pass"]
    observed.take_out([HOOK])
    assert not mine()


@pytest.mark.parametrize("is_late", [True, False])
def test_a_child_tells_whether_the_recipe_registers(is_late, registering, tmp_path, monkeypatch):
    def build():
        registering()
        return Example(torch.nn.ReLU(), inputs=lambda: (torch.ones(3),))

    target = tmp_path / "own.json"
    monkeypatch.setattr(registry, "_registry", dict(registry.load()))
    registry.model("owning", family="triage")(build)
    if not is_late:
        registering()
    case = "owning-cpu-infer-f32-default-static"
    parts.register([{"name": "owning.part", "case": case, "seed": 0, "own": str(target)}])
    registry.load()["owning.part"].build()
    told = json.loads(target.read_text())
    assert [one["is_late"] for one in told if one["name"].endswith(".Clamp")] == [is_late]


class Trials:
    """Trials of a case that passes without some keys alone."""

    def __init__(self, own, helping):
        self.suspect, self.helping = suspect_of(wrong(A)), helping
        self.own, self.asked, self.cold = [asdict(one) for one in own], [], False

    def told(self, part, what):
        assert what == "own"
        return self.own, ""

    def of_part(self, part, backend):
        assert self.cold  # code from a cache may have been made with what is taken out
        self.asked.append((part.without, backend))
        return Seen("good" if {*self.helping} <= {*part.without} else "bad")


def found_by(own, helping, backend="inductor", **fields):
    findings = Findings(stage=Stage(backend, {backend: Seen("bad")}), **fields)
    trials = Trials(own, helping)
    own_code.find(trials, findings, lambda line: None)
    return findings, trials


def test_the_code_without_which_the_case_passes_is_at_fault():
    found, _ = found_by([GATE, CLAMP], [HOOK])
    assert found.guilty == CLAMP
    assert found.workarounds == [
        (f"torch._inductor.config.{HOOK} = None", "the case passes"),
    ]
    innocent, trials = found_by([GATE, CLAMP], ["another"])
    assert (innocent.guilty, innocent.workarounds) == (None, [])
    assert len(trials.asked) == 1  # without all of it, the case fails, too


def test_code_that_the_stage_does_not_run_is_not_tried():
    found, trials = found_by([CLAMP], [HOOK], "aot_eager_decomp_partition")
    assert (found.guilty, found.own, trials.asked) == (None, [], [])
    found, trials = found_by([SOFTPLUS], SOFTPLUS.keys, "aot_eager_decomp_partition")
    assert found.guilty == SOFTPLUS
    assert [backend for _, backend in trials.asked] == ["aot_eager_decomp_partition", "inductor"]


@pytest.mark.parametrize(
    ("bisected", "guilty"),
    [
        ({"subsystem": "post_grad_passes", "what": HOOK}, CLAMP),
        ({"subsystem": "post_grad_passes", "what": "remove_noop_ops"}, None),
        ({"subsystem": "decomposition", "what": DECOMPOSED}, SOFTPLUS),
        ({"subsystem": "decomposition", "what": "aten.gelu.default"}, None),
        ({"subsystem": "lowerings", "what": "gate_1"}, GATE),
        ({"subsystem": "lowerings", "what": "softplus"}, None),
        ({}, None),
    ],
)
def test_what_the_bisection_names_is_at_fault_if_it_is_not_pytorchs(bisected, guilty):
    found = Findings(own=[CLAMP, SOFTPLUS, GATE], bisected=bisected)
    own_code.name_bisected(found)
    assert found.guilty == guilty


@pytest.mark.parametrize("guilty", [CLAMP, None])
def test_title_place_and_last_line_name_the_code_and_whose_it_is(guilty, tmp_path):
    suspect = suspect_of(wrong(A))
    found = Findings(
        stage=Stage("inductor", {"inductor": Seen("bad")}),
        place=Place("act", "ReLU"),
        own=[CLAMP],
        guilty=guilty,
        script=Script(text='"""[Inductor] one: wrong"""\nimport sys\n', origin="the recipe"),
    )
    is_own = guilty is not None
    title = title_of(suspect, found)
    assert title.startswith("[the team's own pass] nimbus.passes.Clamp: wrong output") == is_own
    shown = issue.text(suspect, found, make_environment(), "observe", "")
    assert ("**Code:** `nimbus.passes.Clamp` (`passes.py:3`), the pass" in shown) == is_own
    assert ("and is no PyTorch issue" in shown) == is_own
    last = Triaged(suspect, tmp_path, found).place
    assert ("the team's own pass nimbus.passes.Clamp (passes.py:3)" in last) == is_own
    assert cause_of(suspect, found).named == ("pass: nimbus.passes.Clamp (passes.py:3)" * is_own)
    retitle(suspect, found, tmp_path)
    assert (tmp_path / "repro.py").read_text() == found.script.text
    assert found.script.text.startswith(f'"""{title[:50]}')
    assert found.script.text.endswith('"""\nimport sys\n')


def test_code_of_an_installed_package_is_of_that_package():
    assert ownership.whose(replace(CLAMP, owner="torchao")) == "torchao's own"


def test_operators_are_not_called_right_where_a_trial_lacked_code_of_the_recipe():
    right = "on random data, the model's operators are right"
    assert own_code.why_right(Findings(own=[CLAMP])) == right
    assert own_code.why_right(Findings()) == right
    late = own_code.why_right(Findings(own=[replace(CLAMP, is_late=True), GATE]))
    assert late.startswith("operators alone are compiled without nimbus.passes.Clamp, which the")
