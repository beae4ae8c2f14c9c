"""The line of the user's code that triage names: of a break, a guard, or a bisected operator."""

from pathlib import Path

import pytest
import torch
from torch import nn

from compilegate.judging.budget import Budget
from compilegate.observe.dissect import operators
from compilegate.records.case import Case
from compilegate.triage import report
from compilegate.triage.culprits import culprits
from compilegate.triage.findings import Findings
from compilegate.triage.folders import Triaged
from compilegate.triage.ladder import Stage
from compilegate.triage.place import Place
from compilegate.triage.releases import Seen
from compilegate.triage.script import Script
from compilegate.triage.scripts_run import Ended, Verified
from compilegate.triage.suspect import Suspect
from compilegate.zoo.example import Call
from tests.unit.failing import A, broken, failures, recompiled, wrong
from tests.unit.making import make_break, make_environment

TRAIN = Case.parse("m-cpu-train-f32-default-static")
GELU = {"subsystem": "decomposition", "what": "<OpOverload(op='aten.gelu', overload='default')>"}
LINE = "net.py:12 in forward: return gelu(x)"


class Net(nn.Module):
    def forward(self, x):
        y = torch.nn.functional.gelu(x)
        return y.tanh() / 3


def suspect_of(observation):
    found = failures(observation)
    (culprit,) = culprits(found)
    return Suspect(culprit, observation, [found[0].verdict], lambda case: Budget(), "2.15.0")


def found(backend="inductor", **fields):
    return Findings(stage=Stage(backend, {backend: Seen("bad")}), **fields)


def line_of(text):
    code = [line.strip() for line in Path(__file__).read_text().splitlines()]
    return f"{Path(__file__).name}:{code.index(text) + 1} in forward: {text}"


def test_each_operator_has_the_line_that_calls_what_it_was_decomposed_from():
    call = Call((torch.randn(3, 4, requires_grad=True),))
    told = operators.called(Net(), call, TRAIN, with_grad=False)
    lines = {(one["of"], one["name"]): one["source"] for one in told}
    gelu, rest = map(line_of, ("y = torch.nn.functional.gelu(x)", "return y.tanh() / 3"))
    assert lines["gelu", "erf"] == gelu
    assert lines["tanh", "tanh"] == lines["div", "div"] == rest
    assert lines["gelu_backward", "exp"] == gelu


@pytest.mark.parametrize(
    ("bisected", "operator"),
    [
        (GELU, "gelu"),
        ({"subsystem": "decomposition", "what": "aten.gelu.default"}, "gelu"),
        ({"subsystem": "lowerings", "what": "var_mean_12"}, "var_mean"),
        ({"subsystem": "post_grad_passes", "what": "remove_noop_ops"}, ""),
        ({}, ""),
    ],
    ids=["an overload", "its name", "a node", "a pass", "nothing"],
)
def test_a_decomposition_or_a_lowering_has_an_operator_and_a_pass_has_none(bisected, operator):
    assert found(bisected=bisected).operator == operator


def test_a_report_names_the_lines_that_call_a_bisected_operator():
    def text(**fields):
        made = found(**fields)
        made.bisected = {"backend": "inductor", **made.bisected}
        return report.text(suspect_of(wrong(A)), made, make_environment(), "observe", "")

    lines = [LINE, *(LINE.replace("12", str(number)) for number in range(13, 17))]
    shown = text(bisected=GELU, called_at=lines)
    assert "**Operator:** `gelu` has the decomposition or lowering" in shown
    assert f"It is called at `{LINE}`." in shown
    assert "2 other lines call it, too." in shown
    alone = text(bisected=GELU, place=Place(operator="gelu_", source=LINE.replace("12", "9")))
    assert "**Operator:** `gelu_` fails alone" in alone
    assert "net.py:9 in" in alone
    assert "**Operator:**" not in text(bisected={"subsystem": "post_grad_passes", "what": "x"})


def test_a_report_says_what_was_tried_and_what_to_do_where_no_script_shows_it():
    why = "a script with the model's source is not possible: it takes arguments"

    def text(**fields):
        made = found(tried_scripts=[why], **fields)
        return report.text(suspect_of(wrong(A)), made, make_environment(), "observe", "x = 1")

    assert f"- tried: {why}" in text()
    assert "The command below shows it with compilegate" in text()
    script = Script(text="x = 1", origin="the recipe of one")
    red, green = Ended(1, "compiled code is WRONG", 1.0), Ended(0, "", 1.0)
    shipped = text(script=script, verified=Verified(red, green, "off"))
    assert "tried" not in shipped
    assert "The command below" not in shipped


@pytest.mark.parametrize(
    ("observation", "findings", "place"),
    [
        (broken(A, make_break()), found("eager"), "Dynamo, net.py:10"),
        (recompiled(A, *["0/0: self.n == 1"] * 2), found("eager"), "Dynamo, net.py:10"),
        (wrong(A), found(), "Inductor, the whole model"),
        (wrong(A), found(place=Place("act", "GELU")), "Inductor, act (GELU)"),
        (
            wrong(A),
            found(bisected=GELU, called_at=[LINE]),
            "Inductor, gelu at net.py:12",
        ),
    ],
    ids=["a break", "a guard", "numbers", "a submodule", "an operator"],
)
def test_the_last_lines_name_the_line_where_there_is_one(observation, findings, place):
    assert Triaged(suspect_of(observation), Path("x"), findings).place == place
