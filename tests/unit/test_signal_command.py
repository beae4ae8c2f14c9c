"""Tests of the command that prints the effect of the signal treatment."""

import pytest

from compilegate.observe.conditioning import signal
from compilegate.zoo import registry


@pytest.fixture
def command(monkeypatch):
    """Run the command line; models that it registers are removed after the test."""
    registry.load()
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))

    def command(*arguments):
        monkeypatch.setattr("sys.argv", ["signal", *arguments])
        signal.main()

    return command


def test_the_command_prints_the_figures_of_a_users_model(command, capsys, tmp_path):
    mine = tmp_path / "zoo_for_signal.py"
    mine.write_text(ZOO)
    command("signal_mine", "signal_bad", "--zoo", str(mine), "--seed", "3")
    _, untreated, treated, bad = capsys.readouterr().out.splitlines()
    assert untreated.startswith("signal_mine ")
    assert untreated.endswith(" 0/2          0/2")
    assert treated.startswith("  treated ")
    assert bad.split(maxsplit=1) == ["signal_bad", "RuntimeError: no such weights"]


def test_the_command_names_the_branches_that_no_number_reaches(command, capsys, tmp_path):
    mine = tmp_path / "zoo_of_branches.py"
    mine.write_text(ZOO_OF_BRANCHES)
    command("branch_reached", "branch_hidden", "--zoo", str(mine))
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "no number" in line] == [
        "  no number reaches: relu 1: negative"
    ]
    assert lines[-1].startswith("  no number reaches")


ZOO_OF_BRANCHES = """
import torch
from compilegate.zoo.registry import Example, model

class Rectified(torch.nn.Module):
    def __init__(self, power):
        super().__init__()
        self.power, self.inner = power, torch.nn.Linear(8, 8)

    def forward(self, x):
        return (self.inner(x) ** self.power).relu()

@model("branch_reached")
def reached():
    return Example(Rectified(1), inputs=lambda: (torch.randn(4, 8),))

@model("branch_hidden")
def hidden():
    return Example(Rectified(2), inputs=lambda: (torch.randn(4, 8),))
"""

ZOO = """
import torch
from compilegate.zoo.registry import Example, model

@model("signal_mine")
def mine():
    module = torch.nn.Linear(4, 4)
    torch.nn.init.zeros_(module.weight)
    return Example(module, inputs=lambda: (torch.randn(2, 4),))

@model("signal_bad")
def bad():
    raise RuntimeError("no such weights")
"""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("resnet19",), "unknown model 'resnet19'; did you mean 'resnet1"),
        (("--zoo", "missing.py"), "missing.py"),
    ],
)
def test_the_command_refuses_unknown_models_and_files(command, capsys, arguments, message):
    with pytest.raises(SystemExit):
        command(*arguments)
    assert message in capsys.readouterr().err
