"""The source that a script takes along: of modules of the team, and of operators of their own."""

import time

import pytest

from compilegate.records.case import Case
from compilegate.triage.scripts import running
from compilegate.triage.scripts.script import Script, of_recipe
from compilegate.triage.scripts.shows import Shows
from compilegate.triage.source import team_modules
from compilegate.triage.source.recipe import recipe_of
from tests.unit.triage.script_runs import run

CASE = Case.parse("m-cpu-infer-f32-default-static")
#: A recipe that uses one class of the team's package.
USES = """\
import torch
from compilegate import Example, model
{imported}

@model("one")
def one():
    return Example({layer}, inputs=lambda: (torch.randn(3),))
"""
LAYERS = """\
import math
import torch
from torch import nn
from .helpers import scaled as by

class Foo(nn.Module):
    def forward(self, x):
        return by(x, math.pi)

class Other(nn.Module):
    pass
"""


@pytest.fixture
def zoo(tmp_path):
    """Write a zoo file next to the team's package, and return it."""
    package = tmp_path / "gatelayers"
    package.mkdir()
    (package / "__init__.py").write_text("from .layers import Foo\n")
    (package / "layers.py").write_text(LAYERS)
    (package / "helpers.py").write_text("def scaled(x, by):\n    return x * by\n")

    def write(imported, layer="Foo()"):
        file = tmp_path / "zoo.py"
        file.write_text(USES.format(imported=imported, layer=layer))
        return file

    return write


@pytest.mark.parametrize(
    ("imported", "layer"),
    [
        ("from gatelayers.layers import Foo", "Foo()"),
        ("from gatelayers import Foo", "Foo()"),
        ("from gatelayers.layers import Foo as Bar", "Bar()"),
        ("from gatelayers.layers import *", "Foo()"),
        ("import gatelayers", "gatelayers.Foo()"),
        ("import gatelayers.layers\nimport gatelayers.helpers", "gatelayers.layers.Foo()"),
        ("import gatelayers.layers as parts", "parts.Foo()"),
        ("from gatelayers import layers", "layers.Foo()"),
    ],
)
def test_what_a_recipe_needs_of_a_module_of_the_team_is_in_the_script(zoo, imported, layer):
    recipe = recipe_of(zoo(imported, layer), "one", "cpu")
    text = "\n".join(recipe.lines)
    assert "gatelayers" not in text
    assert "class Foo" in text
    assert "def scaled(x, by)" in text
    assert "class Other" not in text
    assert not recipe.modules
    assert "PYTHONPATH" not in of_recipe(recipe, CASE, Shows(title="wrong"), [{}])


def test_an_import_in_the_recipe_is_replaced_too(tmp_path, zoo):
    file = zoo("import os")
    text = file.read_text().replace(
        "    return", "    from gatelayers.layers import Foo\n    return"
    )
    file.write_text(text)
    recipe = recipe_of(file, "one", "cpu")
    done = run(of_recipe(recipe, CASE, Shows(title="wrong"), [{}]), tmp_path / "gatelayers")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("imported", "layer"),
    [
        ("import gatelayers.layers", "getattr(gatelayers.layers, 'Foo')()"),
        ("import gatelayers.layers", "[Foo := 1, gatelayers.layers.Foo()][1]"),
        ("from gatelayers.layers import Foo\nscaled = 3", "Foo() if scaled else None"),
    ],
    ids=["a whole module", "a local variable", "two meanings of a name"],
)
def test_a_module_that_cannot_be_copied_is_named_with_its_path(zoo, imported, layer, tmp_path):
    recipe = recipe_of(zoo(imported, layer), "one", "cpu")
    assert recipe.modules == ("gatelayers.layers",)
    assert recipe.paths == (str(tmp_path),)
    script = Script(text="", origin="", modules=recipe.modules, paths=recipe.paths)
    said = "It needs the module gatelayers.layers of the team: run it with PYTHONPATH="
    assert script.needs == f"{said}{tmp_path}"
    assert f"# {script.needs}" in of_recipe(recipe, CASE, Shows(title="wrong"), [{}])


def test_a_variable_that_code_may_set_stays_in_its_module(zoo, tmp_path):
    file = zoo("import gatelayers.settings as settings", "Kept()")
    (tmp_path / "gatelayers" / "settings.py").write_text("calls = 0\nLIMIT = 5\n")
    kept = """
class Kept(torch.nn.Module):
    def forward(self, x):
        settings.calls += 1
        return x * min(settings.LIMIT, settings.calls)
"""
    file.write_text(file.read_text().replace("\n@model", f"{kept}\n@model"))
    recipe = recipe_of(file, "one", "cpu")
    text = "\n".join(recipe.lines)
    assert recipe.modules == ("gatelayers.settings",)
    assert "LIMIT = 5" in text
    assert "min(LIMIT, settings.calls)" in text


