"""Triage without a compiler: what stands for a culprit, graphs as programs, reports."""

import ast
import sys
import types
from pathlib import Path

import pytest
import torch
from torch import nn

from compilegate.judging import budgets_toml
from compilegate.layout import SHIPPED_BUDGETS
from compilegate.observe.dissect import graph
from compilegate.records.case import Case
from compilegate.records.variables import HIDDEN
from compilegate.runs import files
from compilegate.triage.folders import suspects, unused
from compilegate.triage.report import cleaning, environment_file
from compilegate.triage.scripts import programs
from compilegate.triage.scripts.script import of_program
from compilegate.triage.scripts.shows import Shows
from compilegate.triage.search.ladder import Stage
from compilegate.triage.search.seen import Seen
from compilegate.zoo.example import Call
from tests.unit.making import make_environment

INFER = Case.parse("m-cpu-infer-f32-default-static")
GRAPHS = Case.parse("m-cuda-train-f32-reduce_overhead-dynamic")
WRONG = Shows(title="what is wrong")
DATA = Path(__file__).parents[2] / "data"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 4)

    def forward(self, x, index):
        x = self.second(self.first(x).relu()).relu()
        x[:, 0] += 1
        return x.t().index_select(0, index)


def described(module, *args):
    return graph.describe(module, Call(args), INFER, with_grad=False)


def test_the_graph_of_a_module_becomes_a_program_that_computes_the_same():
    module, index = Net(), torch.tensor([2, 0])
    found = described(module, torch.randn(3, 4), index)
    program = programs.program_of(found, INFER, "eager")
    assert [value.name for value in program.held] == ["first_weight", "first_bias", "second_weight",
                                                      "second_bias"]  # fmt: skip
    namespace = {}
    exec(of_program(program, INFER, WRONG).partition("def results")[0], namespace)
    made = namespace["Program"]()
    for (_, ours), (_, theirs) in zip(
        sorted(made.named_parameters()),
        sorted((name.replace(".", "_"), p) for name, p in module.named_parameters()),
        strict=True,
    ):
        ours.data = theirs.data
    x, given = namespace["inputs"]()
    assert (x.shape, given.dtype, int(given.max()) <= 2) == ((3, 4), torch.int64, True)
    with torch.no_grad():
        (out,) = [made(x.clone(), index)]
        assert torch.equal(out, module(x.clone(), index))


def test_each_kind_of_operator_is_one_program():
    found = described(nn.Sequential(nn.Tanh(), nn.Tanh(), nn.ReLU()), torch.randn(3, 4))
    alone = programs.of_one_operator(programs.program_of(found, INFER, "eager"))
    assert [one.statements[0].operator for one in alone] == ["tanh", "relu"]


def test_words_that_an_operator_takes_for_granted_are_left_out():
    """So ``nn.GELU()`` and ``F.gelu(x)`` are one computation, and *tanh* is another."""
    texts = []
    for module in (nn.GELU(), nn.GELU(approximate="none"), nn.GELU(approximate="tanh")):
        (statement,) = programs.program_of(
            described(module, torch.randn(3)), INFER, "eager"
        ).statements
        texts.append(statement.text.partition("gelu(")[2])
    assert texts[0] == texts[1]
    assert "approximate='tanh'" in texts[2]


def test_a_statement_knows_the_line_of_the_code_of_the_user():
    found = described(Net(), torch.randn(3, 4), torch.tensor([0]))
    lines = {one["operator"]: one["source"] for one in found["statements"]}
    text = "x = self.second(self.first(x).relu()).relu()"
    code = [line.strip() for line in Path(__file__).read_text().splitlines()]
    assert lines["relu"] == f"test_reports.py:{code.index(text) + 1} in forward: {text}"


def test_a_graph_that_no_program_can_hold_says_why():
    class Breaks(nn.Module):
        def forward(self, x):
            x = x.sin()
            torch._dynamo.graph_break()
            return x.cos()

    found = described(Breaks(), torch.randn(3))
    with pytest.raises(programs.UnprintableError, match="2 graphs were captured"):
        programs.program_of(found, INFER, "eager")
    half = Case.parse("m-cpu-infer-bf16-default-static")
    with pytest.raises(programs.UnprintableError, match="float32 on a CPU"):
        programs.program_of(described(nn.Tanh(), torch.randn(3)), half, "eager")


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(3, 4),
        torch.randn(4, 3).t(),
        torch.randn(3, 8)[:, ::2],
        torch.randint(-3, 9, (2, 3)),
        torch.randint(0, 200, (), dtype=torch.uint8),
        torch.rand(5) > 0.5,
        torch.randn(2, 2, dtype=torch.complex64),
        1e-3 * torch.rand(4).bfloat16(),
        torch.empty(0, 3),
    ],
)
def test_an_expression_makes_a_tensor_of_the_same_kind(tensor):
    made = eval(graph.expression(tensor), {"torch": torch})
    assert (made.shape, made.dtype, made.stride()) == (tensor.shape, tensor.dtype, tensor.stride())
    if tensor.numel() and not tensor.is_complex():
        assert made.min() >= min(tensor.min(), 0 if tensor.min() >= 0 else -torch.inf)


