"""Scripts of culprits: the source of a recipe, and what a script checks."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

from compilegate.fuzzing.program import Program, Statement, Value
from compilegate.records.case import Case
from compilegate.triage.scripts.script import may_be_brief, of_program, of_recipe
from compilegate.triage.scripts.shows import Shows
from compilegate.triage.source.definitions import NoSourceError
from compilegate.triage.source.recipe import Recipe, recipe_of
from compilegate.triage.source.recipe_facts import RecipeFacts
from compilegate.zoo import registry
from tests.unit.triage.script_runs import run

INFER = Case.parse("m-cpu-infer-f32-default-static")
GRAPHS = Case.parse("m-cuda-train-f32-reduce_overhead-dynamic")
WRONG = Shows(title="what is wrong")


#: A model whose example picks a part of the output, of which alone gradients are.
PICKED = "gh118396_undefined_gradient"


def script_of(model, shows=WRONG, case=INFER, **how):
    entry = registry.load()[model]
    recipe = recipe_of(Path(entry.source), entry.name, case.device)
    return of_recipe(recipe, case, shows, [{}, {}], **how)


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
    text = "\n".join(recipe_of(zoo, "one", "cpu").lines)
    assert "import math as m" in text
    assert "WIDTH = 4" in text
    assert "dict(module=twice, calls=[dict(args=(1,), before=print)])" in text
    assert not any(word in text for word in ("UNUSED", "Double", "compilegate", ": int"))
    with pytest.raises(
        NoSourceError, match=r"no function in zoo\.py is decorated with the name 'two'"
    ):
        recipe_of(zoo, "two", "cpu")


def test_a_script_has_the_decorators_of_the_recipe_and_none_of_compilegate(tmp_path):
    zoo = tmp_path / "zoo.py"
    zoo.write_text(
        "import functools\nimport torch\nfrom functools import partial\n"
        "from compilegate import Example, model\nown = partial(model, family='mine')\n"
        "@torch.library.custom_op('my::op', mutates_args=())\ndef op(x: torch.Tensor):\n"
        "    return 2 * x\n"
        "@functools.cache\ndef width():\n    return 4\n"
        "@own('other')\ndef other():\n    return Example(op)\n"
        "@own('one')\ndef one():\n    return Example(op, inputs=(torch.ones(width()), other))\n"
    )
    text = "\n".join(recipe_of(zoo, "one", "cpu").lines)
    assert "@torch.library.custom_op('my::op', mutates_args=())" in text
    assert "@functools.cache" in text
    assert "import functools" in text
    assert "own" not in text
    assert "compilegate" not in text


@pytest.mark.parametrize(("dynamic", "marks"), [("marked", True), ("dynamic", False)])
def test_a_script_marks_dimensions_where_the_case_does(dynamic, marks):
    recipe = "def recipe():\n    return dict(module=abs, inputs=given, dims={0: {0: 'n'}})"
    case = Case.parse(f"m-cpu-infer-f32-default-{dynamic}")
    text = of_recipe(Recipe(recipe.splitlines()), case, WRONG, [{"n": 3}, {"n": 4}])
    assert ("mark_dynamic(args[name], dim)" in text) == marks


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
    cached = script_of("gh197889_float_epsilon", replace(WRONG, cached=True))
    assert '"TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()' in cached
    assert "FORCE_DISABLE_CACHES" not in cached
    assert "tempfile" not in script_of("gh197889_float_epsilon")
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


@pytest.mark.parametrize(
    ("draw", "seeded"),
    [
        ("random.random()", {"random.seed(0)"}),
        ("np.random.rand()", {"numpy.random.seed(0)"}),
        ("torch.random.get_rng_state()", set()),
    ],
)
def test_a_script_seeds_the_generators_that_the_recipe_uses(draw, seeded):
    recipe = f"def recipe():\n    return dict(module=lambda x: x + {draw}, inputs=given)"
    text = of_recipe(Recipe(recipe.splitlines()), INFER, WRONG, [{}, {}])
    assert set(re.findall(r"^    ([\w.]*random\.seed\(0\))$", text, re.MULTILINE)) == seeded


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


#: A function and a class at the top level, which keep state that all calls share.
SHARING = """
SEEN = []
class Counting(nn.Module):
    calls = 0
    def forward(self, x, given=[]):
        step = STEP if torch.compiler.is_compiling() else 1
        Counting.calls += step
        SEEN.append(x.shape[0] * step)
        given.append(step)
        helper.name = helper.__dict__.get("name", "") + "a" * step
        return helper(x)
def helper(x):
    return 2 * x
def recipe():
    return dict(module=Counting(), inputs=lambda: (torch.randn(8),))