def test_a_module_with_much_code_is_imported(zoo, tmp_path):
    file = zoo("from gatelayers.layers import Foo")
    long = "\n".join(f"        x = x + {n}" for n in range(200))
    layers = tmp_path / "gatelayers" / "layers.py"
    layers.write_text(LAYERS.replace("        return by", f"{long}\n        return by"))
    assert recipe_of(file, "one", "cpu").modules == ("gatelayers.layers",)


SHOWS = (
    'import gatelayers\nimport sys\nprint("compiled code is WRONG")\nsys.exit(not sys.argv[1:])\n'
)


def test_a_script_is_verified_without_the_path_of_the_session(zoo, tmp_path, monkeypatch):
    zoo("")
    plant = tmp_path / "plant"
    plant.mkdir()
    (plant / "sitecustomize.py").write_text("import builtins\nbuiltins.planted = True\n")
    monkeypatch.setenv("PYTHONPATH", f"{plant}:{tmp_path}")
    (tmp_path / "out").mkdir()
    script = tmp_path / "out" / "repro.py"
    until = time.monotonic() + 60
    script.write_text("planted\n" + SHOWS)
    made = running.verify(script, "off", until)
    assert not made.holds
    assert "No module named 'gatelayers'" in made.red.output
    assert running.verify(script, "off", until, paths=[str(tmp_path)]).holds


def test_only_modules_that_are_installed_nowhere_are_of_the_team(zoo, tmp_path):
    zoo("")
    assert team_modules.is_of_team("gatelayers.layers", tmp_path)
    for name in ("os", "torch.nn", "numpy", "jinja2", "compilegate", "nowhere_to_be_found"):
        assert not team_modules.is_of_team(name, tmp_path), name


OPERATORS = """\
import torch
from collections.abc import Sequence
from typing import TYPE_CHECKING
from compilegate import Example, model
if TYPE_CHECKING:
    from torch import Tensor
torch._dynamo.config.recompile_limit = 5
FACTOR = 3.0

@torch.library.custom_op("sourced::triple", mutates_args=())
def triple(x: torch.Tensor, by: Sequence[int]) -> torch.Tensor:
    '''Multiply.'''
    return FACTOR * x * by[0]

@triple.register_fake
def _(x: torch.Tensor, by: Sequence[int]):
    return torch.empty_like(x)

def save(ctx, inputs, output):
    ctx.by = inputs[1][0]

def back(ctx, grad):
    return FACTOR * grad * ctx.by, None

triple.register_autograd(back, setup_context=save)

@torch.library.custom_op("sourced::unused", mutates_args=())
def unused(x: torch.Tensor) -> torch.Tensor:
    return x.clone()

@unused.register_fake
def _(x):
    return x

lib = torch.library.Library("sourcedlib", "DEF")
lib.define("twice(Tensor x) -> Tensor")

@torch.library.impl(lib, "twice", "CompositeExplicitAutograd")
def twice(x):
    return 2 * x

@torch.library.register_fake("sourcedlib::twice")
def twice_fake(x):
    return torch.empty_like(x)

class Tripled(torch.nn.Module):
    def forward(self, x):
        return torch.ops.sourcedlib.twice(triple(x, [1]))

@model("one")
def one():
    return Example(Tripled(), inputs=lambda: (torch.randn(3),))

@model("other")
def other():
    return Example(torch.nn.Tanh(), inputs=lambda: (torch.randn(3),))
"""


def test_operators_of_the_zoo_file_come_with_their_registrations(tmp_path):
    file = tmp_path / "zoo.py"
    file.write_text(OPERATORS)
    recipe = recipe_of(file, "one", "cpu")
    text = "\n".join(recipe.lines)
    for part in ("register_fake", "register_autograd", "lib.define", "FACTOR = 3.0"):
        assert part in text, text
    assert "recompile_limit = 5" in text
    assert "unused" not in text
    train = Case.parse("m-cpu-train-f32-default-static")
    done = run(of_recipe(recipe, train, Shows(title="wrong", kind="gradients"), [{}]), tmp_path)
    assert (done.returncode, done.stdout) == (0, "compiled code is right with eager\n"), done.stderr
    others = "\n".join(recipe_of(file, "other", "cpu").lines)
    assert "custom_op" not in others
    assert "register" not in others
