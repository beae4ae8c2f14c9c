"""A script may make the submodule at fault by itself, with random inputs."""

import json
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from compilegate.records.case import Case
from compilegate.records.part import Arguments, Construction
from compilegate.triage.scripts.script import of_recipe
from compilegate.triage.scripts.shows import Shows
from compilegate.triage.source.recipe import recipe_of_part
from tests.unit.triage.script_runs import run

LAYERS = """\
from torch import nn


class Scale(nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = by

    def forward(self, x):
        return x * self.by
"""
ZOO = """\
import torch
from layers import Scale
from torch import nn

FLOOR = 0.25


class Unused(nn.Module):
    pass


class Gate(nn.Module):
    def __init__(self, width, act=nn.ReLU, *, bias=True):
        super().__init__()
        self.linear, self.act = nn.Linear(width, width, bias=bias), act()

    def forward(self, x, kept, *, slope, where=None):
        return (self.act(self.linear(x)) * slope + FLOOR)[kept]


class Wrapped(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = Gate(4, act=nn.Tanh, bias=False)
        self.wrapped = Wrapped(Scale(2.0))
        self.scale = Scale(float("inf"))

    def forward(self, x):
        x = self.gate(x, torch.tensor([True, False, True]), slope=0.9, where=(1, [2.5]))
        return self.wrapped(x)
"""
#: Prints how submodules of the net are made and called.
TELL = """\
import json, sys
from dataclasses import asdict
import torch
from compilegate.observe.dissect import constructions
from compilegate.zoo.example import Call

constructions.note()
import zoo
net, found = zoo.Net(), {}
for path in sys.argv[1:]:
    inner, seen = net.get_submodule(path), []
    hook = inner.register_forward_pre_hook(lambda _, *given: seen.append(given), with_kwargs=True)
    (net if path != "scale" else inner)(torch.randn(3, 4))
    hook.remove()
    made = constructions.of(inner, [Call(*each) for each in seen])
    found[path] = made and asdict(made)
print(json.dumps(found))
"""
PATHS = ("gate", "wrapped.inner", "wrapped", "scale", "gate.linear")


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zoo")
    (folder / "layers.py").write_text(LAYERS, encoding="utf-8")
    (folder / "zoo.py").write_text(ZOO, encoding="utf-8")
    return folder / "zoo.py"


@pytest.fixture(scope="module")
def constructions(zoo):
    done = subprocess.run(
        [sys.executable, "-c", TELL, *PATHS],
        cwd=zoo.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    return {path: made and Construction.of(made) for path, made in found.items()}


@pytest.mark.parametrize(
    ("path", "made", "left_out"),
    [
        ("gate", "Gate(4, act=torch.nn.modules.activation.Tanh, bias=False)", ("Unused", "Net")),
        ("wrapped.inner", "Scale(2.0)", ("Gate", "FLOOR")),
    ],
)
def test_its_script_holds_its_class_alone(path, made, left_out, zoo, constructions):
    recipe = recipe_of_part(zoo, constructions[path])
    text = "\n".join(recipe.lines)
    assert made in text
    assert not [name for name in left_out if name in text]
    case = Case.parse("net-cpu-train-f32-default-static")
    script = of_recipe(recipe, case, Shows(title="wrong", calls=1), [{}], backend="eager")
    done = run(script, zoo.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert "compiled code is right with eager" in done.stdout
    wrong = script.replace("out = run(", 'out = (1 + (backend != "off")) * run(')
    assert run(wrong, zoo.parent).returncode == 1


@pytest.mark.parametrize(("wrong", "status"), [("n == 2", 1), ("n == 3", 0)])
def test_its_script_makes_the_call_that_shows_the_failure(wrong, status, zoo, constructions):
    made = constructions["wrapped.inner"]
    later = Arguments(["torch.randn(5, 4)"], {})
    recipe = recipe_of_part(zoo, replace(made, calls=[*made.calls, later]))
    case = Case.parse("net-cpu-infer-f32-default-auto")
    script = of_recipe(recipe, case, Shows(title="wrong"), [{}, {}], backend="eager")
    assert run(script, zoo.parent).returncode == 0
    broken = script.replace("out = run(", f'out = (1 + (backend != "off" and {wrong})) * run(')
    done = run(broken, zoo.parent)
    assert (done.returncode, done.stderr) == (status, "")
    assert ("call 2 output: shape (5, 4), worst at" in done.stdout) == bool(status)


def test_what_cannot_be_written_down_has_none(constructions):
    # It takes a module, and infinity; a class of torch would be no shorter.
    assert [constructions[path] for path in ("wrapped", "scale", "gate.linear")] == [None] * 3


def test_random_inputs_are_like_those_of_eager(zoo, constructions):
    made = constructions["gate"]
    (call,) = made.calls
    assert textwrap.shorten(call.args[0], 30).startswith("torch.randn(3, 4)")
    assert Path(made.file) == zoo
    assert call.kwargs == {"slope": "0.9", "where": "(1, [2.5])"}
