"""Scripts that run: of tensors that share memory, and of a submodule whose model acts on itself,
and of models that draw random numbers.
"""

import pytest

from compilegate.records.case import Case
from compilegate.triage.scripts.script import Shows, of_recipe
from compilegate.triage.source.recipe import Recipe
from tests.unit.triage.script_runs import run

INFER = Case.parse("m-cpu-infer-f32-default-static")
LAST = """\
def last(x, hidden, cell):
    other = cell if {wrong} else hidden
    return x + 1, other[:, -1] * 1 if {wrong} == 2 else other[:, -1], cell[:, -1]
def recipe():
    return dict(module=last, inputs=lambda: tuple(torch.ones(3, 4, 5) for _ in range(3)))
"""
ACTING = """\
class Gate(torch.nn.Module):
    def forward(self, x):
        return x * (1 + 0.1 * {wrong})
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.runs = torch.nn.Sequential(Gate()), 0
    def forward(self, x):
        return self.gate(x)
def note(module):
    module.gate[0].noted = True
    assert isinstance(module, Net)
def recipe():
    return dict(module=Net(), calls=[dict(args=(torch.randn(3),), before=note)] * 2)
"""
DRAWING = """\
def noise(x):
    return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x)
def recipe():
    return dict(module=noise, inputs=lambda: (torch.randn(64),))
"""
FAILING = """\
def fail():
    raise ValueError("C++ compile error\\n\\nCommand:\\ng++\\nx.cpp:3: error: {what}\\nnote")
def recipe():
    return dict(module=torch.relu, inputs=lambda: (torch.randn(3),))
"""
COMPILING = "torch.compiler.is_compiling()"


@pytest.mark.parametrize("wrong", [COMPILING, f"2 * {COMPILING}", "False"])
def test_a_script_compares_which_of_many_tensors_share_memory(wrong, tmp_path):
    recipe = Recipe(LAST.format(wrong=wrong).splitlines())
    shows = Shows(title="aliasing", kind="values", calls=1, aliasing=True)
    done = run(of_recipe(recipe, INFER, shows, [{}], backend="eager"), tmp_path)
    assert (done.returncode, done.stderr) == (int(wrong != "False"), "")
    assert ("memory" in done.stdout) == (wrong != "False")


@pytest.mark.parametrize("wrong", [COMPILING, "False"])
def test_an_action_before_a_call_is_given_the_model_where_a_submodule_is_compiled(wrong, tmp_path):
    recipe = Recipe(ACTING.format(wrong=wrong).splitlines())
    shows = Shows(title="wrong", kind="values", calls=1)
    text = of_recipe(recipe, INFER, shows, [{}], backend="eager", part="gate")
    done = run(text, tmp_path)
    assert (done.returncode, done.stderr) == (int(wrong != "False"), "")
    assert 'enumerate(example["calls"][:1], 1)' in text


@pytest.mark.parametrize("draws", [True, False])
def test_compiled_code_draws_what_eager_draws_if_the_case_draws(draws, tmp_path):
    shows = Shows(title="wrong", kind="values", calls=1, draws=draws)
    recipe = Recipe(DRAWING.splitlines())
    text = of_recipe(recipe, INFER, shows, [{}])
    # Inductor draws other numbers than eager by default, also where nothing is wrong.
    assert run(text, tmp_path, backend="inductor").returncode == int(not draws)
    assert "fallback_random" not in of_recipe(recipe, INFER, shows, [{}], backend="aot_eager")


@pytest.mark.parametrize("what", ["no match", "no type"])
def test_it_prints_the_error_of_the_c_compiler(what, tmp_path):
    shows = Shows(title="raises", kind="raises", calls=1)
    text = of_recipe(Recipe(FAILING.format(what=what).splitlines()), INFER, shows, [{}])
    failing = text.replace("out = run(*args)", 'out = run(*args) if backend == "off" else fail()')
    done = run(failing, tmp_path)
    assert done.returncode == 1
    assert f"x.cpp:3: error: {what}" in done.stdout
