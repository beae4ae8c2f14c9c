"""Triage without a compiler: what stands for a culprit, the source of recipes, graphs, reports."""

import ast
import subprocess
import sys
from dataclasses import replace
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
from compilegate.triage import programs, report
from compilegate.triage.folders import suspects
from compilegate.triage.ladder import Stage
from compilegate.triage.recipe import NoSourceError, recipe_lines
from compilegate.triage.recipe_facts import RecipeFacts
from compilegate.triage.releases import Seen
from compilegate.triage.script import Shows, of_program, of_recipe
from compilegate.zoo import registry
from compilegate.zoo.example import Call

INFER = Case.parse("m-cpu-infer-f32-default-static")
GRAPHS = Case.parse("m-cuda-train-f32-reduce_overhead-dynamic")
WRONG = Shows(title="what is wrong")
DATA = Path(__file__).parents[1] / "data"


#: A model whose example picks a part of the output, of which alone gradients are.
PICKED = "gh118396_undefined_gradient"


def script_of(model, shows=WRONG, case=INFER, **how):
    entry = registry.load()[model]
    lines = recipe_lines(Path(entry.source), entry.name, case.device)
    return of_recipe(lines, case, shows, [{}, {}], **how)


@pytest.mark.parametrize(
    "model",
    [name for name in registry.load() if name.startswith("gh")],
)
def test_the_recipe_of_each_known_bug_makes_a_script_without_the_zoo(model):
    for shows in (replace(WRONG, calls=1), WRONG, replace(WRONG, careful=True)):
        text = script_of(model, shows)
        names = [
            node.names[0].name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import)
        ]
        assert not any(name.startswith("compilegate") for name in names)
        assert "compilegate" not in text
        assert "Program" not in text
        most = 80 if shows.careful else 65 if "for n" in text else 60
        assert len(text.splitlines()) <= most


def test_a_recipe_takes_along_what_it_needs_of_its_file_and_of_others(tmp_path):
    zoo = tmp_path / "zoo.py"
    zoo.write_text(
        "import math as m\nfrom compilegate import Call, Example, model\nUNUSED = 1\nWIDTH = 4\n"
        "def twice(x: int) -> int:\n    '''Double.'''\n    return m.floor(x) * WIDTH\n"
        "@model('one')\ndef one():\n    return Example(twice, calls=[Call((1,), before=print)])\n"
        "for name in ('two', 'three'):\n    model(name)(lambda: Example(twice))\n"
    )
    text = "\n".join(recipe_lines(zoo, "one", "cpu"))
    assert "import math as m" in text
    assert "WIDTH = 4" in text
    assert "dict(module=twice, calls=[dict(args=(1,), before=print)])" in text
    assert not any(word in text for word in ("UNUSED", "Double", "compilegate", ": int"))
    with pytest.raises(
        NoSourceError, match=r"no function in zoo\.py is decorated with the name 'two'"
    ):
        recipe_lines(zoo, "two", "cpu")


def test_a_script_asks_for_what_it_checks():
    broken = script_of("gh128942_local_class", replace(WRONG, strict="breaks"))
    assert "fullgraph=True" in broken
    assert "assert_close" not in broken
    assert "fullgraph" not in script_of("gh128942_local_class")
    counted = script_of("gh128942_local_class", replace(WRONG, strict="breaks", counted=True))
    assert "fullgraph" not in counted
    assert 'counters["graph_break"]' in counted
    often = replace(WRONG, strict="recompiles", recompilations=1)
    recompiled = script_of("gh197889_float_epsilon", often)
    assert "fail_on_recompile_limit_hit = True" in recompiled
    assert "recompile_limit = 2 " in recompiled
    assert " recompile_limit =" not in script_of(
        "gh197889_float_epsilon", replace(often, recompilations=None)
    )
    assert "force_disable_caches = True" in script_of("gh197889_float_epsilon", cold=True)
    replaced = script_of("gh197039_recomputed_buffer", identities=["first.norm"])
    assert 'module.set_submodule("first.norm", torch.nn.Identity())' in replaced
    half = script_of("gh176565_bf16_round_trip", case=Case.parse("m-cpu-infer-bf16-default-static"))
    assert "torch.autocast('cpu', torch.bfloat16" in half
    graphs = script_of("gh170863_dynamic_rate", case=GRAPHS)
    assert 'MODE = sys.argv[2] if sys.argv[2:] else "reduce-overhead"' in graphs
    assert "dynamic=True, mode=MODE)" in graphs
    assert "cudnn.allow_tf32 = False" in graphs
    assert "MODE" not in script_of("gh170863_dynamic_rate", case=GRAPHS, backend="aot_eager")
    train = Case.parse("m-cpu-train-f32-default-static")
    assert 'in tree_leaves(example["output"](out)) if' in script_of(PICKED, case=train)
    assert "tree_leaves(out)" in script_of("gh197039_recomputed_buffer", case=train)
    assert "dump_traceback_later(60, exit=True)" in script_of(
        "gh128942_local_class", replace(WRONG, kind="hang")
    )


