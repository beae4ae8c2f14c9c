"""What a team's modules do to PyTorch, and what they fill: a script does it, and does it once."""

import pytest

from compilegate.fuzzing.program import Program, Statement, Value, zoo_text
from compilegate.records.case import Case
from compilegate.triage.scripts.script import of_program, of_recipe
from compilegate.triage.scripts.shows import Shows
from compilegate.triage.source.recipe import operators_in, recipe_of
from tests.unit.triage.script_runs import run

INFER = Case.parse("m-cpu-infer-f32-default-static")
WRONG = Shows(title="wrong", calls=1)
OPERATORS = """\
import torch
_lib = torch.library.Library("setupops", "DEF")
_lib.define("twice(Tensor x) -> Tensor")

def twice(x):
    return 2 * x

_lib.impl("twice", twice, "CompositeExplicitAutograd")
torch.library.register_fake("setupops::twice", lambda x: torch.empty_like(x))
_other = torch.library.Library("setupother", "DEF")
_other.define("other(Tensor x) -> Tensor")
"""
LOWERINGS = """\
import torch
from torch._inductor import config, decomposition
from torch._inductor.lowering import lowerings, register_lowering
from . import ops
aten = torch.ops.aten

@register_lowering(torch.ops.setupops.twice.default)
def twice(x):
    return lowerings[aten.mul.Tensor](x, 2.1)

@register_lowering(torch.ops.setupother.other.default)
def other(x):
    return x
"""
TUNING = """\
import torch
from torch._inductor import decomposition
aten = torch.ops.aten

def _softplus(x, beta=1, threshold=20):
    return x

class Pass:
    def __call__(self, graph):
        pass

def install():
    _all()

def _all():
    decomposition.decompositions[aten.softplus.default] = _softplus

def seed():
    torch.manual_seed(0)
"""
REGISTRY = """\
REGISTRY = {}

def register(name):
    def wrap(cls):
        REGISTRY[name] = cls
        return cls
    return wrap

def build(name):
    from . import nets
    return REGISTRY[name]()
"""
NETS = """\
import torch
from pathlib import Path
from .registry import register
from . import ops

DATA = Path(__file__).parent

@register("twice")
class Twice(torch.nn.Module):
    def forward(self, x):
        return torch.ops.setupops.twice(x)

class Placed(torch.nn.Module):
    def forward(self, x):
        return torch.ops.setupops.twice(x) + len(DATA.name)
"""
ZOO = """\
import torch
from compilegate import Example, model
from setupteam.nets import Placed, Twice

@model("one")
def one():
    {body}
    return Example({layer}, inputs=lambda: (torch.randn(3),))
"""


@pytest.fixture
def zoo(tmp_path):
    """Write a zoo file next to the team's package, and return it."""
    package = tmp_path / "setupteam"
    package.mkdir()
    (package / "__init__.py").write_text("from .registry import build\n")
    files = {"ops": OPERATORS, "lowerings": LOWERINGS, "tuning": TUNING}
    for name, text in {**files, "registry": REGISTRY, "nets": NETS}.items():
        (package / f"{name}.py").write_text(text)

    def write(body="pass", layer="Twice()", top=""):
        file = tmp_path / "zoo.py"
        text = ZOO.format(body=body.replace("\n", "\n    "), layer=layer)
        file.write_text(text.replace("\n@model", f"{top}\n@model"))
        return file

    return write


def text_of(recipe):
    return "\n".join(recipe.lines)


@pytest.mark.parametrize(
    "imported", ["from setupteam import ops", "import setupteam.ops", "import setupteam.ops as o"]
)
def test_an_import_for_its_effects_is_dropped_where_these_are_copied(zoo, imported, tmp_path):
    recipe = recipe_of(zoo(imported), "one", "cpu")
    text = text_of(recipe)
    assert "setupteam" not in text
    assert text.count("Library(") == 1
    assert "register(" not in text  # only fills a registry, which the script has not
    assert not recipe.modules
    done = run(of_recipe(recipe, INFER, WRONG, [{}]), tmp_path)
    assert done.returncode == 0, done.stderr


