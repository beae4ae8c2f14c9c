"""What a script prints: of a large tensor its worst element, of a small one all of it."""

import re

import pytest

from compilegate.records.case import Case
from compilegate.triage.scripts.script import of_recipe
from compilegate.triage.scripts.shows import Shows
from compilegate.triage.source.recipe import Recipe
from tests.unit.triage.script_runs import run

INFER = Case.parse("m-cpu-infer-f32-default-static")
TRAIN = Case.parse("m-cpu-train-f32-default-static")
#: Compiled code changes one element of the output, and what the gradient of the weight is.
NET = """\
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 6)
    def forward(self, x):
        if not torch.compiler.is_compiling() or {is_right}:
            return self.fc(x){made}
        y = torch.nn.functional.linear(x, self.fc.weight * 1.01, self.fc.bias){made}
        return torch.where(torch.arange(y.shape[-1]) == 2, {wrong}, y)
def recipe():
    return dict(module=Net(), inputs=lambda: (torch.randn({rows}, 8),))
"""


def printed(folder, case=INFER, *, rows=9, wrong="y + 100", is_right=False, made=""):
    recipe = NET.format(rows=rows, wrong=wrong, is_right=is_right, made=made)
    shows = Shows(title="wrong", kind="values", calls=1)
    done = run(of_recipe(Recipe(recipe.splitlines()), case, shows, [{}]), folder)
    assert done.returncode == (not is_right), done.stdout + done.stderr
    return done.stdout


def test_of_a_large_tensor_the_worst_element_is_printed(tmp_path):
    line, last = printed(tmp_path).splitlines()
    number = r"-?[\d.e+-]+"
    worst = rf"worst at \[\d, 2\]: eager ({number}), compiled ({number}), float64 ({number})"
    found = re.fullmatch(rf"output: shape \(9, 6\), {worst}", line)
    eager, compiled, exact = map(float, found.groups())
    assert abs(compiled - eager - 100) < 1
    assert abs(exact - eager) < 1e-4
    assert last == "compiled code is WRONG with eager"


@pytest.mark.parametrize(
    ("wrong", "made", "says"),
    [
        ("y * torch.nan", "", "compiled nan, float64"),
        ("y + 1", ".round().int()", "worst at ["),
        ("y.double()", "", "attribute 'dtype' do not match: torch.float64 != torch.float32"),
    ],
    ids=["NaN", "integers", "another dtype"],
)
def test_other_differences_of_large_tensors_are_short_too(wrong, made, says, tmp_path):
    shown = printed(tmp_path, wrong=wrong, made=made)
    assert says in shown
    assert all(word in shown for word in ("eager", "compiled", "float64", "WRONG"))
    assert len(shown.splitlines()) < 15


def test_a_small_tensor_is_printed_whole(tmp_path):
    shown = printed(tmp_path, rows=1)
    assert shown.startswith("output: shape (1, 6), not close: eager tensor([[")
    assert all(f"{side} tensor([[" in shown for side in ("eager", "compiled", "float64"))
    assert "..." not in shown


def test_a_gradient_has_the_name_of_its_parameter(tmp_path):
    shown = printed(tmp_path, TRAIN)
    assert "grad['fc.weight']: shape (6, 8), worst at [" in shown
    assert "grad[0]: shape (9, 8), worst at [" in shown
    assert "grad['fc.bias']" not in shown


def test_where_nothing_is_wrong_no_tensor_is_printed(tmp_path):
    assert printed(tmp_path, TRAIN, is_right=True) == "compiled code is right with eager\n"
