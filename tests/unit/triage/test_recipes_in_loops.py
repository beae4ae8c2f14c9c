"""Recipes that a loop or a function registers: what they take from around them is written down."""

import json
import sys
from pathlib import Path

import pytest

from compilegate.processes import zoo_listing
from compilegate.records.case import Case
from compilegate.triage.scripts.script import of_recipe
from compilegate.triage.scripts.shows import Shows
from compilegate.triage.source.definitions import NoSourceError
from compilegate.triage.source.recipe import operators_of, recipes_of
from compilegate.zoo import registry
from compilegate.zoo.builder import Builder
from tests.unit.triage.script_runs import run

ZOO = """\
import math
from dataclasses import replace

from compilegate import Example, model

own = model


def linear(width):
    import torch

    return Example(
        torch.nn.Linear(width, 2), inputs=lambda: (torch.randn(3, width),), output=abs
    )


def register(name, **config):
    @own(name)
    def build(device):
        made = linear(config["width"] if device == "cpu" else 1000)
        return replace(made, generation=None, output=None)


register("of_a_function", width=5)

for n in (6, 7):

    @model(f"of_a_loop_{n}")
    def build(*, width=n):
        return linear(width)


def register_with(name, library):
    @model(name)
    def build():
        return linear(library.floor(8.5))


register_with("of_a_library", math)
"""


@pytest.fixture
def entries(tmp_path):
    file = tmp_path / "zoo.py"
    file.write_text(ZOO, encoding="utf-8")
    return {entry.name: entry for entry in zoo_listing.list_models(sys.executable, [str(file)])}


def lines_of(entry):
    return recipes_of(Path(entry.source), entry.name, "cpu", entry.builder)[0].lines


@pytest.mark.parametrize(
    ("name", "width"), [("of_a_function", 5), ("of_a_loop_6", 6), ("of_a_loop_7", 7)]
)
def test_its_script_builds_the_model(name, width, entries, tmp_path):
    assert "compilegate" not in "\n".join(lines_of(entries[name]))
    recipe = recipes_of(Path(entries[name].source), name, "cpu", entries[name].builder)[0]
    shows = Shows(title="wrong", calls=1)
    text = of_recipe(recipe, Case.parse(f"{name}-cpu-infer-f32-default-static"), shows, [{}])
    told = f"import torch\n{chr(10).join(recipe.lines)}\nprint(recipe()['module'].in_features)"
    assert run(told, tmp_path).stdout.split() == [str(width)]
    done = run(text, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_has_no_source_is_named(entries):
    with pytest.raises(NoSourceError, match="the recipe takes library, which has no source"):
        lines_of(entries["of_a_library"])
    entry = entries["of_a_library"]
    found = operators_of(Path(entry.source), "y = torch.relu(x)", entry.name, "cpu", entry.builder)
    assert not found.lines


def test_an_entry_tells_it_to_a_process_that_does_not_import_the_file():
    entry = registry.load()["resnet18"]
    told = json.loads(json.dumps(entry.to_dict()))
    assert Builder(**told["builder"]) == entry.builder
    assert entry.builder.bound == {"name": "'resnet18'"}


def test_nearly_all_recipes_of_the_zoo_have_a_script():
    missing = set()
    for name, entry in registry.load().items():
        try:
            lines_of(entry)
        except NoSourceError:
            missing.add(name)
    assert missing == {"trained_classifier"}  # it trains a model of the zoo