def test_an_import_for_its_effects_stays_where_other_code_is_imported(zoo, tmp_path):
    recipe = recipe_of(zoo("from setupteam import lowerings", "Placed()"), "one", "cpu")
    text = text_of(recipe)
    assert "from setupteam import lowerings" in text
    assert "from setupteam.nets import Placed" in text
    assert "Library(" not in text
    assert "register_lowering" not in text
    done = run(of_recipe(recipe, INFER, WRONG, [{}]), tmp_path, tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_module_that_a_recipe_uses_is_imported_and_nothing_of_it_copied(zoo, tmp_path):
    recipe = recipe_of(zoo("from setupteam import ops\nvars(ops)"), "one", "cpu")
    text = text_of(recipe)
    assert "from setupteam import ops" in text
    assert "Library(" not in text
    assert "setupteam" in recipe.modules
    done = run(of_recipe(recipe, INFER, WRONG, [{}]), tmp_path, tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_registry_that_other_modules_fill_is_imported(zoo, tmp_path):
    file = zoo(layer='build("twice")', top="\nfrom setupteam import build\n")
    recipe = recipe_of(file, "one", "cpu")
    text = text_of(recipe)
    assert "from setupteam.registry import build" in text or "from setupteam import build" in text
    assert "REGISTRY" not in text
    done = run(of_recipe(recipe, INFER, WRONG, [{}]), tmp_path, tmp_path)
    assert done.returncode == 0, done.stderr
    (tmp_path / "elsewhere").mkdir()
    alone = run(of_recipe(recipe, INFER, WRONG, [{}]), tmp_path / "elsewhere")
    assert "No module named 'setupteam'" in alone.stderr


@pytest.mark.parametrize(
    ("settings", "is_copied"),
    [
        ("TABLE = {'a': 2}", True),
        ("TABLE = {}\nTABLE['a'] = 2", True),
        ("TABLE = {}", False),
        ("TABLE = {'a': 2}\n\ndef put(name):\n    TABLE[name] = 3", False),
        ("TABLE = {'a': 2}\n\ndef put(name):\n    TABLE.update({name: 3})", False),
        ("TABLE = {'a': len(__file__)}", False),
    ],
)
def test_a_table_is_copied_where_nothing_else_changes_it(zoo, settings, is_copied, tmp_path):
    file = zoo(layer="Scaled()", top="\nfrom setupteam.scaled import Scaled\n")
    scaled = "import torch\nfrom .settings import TABLE\n\nclass Scaled(torch.nn.Module):\n"
    scaled += "    def forward(self, x):\n        return x * TABLE['a']\n"
    (tmp_path / "setupteam" / "scaled.py").write_text(scaled)
    (tmp_path / "setupteam" / "settings.py").write_text(f"{settings}\n")
    recipe = recipe_of(file, "one", "cpu")
    assert ("TABLE = {" in text_of(recipe)) == is_copied
    assert bool(recipe.modules) != is_copied


def test_another_module_of_the_package_may_fill_a_table(zoo, tmp_path):
    file = zoo(top="\nfrom setupteam.settings import TABLE\n", layer="TABLE['a']()")
    (tmp_path / "setupteam" / "settings.py").write_text(
        "import torch\nTABLE = {'b': torch.nn.ReLU}\n"
    )
    fills = "import torch\nfrom . import settings\nsettings.TABLE['a'] = torch.nn.Tanh\n"
    (tmp_path / "setupteam" / "filling.py").write_text(fills)
    recipe = recipe_of(file, "one", "cpu")
    assert "setupteam.settings" in recipe.modules
    assert "from setupteam.settings import TABLE" in text_of(recipe)


def test_relative_imports_in_copied_functions_become_absolute(zoo, tmp_path):
    (tmp_path / "setupteam" / "late.py").write_text(
        "def made():\n    from . import registry\n    return vars(registry)['build']('twice')\n"
    )
    file = zoo(top="\nfrom setupteam.late import made\n", layer="made()")
    text = text_of(recipe_of(file, "one", "cpu"))
    assert "from ." not in text
    assert "from setupteam" in text


def test_the_last_script_imports_all_that_a_recipe_needs_of_the_team(zoo, tmp_path):
    file = zoo("from setupteam import ops", top="\nfrom setupteam import lowerings\n")
    recipe = recipe_of(file, "one", "cpu", copies=False)
    text = text_of(recipe)
    for part in ("class ", "Library(", "register_lowering"):
        assert part not in text
    for part in ("from setupteam.nets import Twice", "import setupteam.lowerings"):
        assert part in text
    assert recipe.paths == (str(tmp_path),)


def program(text, operator):
    statement = Statement(text=text, makes=("y",), reads=("x",), operator=operator)
    return Program(
        name="m",
        values=(Value(name="x", text="torch.randn(3)"),),
        statements=(statement,),
        returns=("y",),
    )


@pytest.mark.parametrize(
    ("body", "top"),
    [
        ("from setupteam import lowerings", ""),
        ("import setupteam.lowerings", ""),
        ("pass", "\nimport setupteam.lowerings\n"),
    ],
)
def test_a_script_of_an_operator_has_the_lowering_that_a_recipe_imports(zoo, body, top):
    text = text_of(operators_in(zoo(body, top=top), "y = torch.ops.setupops.twice(x)", "one"))
    assert text.count("Library(") == 1
    assert "lowerings[torch.ops.aten.mul.Tensor](x, 2.1)" in text
    assert text.count("def twice(") == 1  # the lowering has another name than the kernel
    assert "setupother" not in text
    assert "class Twice" not in text


def test_a_script_of_an_operator_has_no_lowering_that_nothing_imports(zoo):
    text = text_of(operators_in(zoo(), "y = torch.ops.setupops.twice(x)", "one"))
    assert "Library(" in text
    assert "register_lowering" not in text


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        ("from setupteam.tuning import install\ninstall()", ["decompositions[", "set_up()"]),
        ("from setupteam import tuning\ntuning.install()", ["decompositions[", "set_up()"]),
        (
            "from torch._inductor import config\nfrom setupteam.tuning import Pass\n"
            "made = Pass()\nconfig.post_grad_custom_post_pass = made",
            ["class Pass", "made = Pass()", "config.post_grad_custom_post_pass = made"],
        ),
        ("torch._inductor.config.max_fusion_size = 8", ["max_fusion_size = 8"]),
        ("from setupteam.tuning import seed\nseed()\nnet = Twice()", []),
    ],
)
def test_a_script_of_an_operator_does_to_pytorch_what_the_recipe_does(zoo, body, parts, tmp_path):
    defined = operators_in(zoo(body), "y = torch.relu(x)", "one")
    text = text_of(defined)
    for part in parts:
        assert part in text
    assert bool(text) == bool(parts)
    assert "setupteam" not in text
    assert "Twice" not in text
    made = program("y = torch.relu(x)", "relu")
    done = run(of_program(made, INFER, WRONG, defined), tmp_path)
    assert (done.returncode, "code is right" in done.stdout) == (0, True), done.stderr


