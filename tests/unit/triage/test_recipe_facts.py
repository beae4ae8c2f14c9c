"""What the text of a recipe tells, so that a script need not ask."""

import pytest

from compilegate.records.case import Case
from compilegate.triage.scripts.script import of_recipe
from compilegate.triage.scripts.shows import Shows
from compilegate.triage.source.recipe import Recipe
from compilegate.triage.source.recipe_facts import RecipeFacts
from tests.unit.triage.script_runs import run

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
            "module=nn.ReLU(), inputs=(1 - torch.randn(2),), kwargs={'mode': 'max'}",
            *(True, True, 'example["kwargs"]'),
        ),
        (
            "module=nn.ReLU(), inputs=(torch.randn(2),), kwargs={'x': torch.ones(2)}",
            *(True, False, 'example["kwargs"]'),
        ),
        (
            "module=made(), kwargs=given",
            None,
            False,
            '(example["kwargs"]() if callable(example["kwargs"]) else example["kwargs"])',
        ),
    ],
)
def test_a_script_leaves_out_what_the_recipe_does_not_need(fields, is_module, is_fresh, arguments):
    double = "def double(x):\n    return 2 * x\n"
    recipe = RecipeFacts(f"{double}def recipe():\n    return dict({fields})")
    sizes = {"n": 3} if "lambda n" in fields else {}
    assert (recipe.is_module, recipe.gives_fresh_tensors) == (is_module, is_fresh)
    given = recipe.arguments([sizes], only=True)
    assert given["kwargs" if "kwargs" in given["given"] else "args"] == arguments
    assert recipe.arguments([sizes], only=True)["loop"] == ""


#: Functions that recipes of a team share.
HELPERS = """
def rows(*shape):
    def make(batch):
        return (torch.randn(batch, *shape),)
    return make
def sliced(batch):
    x = torch.randn(batch, 8)
    return (x[:, ::2],)
def pair(batch):
    x, y = torch.randn(batch, 8), torch.randn(batch, 8)
    z = torch.randn(batch, 8)
    return (z, torch.ones(batch))
def twice(batch):
    z = torch.randn(batch, 8)
    return (z, z)
def masked(batch):
    return (-torch.randn(batch, 8) + 1, torch.rand(batch) < 0.5)
def example(module, inputs=rows(8)):
    return dict(module=module, inputs=inputs)
"""


@pytest.mark.parametrize(
    ("returned", "is_module", "is_fresh"),
    [
        ("example(nn.ReLU())", True, True),
        ("example(nn.ReLU(), rows(4, 4))", True, True),
        ("example(module=torch.relu, inputs=pair)", False, True),
        ("example(nn.ReLU(), inputs=masked)", True, True),
        ("example(nn.ReLU(), inputs=sliced)", True, False),
        ("example(nn.ReLU(), inputs=twice)", True, False),
        ("example(nn.ReLU(), inputs=elsewhere(4))", True, False),
        ("example(build('relu'))", None, True),
        ("example(*given)", None, False),
        ("example(nn.ReLU(), **given)", None, False),
    ],
)
def test_what_a_helper_of_the_team_is_given_is_followed(returned, is_module, is_fresh):
    recipe = RecipeFacts(f"{HELPERS}def recipe():\n    return {returned}")
    assert (recipe.is_module, recipe.gives_fresh_tensors) == (is_module, is_fresh)


@pytest.mark.parametrize(
    ("args", "is_fresh"),
    [
        ("masked(4)", True),
        ("sliced(4)", False),
        ("pair(4)", True),
        ("twice(4)", False),
        ("elsewhere(4)", False),
    ],
)
def test_arguments_that_a_call_of_a_helper_gives_are_followed(args, is_fresh):
    body = f"return dict(module=nn.ReLU(), calls=[dict(args={args}), dict(args={args})])"
    helpers = HELPERS.partition("def example")[0]
    assert RecipeFacts(f"{helpers}\ndef recipe():\n    {body}").gives_fresh_tensors == is_fresh


def test_helpers_that_call_each_other_end():
    text = "def a():\n    return b()\ndef b():\n    return a()\n"
    recipe = RecipeFacts(f"{text}def recipe(x=1):\n    return dict(module=x, inputs=a())")
    assert not recipe.gives_fresh_tensors


@pytest.mark.parametrize("step", [1, 2])
def test_a_script_that_looks_at_no_tensor_computes_in_no_other_dtype(step, tmp_path):
    lines = f"{HELPERS}class Stepping(nn.Module):\n    at = 0\n    def forward(self, x):\n"
    lines += f"        self.at += {step - 1}\n        return x * self.at\n"
    lines += "def recipe():\n    return example(Stepping(), inputs=sliced)"
    shows = Shows(title="what is wrong", strict="recompiles", recompilations=1)
    case = Case.parse("m-cpu-infer-f32-default-static")
    sizes = [{"batch": 4}] * 4
    text = of_recipe(Recipe(lines.splitlines()), case, shows, sizes, backend="eager")
    assert "dtype" not in text
    assert run(text, tmp_path).returncode == (step > 1)
