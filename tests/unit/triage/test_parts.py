"""Scripts of one submodule, of what raises, and of operators that a team defines."""

import pytest

from compilegate.records.case import Case
from compilegate.triage.scripts.script import of_recipe
from compilegate.triage.scripts.shows import Shows
from compilegate.triage.source import team_modules
from compilegate.triage.source.recipe import Recipe, operators_in, recipe_of
from tests.unit.triage.script_runs import run

INFER = Case.parse("m-cpu-infer-f32-default-static")
TRAIN = Case.parse("m-cpu-train-f32-default-static")
#: The norm hides what the gate adds: its output differs little, and that of the gate by 1%.
HIDDEN = """\
class Gate(torch.nn.Module):
    def forward(self, x, by=1.0):
        return x * (0.01 * {is_wrong} + by) + x.square().mean()

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = Gate()
        self.norm = torch.nn.LayerNorm(8)

    def forward(self, x, scale=1.0):
        return self.norm(self.gate(x * scale))

def recipe():
    return dict(module=Net(), inputs=lambda: (torch.randn(3, 8),){kwargs})
"""
SCALED = ", kwargs=lambda: dict(scale=2.0)"


@pytest.mark.parametrize(
    ("is_wrong", "case", "kwargs"),
    [
        (True, INFER, ""),
        (False, INFER, SCALED),
        (True, TRAIN, SCALED),
        (False, TRAIN, ""),
    ],
    ids=["infer", "infer, twin", "train", "train, twin"],
)
def test_a_script_compiles_one_submodule_with_the_inputs_of_eager(is_wrong, case, kwargs, tmp_path):
    compiling = "torch.compiler.is_compiling()" if is_wrong else "False"
    recipe = Recipe(HIDDEN.format(is_wrong=compiling, kwargs=kwargs).splitlines())
    shows = Shows(title="wrong", kind="gradients" if case is TRAIN else "values", calls=1)
    text = of_recipe(recipe, case, shows, [{}], part="gate")
    done = run(text, tmp_path)
    assert done.returncode == is_wrong, done.stdout + done.stderr
    said = "compiled code is WRONG" if is_wrong else "compiled code is right"
    assert said in done.stdout
    assert len(text.splitlines()) < 75


RAISES = """\
@torch.library.custom_op("teamparts::next", mutates_args=())
def following(x: torch.Tensor) -> torch.Tensor:
    {eager}
{fake}
def recipe():
    return dict(module=lambda x: following(x), inputs=lambda: (torch.randn(3),))
"""
FAKE = "following.register_fake(lambda x: torch.empty_like(x))"


def test_a_script_of_an_error_shows_one_of_the_compiler_alone(tmp_path):
    shows = Shows(title="raises", kind="raises", calls=1)
    for eager, fake, status, says in [
        ("return x + 1", "", 1, "compiled code RAISES with eager"),
        ("return x + 1", FAKE, 0, "compiled code raises nothing with eager"),
        ("raise ValueError", FAKE, 1, "eager raises, too"),
    ]:
        recipe = Recipe(RAISES.format(eager=eager, fake=fake).splitlines())
        done = run(of_recipe(recipe, INFER, shows, [{}]), tmp_path)
        assert done.returncode == status, done.stdout + done.stderr
        assert says in done.stdout + done.stderr
        assert "tensor(" not in done.stdout


OPERATORS = """\
import torch
lib = torch.library.Library("teamops", "DEF")
lib.define("twice(Tensor x) -> Tensor")
lib.impl("twice", lambda x: 2 * x, "CompositeExplicitAutograd")
torch.library.register_fake("teamops::twice", lambda x: torch.empty_like(x))
torch.library.register_fake("others::thrice", lambda x: torch.empty_like(x))
"""
LOWERINGS = """\
import torch
from torch._inductor import lowering

@lowering.register_lowering(torch.ops.teamops.twice.default)
def twice(x):
    return lowering.lowerings[torch.ops.aten.mul.Tensor](x, 2.1)
"""
ZOO = """\
import os, sys
import torch
from compilegate import Example, model
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import opsofteam.lowerings

class Twice(torch.nn.Module):
    def forward(self, x):
        return torch.ops.teamops.twice(x)

@model("twice")
def twice():
    return Example(Twice(), inputs=lambda: (torch.randn(3),))

@model("other")
def other():
    return Example(torch.nn.Tanh(), inputs=lambda: (torch.randn(3),))
"""


@pytest.fixture
def team(tmp_path):
    """Write a zoo file in a folder next to the team's package, and return it."""
    (tmp_path / "opsofteam").mkdir()
    (tmp_path / "opsofteam" / "__init__.py").write_text("from . import ops\n")
    (tmp_path / "opsofteam" / "ops.py").write_text(OPERATORS)
    (tmp_path / "opsofteam" / "lowerings.py").write_text(LOWERINGS)
    (tmp_path / "gates").mkdir()
    file = tmp_path / "gates" / "zoo.py"
    file.write_text(ZOO)
    return file


def test_operators_of_modules_that_a_zoo_file_imports_come_with_their_lowerings(team, tmp_path):
    recipe = recipe_of(team, "twice", "cpu")
    text = "\n".join(recipe.lines)
    assert "opsofteam" not in text
    assert not recipe.modules
    for part in ("Library('teamops'", "lib.impl('twice'", "register_lowering", "teamops::twice"):
        assert part in text
    assert "others::thrice" not in text
    done = run(of_recipe(recipe, INFER, Shows(title="wrong", calls=1), [{}]), tmp_path)
    assert (done.returncode, done.stdout) == (0, "compiled code is right with eager\n"), done.stderr
    assert "teamops" not in "\n".join(recipe_of(team, "other", "cpu").lines)


def test_a_script_of_single_operators_defines_those_of_the_team(team):
    text = "\n".join(operators_in(team, "y = torch.ops.teamops.twice.default(x)").lines)
    assert "Library('teamops'" in text
    assert "register_lowering" in text
    assert "class Twice" not in text
    assert not operators_in(team, "y = torch.relu(x)").lines


def test_a_folder_above_the_zoo_file_has_modules_of_the_team(team, tmp_path):
    assert team_modules.is_of_team("opsofteam.ops", team.parent)
    assert team_modules.path_of("opsofteam.ops", team.parent) == tmp_path
    (tmp_path / "only_data").mkdir()
    assert not team_modules.is_of_team("only_data", team.parent)


def test_packages_that_import_each_other_are_copied(tmp_path):
    package = tmp_path / "roundabout"
    package.mkdir()
    (package / "__init__.py").write_text("from . import parts\nfrom .blocks import *\n")
    (package / "parts.py").write_text(
        "from roundabout import *\n\ndef double(x):\n    return 2 * x\n"
    )
    (package / "blocks.py").write_text(
        "import torch\nfrom roundabout import parts as P\n\n"
        "class Block(torch.nn.Module):\n    def forward(self, x):\n        return P.double(x)\n"
    )
    file = tmp_path / "zoo.py"
    file.write_text(
        "import torch\nfrom compilegate import Example, model\nfrom roundabout import Block\n\n"
        '@model("one")\ndef one():\n    return Example(Block(), inputs=lambda: (torch.randn(3),))\n'
    )
    recipe = recipe_of(file, "one", "cpu")
    text = "\n".join(recipe.lines)
    assert "def double" in text
    assert "roundabout" not in text
    done = run(of_recipe(recipe, INFER, Shows(title="wrong", calls=1), [{}]), tmp_path)
    assert done.returncode == 0, done.stderr