def test_a_report_has_no_secrets_and_no_home():
    text = (
        f"{Path.home()}/zoo.py: HF_TOKEN=abc123 password: hunter2 at https://me:pw@host/x "
        "/home/someone/net.py hf_abcdefgh1234"
    )
    cleaned = cleaning.cleaned(text)
    for secret in (str(Path.home()), "abc123", "hunter2", "me:pw", "someone", "hf_abcdefgh1234"):
        assert secret not in cleaned
    assert cleaned.count(HIDDEN) == 3
    assert cleaned.endswith(f"~/net.py {HIDDEN}")
    plain = "torch 2.15.0: the key of attention, tokens (3, 4), /usr/lib/x.so, secretive: exit 1"
    plain += ", call 1 (tokens=10), where"
    assert cleaning.cleaned(plain) == plain


def test_a_script_has_no_secrets_and_still_runs():
    code = (
        "self.cls_token = nn.Parameter(torch.zeros(1, 1, 64))\n"
        "run(tokens=16, hf_token='abc123', path='/home/someone/x.pt')\n"
        'os.environ["API_KEY"] = "hunter2"\nheaders = {"secret": "me", "key": 3}\n'
    )
    clean = cleaning.cleaned_code(code)
    ast.parse(clean)
    assert "self.cls_token = nn.Parameter(torch.zeros(1, 1, 64))" in clean
    assert "tokens=16" in clean
    assert '"key": 3' in clean
    for secret in ("abc123", "someone", "hunter2", '"me"'):
        assert secret not in clean


def test_a_report_shows_no_folder_of_installed_packages():
    for folder in ("/srv/env", ".venv"):
        line = f"at {folder}/lib/python3.11/site-packages/torch/_dynamo/pgo.py:605: UserWarning"
        assert cleaning.cleaned(line) == "at torch/_dynamo/pgo.py:605: UserWarning"
        assert cleaning.cleaned_code(line) == line, "a script opens its files"


def test_an_environment_lists_what_models_and_torch_need():
    text = environment_file.text(make_environment())
    assert "  timm 1.0.20\n" in text
    assert "pip" not in text  # no model needs it


def test_an_environment_names_modules_that_python_imports_as_it_starts(monkeypatch):
    monkeypatch.delitem(sys.modules, "usercustomize", raising=False)
    module = types.ModuleType("sitecustomize")
    module.__file__ = "/home/someone/site/sitecustomize.py"
    monkeypatch.setitem(sys.modules, "sitecustomize", module)
    text = environment_file.text(make_environment())
    assert text.endswith("also that of scripts:\n  sitecustomize ~/site/sitecustomize.py\n")
    monkeypatch.delitem(sys.modules, "sitecustomize")
    assert "modules that change" not in environment_file.text(make_environment())
    assert text.count("torch 2.15.0") == 1
    assert "OMP_NUM_THREADS 4" in text
    assert "configuration" not in text  # all of it is the default


def test_an_earlier_triage_is_not_overwritten(tmp_path):
    target = tmp_path / "run"
    assert unused(target) == target
    target.mkdir()
    assert unused(target) == target
    for name in ("run", "run-2"):
        (tmp_path / name / "1-m-forward").mkdir(parents=True)
        (tmp_path / name / "1-m-forward" / "report.md").touch()
    assert unused(target) == tmp_path / "run-3"


def test_a_case_in_float32_stands_for_a_culprit():
    run = files.read(DATA / "h200-known-bugs.jsonl.gz")
    budgets = budgets_toml.read([], sorted(SHIPPED_BUDGETS.glob("*.toml")))
    found = suspects(run, budgets, ["*"])
    assert found
    for suspect in found:
        cases = map(Case.parse, suspect.culprit.cases)
        exact = [case for case in cases if not case.computes_in_half]
        assert not (exact and suspect.case.computes_in_half)
    red = suspects(run, budgets)
    assert not any(suspect.culprit.is_expected for suspect in red)
    assert len(suspects(run, budgets, ["no-such-case*"])) == 0


@pytest.mark.parametrize(
    ("state", "doubt"),
    [
        ("good", "the failure did not show again"),
        ("unobservable", "the case could not be observed here: no GPU"),
    ],
)
def test_a_case_that_cannot_be_observed_does_not_count_as_passing(state, doubt):
    stage = Stage(seen={"inductor": Seen(state, "no GPU")})
    assert not stage.is_confirmed
    assert stage.doubt == doubt


def test_a_case_that_there_was_no_time_for_does_not_count_as_passing():
    assert Stage().doubt == "the search ended too early"