_AT_SIZE = 'example["inputs"](n=3)'


@pytest.mark.parametrize(
    ("fields", "is_module", "is_fresh", "arguments"),
    [
        ("module=double, inputs=lambda: (torch.randn(2).t(),)", False, True, 'example["inputs"]()'),
        ("module=nn.ReLU(), inputs=lambda: (x[1:],)", True, False, 'example["inputs"]()'),
        ("module=made, inputs=(torch.randn(2),)", None, True, 'example["inputs"]'),
        ("module=torch.add, inputs=double", False, False, 'example["inputs"]()'),
        ("module=torch.abs, inputs=lambda n: (torch.ones(n),)", False, True, _AT_SIZE),
        (
            "module=made(), kwargs=given",
            None,
            False,
            '((), (example["kwargs"]() if callable(example["kwargs"]) else example["kwargs"]))',
        ),
    ],
)
def test_a_script_leaves_out_what_the_recipe_does_not_need(fields, is_module, is_fresh, arguments):
    double = "def double(x):\n    return 2 * x\n"
    recipe = RecipeFacts(f"{double}def recipe():\n    return dict({fields})")
    sizes = {"n": 3} if "lambda n" in fields else {}
    assert (recipe.is_module, recipe.gives_fresh_tensors) == (is_module, is_fresh)
    assert recipe.arguments([sizes], only=True)["arguments"] == arguments
    assert recipe.arguments([sizes], only=True)["loop"] == ""


#: A module that counts its calls, by a step of its own in compiled code.
COUNTING = """
class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.sizes = 0, []
    def forward(self, x):
        self.calls += STEP if torch.compiler.is_compiling() else 1
        self.sizes.append(x.shape[0])
        return 2 * x
def recipe():
    return dict(module=Counting(), inputs=lambda: (torch.randn(8),))
"""
#: A function that keeps its sizes in a variable, by a step of its own in compiled code.
CLOSING = """
def recipe():
    sizes = []
    def double(x):
        sizes.append(STEP * x.shape[0] if torch.compiler.is_compiling() else x.shape[0])
        return 2 * x
    return dict(module=double, inputs=lambda: (torch.randn(8),))
"""


@pytest.mark.parametrize(
    ("recipe", "where"),
    [(COUNTING, "attribute calls"), (CLOSING, "closure sizes[0]"), (CLOSING, "closure f.sizes")],
)
@pytest.mark.parametrize("step", [1, 2])
def test_a_script_compares_the_python_state_that_differs(recipe, where, step, tmp_path):
    wrong = replace(WRONG, kind="state", where=where)
    text = of_recipe(recipe.replace("STEP", str(step)).splitlines(), INFER, wrong, [{}, {}])
    (tmp_path / "repro.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-P", str(tmp_path / "repro.py"), "eager"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == step - 1, done.stderr
    assert ("WRONG" in done.stdout) == (step == 2)


def test_a_script_holds_no_variable_of_another_function():
    wrong = replace(WRONG, kind="state", where="closure elsewhere")
    assert "held" not in script_of("gh197896_local_method", wrong)


def test_a_script_sets_the_options_that_the_recipe_names():
    recipe = RecipeFacts("def recipe():\n    return dict(config={'inductor.max_fusion_size': 8})")
    assert [*recipe.config] == [
        "import torch._inductor.config",
        "torch._inductor.config.max_fusion_size = 8",
    ]


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
    cleaned = report.cleaned(text)
    for secret in (str(Path.home()), "abc123", "hunter2", "me:pw", "someone", "hf_abcdefgh1234"):
        assert secret not in cleaned
    assert cleaned.count(HIDDEN) == 3
    assert cleaned.endswith(f"~/net.py {HIDDEN}")
    plain = "torch 2.15.0: the key of attention, tokens (3, 4), /usr/lib/x.so"
    assert report.cleaned(plain) == plain


def test_a_script_has_no_secrets_and_still_runs():
    code = (
        "self.cls_token = nn.Parameter(torch.zeros(1, 1, 64))\n"
        "run(tokens=16, hf_token='abc123', path='/home/someone/x.pt')\n"
        'os.environ["API_KEY"] = "hunter2"\nheaders = {"secret": "me", "key": 3}\n'
    )
    clean = report.cleaned_code(code)
    ast.parse(clean)
    assert "self.cls_token = nn.Parameter(torch.zeros(1, 1, 64))" in clean
    assert "tokens=16" in clean
    assert '"key": 3' in clean
    for secret in ("abc123", "someone", "hunter2", '"me"'):
        assert secret not in clean


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
        ("unobservable", "the case could not be observed here"),
    ],
)
def test_a_case_that_cannot_be_observed_does_not_count_as_passing(state, doubt):
    stage = Stage(seen={"inductor": Seen(state, "no GPU")})
    assert not stage.is_confirmed
    assert stage.doubt == doubt
