"""The line of the user's code that triage names: of a break, a guard, or a bisected operator."""

from pathlib import Path

import pytest
import torch
from torch import nn

from compilegate.culprits.grouping import culprits
from compilegate.judging.budget import Budget
from compilegate.observe.dissect import operators
from compilegate.records.case import Case
from compilegate.triage.findings import Findings
from compilegate.triage.folders import Triaged
from compilegate.triage.report import code_lines, issue
from compilegate.triage.scripts.running import Ended, Verified
from compilegate.triage.scripts.script import Script
from compilegate.triage.search.ladder import Stage
from compilegate.triage.search.place import Place
from compilegate.triage.search.seen import Seen
from compilegate.triage.search.suspect import Suspect
from compilegate.zoo.example import Call
from tests.unit.failing import A, broken, failures, recompiled, wrong
from tests.unit.making import (
    make_break,
    make_capture,
    make_compilation,
    make_environment,
    make_observation,
)

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


def guarded(reason):
    items = [make_compilation(n, reason if n else "", guarded_at="net.py:8") for n in range(3)]
    return make_observation(case=A, capture=make_capture(compilations=tuple(items)))


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
        return issue.text(suspect_of(wrong(A)), made, make_environment(), "observe", "")

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
        return issue.text(suspect_of(wrong(A)), made, make_environment(), "observe", "x = 1")

    assert f"- tried: {why}" in text()
    assert "The command below shows it with\ncompilegate" in text()
    script = Script(text="x = 1", origin="the recipe of one")
    red, green = Ended(1, "compiled code is WRONG", 1.0), Ended(0, "", 1.0)
    shipped = text(script=script, verified=Verified(red, green, "off"))
    assert "tried" not in shipped
    assert "The command below" not in shipped


@pytest.mark.parametrize(
    ("observation", "findings", "place"),
    [
        (broken(A, make_break()), found("eager"), "Dynamo, net.py:10"),
        (recompiled(A, *["0/0: self.n == 1"] * 2), found("eager"), "Dynamo, forward of net.py"),
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


def test_a_report_quotes_the_line_of_the_code_of_the_user(tmp_path):
    (tmp_path / "net.py").write_text("\n" * 9 + "    if x.sum() > 0:\n")
    suspect = suspect_of(broken(A, make_break()))
    code = code_lines.text_of(suspect.evidence, [tmp_path / "none", tmp_path])
    text = issue.text(suspect, found(code=code), make_environment(), "observe", "")
    assert "**Line:** `net.py:10`: `if x.sum() > 0:`\n" in text
    guard = suspect_of(guarded("0/0: self.n == 1 # return x * self.n # t/net.py:8 in f"))
    assert code_lines.text_of(guard.evidence, []) == "return x * self.n"


def test_a_line_whose_file_is_not_there_has_its_place_alone(tmp_path):
    suspect = suspect_of(broken(A, make_break()))
    assert code_lines.text_of(suspect.evidence, [tmp_path]) == ""
    assert code_lines.text_of(suspect_of(wrong(A)).evidence, [tmp_path]) == ""
    text = issue.text(suspect, found(), make_environment(), "observe", "")
    assert "**Line:** `net.py:10`\n" in text


def test_the_line_of_a_function_is_not_that_of_a_guard_in_it():
    suspect = suspect_of(recompiled(A, *["0/0: self.n == 1"] * 2))
    text = issue.text(suspect, found("eager"), make_environment(), "observe", "")
    assert (
        "**Line:** PyTorch names no line for this guard. It recompiles `forward of net.py" in text
    )
    suspect = suspect_of(guarded("0/0: self.n == 1 # return x * self.n # t/net.py:8 in f"))
    text = issue.text(suspect, found("eager"), make_environment(), "observe", "")
    assert "**Line:** `net.py:8`" in text


TRACEBACK = 'Traceback (most recent call last):\n  File "repro.py", line 3\n{}\n'


@pytest.mark.parametrize(
    ("status", "output", "text"),
    [
        (0, "", "exit status 0"),
        (1, "compiled code is WRONG\n", "exit status 1"),
        (1, TRACEBACK.format("ImportError: no gate"), "exit status 1: ImportError: no gate"),
        (
            1,
            TRACEBACK.format("torch._dynamo.exc.Unsupported: print\n\nTypeError: two\n  lines"),
            "exit status 1: TypeError: two",
        ),
        (2, "usage: repro.py\n\n", "exit status 2; it printed last: usage: repro.py"),
        (2, TRACEBACK.format("ImportError: no gate"), "exit status 2: ImportError: no gate"),
        (2, "", "exit status 2"),
        (-11, TRACEBACK.format("Error: x"), "died of SIGSEGV"),
    ],
)
def test_a_script_that_fails_by_itself_says_with_what(status, output, text):
    assert str(Ended(status, output, 1.0)) == text