def test_a_package_that_installs_lowerings_where_it_is_imported_does_so_in_a_script(zoo, tmp_path):
    tuned = "from setupteam import tuning\ntuning.install()\n"
    (tmp_path / "setupteam" / "tuned.py").write_text(tuned)
    text = text_of(operators_in(zoo("import setupteam.tuned"), "y = torch.relu(x)", "one"))
    assert "decompositions[torch.ops.aten.softplus.default] = _softplus" in text
    assert text.rstrip().endswith("install()")


def test_programs_of_a_trial_begin_with_the_set_up():
    made = program("y = torch.relu(x)", "relu")
    lines = zoo_text([made, made], ["prepare()"]).splitlines()
    heads = [number for number, line in enumerate(lines) if line.startswith("def program_")]
    assert [lines[number + 1] for number in heads] == ["    prepare()"] * 2
    assert "prepare()" not in zoo_text([made])


INSTALLS = """\
import torch

def install():
    from torch._inductor.lowering import lowerings, register_lowering

    @register_lowering(torch.ops.setupops.twice.default)
    def twice(x):
        return lowerings[torch.ops.aten.mul.Tensor](x, 2.1)

def late():
    from . import lowerings
"""


@pytest.mark.parametrize(
    ("package", "body"),
    [
        ("from . import ops, installs\ninstalls.install()", "import setupteam"),
        ("from . import ops, installs\nif torch:\n    installs.install()", "import setupteam"),
        ("", "from setupteam import installs, ops\ninstalls.install()"),
        ("", "import setupteam.ops\nfrom setupteam.installs import late\nlate()"),
    ],
)
def test_a_lowering_that_a_function_registers_is_in_the_script(zoo, package, body, tmp_path):
    (tmp_path / "setupteam" / "__init__.py").write_text(f"import torch\n{package}\n")
    (tmp_path / "setupteam" / "installs.py").write_text(INSTALLS)
    text = text_of(operators_in(zoo(body), "y = torch.ops.setupops.twice(x)", "one"))
    assert text.count("Library(") == 1
    assert "(x, 2.1)" in text
    assert "from setupteam" not in text
    made = program("y = torch.ops.setupops.twice(x)", "twice")
    defined = operators_in(zoo(body), made.code, "one")
    done = run(of_program(made, INFER, WRONG, defined), tmp_path)
    assert (done.returncode, "code is right" in done.stdout) == (0, True), done.stderr