"""
#: A class that the recipe makes.
MAKING = """
def recipe():
    class Counting(nn.Module):
        calls = 0
        def forward(self, x):
            Counting.calls += STEP if torch.compiler.is_compiling() else 1
            return 2 * x
    return dict(module=Counting(), inputs=lambda: (torch.randn(8),))
"""
#: A module that keeps a text and an object with a number.
HOLDING = """
class Options:
    seen = None
class Holding(nn.Module):
    def __init__(self):
        super().__init__()
        self.name, self.options = "", Options()
    def forward(self, x):
        step = STEP if torch.compiler.is_compiling() else 1
        self.name += "a" * step
        self.options.seen = step
        return 2 * x
def recipe():
    return dict(module=Holding(), inputs=lambda: (torch.randn(8),))
"""


SHARED = (
    "class Counting.calls",
    "global zoo.SEEN[0]",
    "function forward(given)[0]",
    "function helper.name",
)


@pytest.mark.parametrize(
    ("recipe", "differs"),
    [
        (COUNTING, ("attribute calls",)),
        (CLOSING, ("closure f.sizes",)),
        (SHARING, SHARED),
        (MAKING, ("attribute class Counting.calls",)),
        (HOLDING, ("attribute options.seen", "attribute name")),
    ],
    ids=["attribute", "closure", "shared", "class of the recipe", "text and object"],
)
@pytest.mark.parametrize("step", [1, 2])
def test_a_script_compares_the_python_state_that_differs(recipe, differs, step, tmp_path):
    kind, calls = ("values", 1) if recipe == COUNTING else ("state", 0)
    wrong = replace(WRONG, kind=kind, where=differs[0], differs=differs, calls=calls)
    wrong = replace(wrong, is_number=recipe in (COUNTING, CLOSING))
    recipe = Recipe(recipe.replace("STEP", str(step)).splitlines())
    done = run(of_recipe(recipe, INFER, wrong, [{}, {}]), tmp_path)
    assert done.returncode == step - 1, done.stderr
    assert ("WRONG" in done.stdout) == (step == 2)
    places = set(re.findall(r"\b(?:shared|attribute|held)\b[^:]*", done.stdout))
    assert len(places) >= len(differs) * (step - 1), done.stdout


NUMBERS = "(9 * torch.randn(4, 3))"


@pytest.mark.parametrize(
    "text",
    [
        NUMBERS,
        f"{NUMBERS}.to(torch.int32)",
        f"{NUMBERS}.masked_fill(torch.rand(4, 3) < 0.5, float('inf'))",
    ],
    ids=["float32", "int32", "infinities"],
)
@pytest.mark.parametrize("is_wrong", [True, False])
def test_the_script_of_one_operator_is_brief(text, is_wrong, tmp_path):
    x = Value(name="x", text=text)
    statement = Statement(text="y = torch.square(x)", makes=("y",), reads=("x",))
    program = Program(name="m", values=(x,), statements=(statement,), returns=("y",))
    assert may_be_brief(program, WRONG)
    text = of_program(program, INFER, replace(WRONG, brief=True))
    assert len(text.splitlines()) <= 30
    if is_wrong:
        text = text.replace("(x)\n", "(x) + torch.compiler.is_compiling()\n")
    done = run(text, tmp_path)
    assert done.returncode == is_wrong, done.stdout + done.stderr
    assert done.stdout.endswith(f"compiled code is {'WRONG' if is_wrong else 'right'} with eager\n")


@pytest.mark.parametrize("shows", [{"kind": "layout"}, {"kind": "raises"}, {"aliasing": True}])
def test_a_script_of_what_no_value_shows_is_not_brief(shows):
    x = Value(name="x", text="torch.randn(3)")
    program = Program(name="m", values=(x,), statements=(), returns=("x",))
    assert not may_be_brief(program, replace(WRONG, **shows))
    assert not may_be_brief(replace(program, phase="train"), WRONG)
    assert not may_be_brief(replace(program, returns=("x", "x")), WRONG)


def test_a_script_compares_no_state_that_it_does_not_have():
    facts = RecipeFacts(SHARING)
    assert facts.shared("class Counting.calls") == ("Counting", "calls")
    for where in ("class Other.calls", "global zoo.UNSEEN", "attribute calls", "function f(a)"):
        assert facts.shared(where) is None, where


def test_a_script_holds_no_variable_of_another_function():
    wrong = replace(WRONG, kind="state", where="closure elsewhere")
    assert "held" not in script_of("gh197896_local_method", wrong)


def test_a_script_sets_the_options_that_the_recipe_names():
    recipe = RecipeFacts("def recipe():\n    return dict(config={'inductor.max_fusion_size': 8})")
    assert [*recipe.config] == [
        "import torch._inductor.config",
        "torch._inductor.config.max_fusion_size = 8",
    ]
