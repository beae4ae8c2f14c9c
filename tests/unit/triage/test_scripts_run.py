"""Scripts that run: of tensors that share memory, and of a submodule whose model acts on itself,
and of models that draw random numbers.
"""

import pytest

from compilegate.records.case import Case
from compilegate.triage.scripts.script import of_recipe
from compilegate.triage.scripts.shows import Shows
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
RETURNING = """\
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))
    def forward(self, x, cache):
        cache["rows"] = x.shape[0]
        other = dict(cache) if {wrong} == 1 else cache
        return x + 1, other, self.seen.view(3) if {wrong} == 2 else self.seen
def recipe():
    return dict(module=Net(), inputs=lambda: (torch.ones(3), {{}}))
"""
CHANNELS = """\
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 16, 3)
    def forward(self, x):
        y, factor = self.conv(x), torch.ones(16)
        factor[5] += {wrong} * {by}
        return y * factor.view(-1, 1, 1)
def recipe():
    return dict(module=Net(), inputs=lambda: (torch.randn(8, 3, 24, 24),))
"""
COMPILING = "torch.compiler.is_compiling()"


@pytest.mark.parametrize("wrong", [COMPILING, f"2 * {COMPILING}", "False"])
def test_a_script_compares_which_of_many_tensors_share_memory(wrong, tmp_path):
    recipe = Recipe(LAST.format(wrong=wrong).splitlines())
    shows = Shows(title="aliasing", kind="values", calls=1, aliasing=True)
    done = run(of_recipe(recipe, INFER, shows, [{}], backend="eager"), tmp_path)
    assert (done.returncode, done.stderr) == (int(wrong != "False"), "")
    assert ("memory" in done.stdout) == (wrong != "False")


@pytest.mark.parametrize("wrong", [COMPILING, f"2 * {COMPILING}", "False"])
@pytest.mark.parametrize("careful", [True, False])
def test_a_script_compares_which_objects_are_returned(wrong, careful, tmp_path):
    recipe = Recipe(RETURNING.format(wrong=wrong).splitlines())
    shows = Shows(title="identity", kind="layout", calls=1, identity=True, careful=careful)
    done = run(of_recipe(recipe, INFER, shows, [{}], backend="eager"), tmp_path)
    assert (done.returncode, done.stderr) == (int(wrong != "False"), ""), done.stdout
    assert ("which object each one is: shape (" in done.stdout) == (wrong != "False")
    assert "None" not in done.stdout


@pytest.mark.parametrize(("wrong", "status"), [(COMPILING, 1), ("False", 0)])
@pytest.mark.parametrize(("precision", "by"), [("f32", 2e-5), ("bf16", 5e-3)])
def test_a_script_shows_a_wrong_slice_that_no_element_shows(wrong, status, precision, by, tmp_path):
    recipe = Recipe(CHANNELS.format(wrong=wrong, by=by).splitlines())
    case = Case.parse(f"m-cpu-infer-{precision}-default-static")
    shows = Shows(title="slice", calls=1, sliced=True)
    done = run(of_recipe(recipe, case, shows, [{}], backend="eager"), tmp_path)
    assert (done.returncode, done.stderr) == (status, ""), done.stdout
    said = "output, slice 5 of 16 along dimension 1: scale, mean and rms off by "
    assert (said in done.stdout) == bool(status)
    assert precision == "f32" or "worst at" not in done.stdout


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
