"""A submodule that is compiled alone: what the model does before its calls is done, too."""

import pytest
import torch
from torch import nn

from compilegate import Call, Example
from compilegate.observe.dissect import parts
from compilegate.observe.model.calls import invoke
from compilegate.records.part import Part
from compilegate.zoo import registry


class Repeated(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.options = options

    def forward(self, x):
        for _ in range(self.options["repeat"]):
            x = x * 2
        return x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.options = {"repeat": 1}
        self.first, self.second = Repeated(self.options), Repeated(self.options)

    def forward(self, x):
        return self.second(self.first(x))


def to(number):
    def act(net):
        net.options["repeat"] = number

    return act


@pytest.fixture
def acting(monkeypatch):
    """The name of a model whose second call sets an option before it, for the third one, too."""
    monkeypatch.setattr(registry, "_registry", dict(registry.load()))
    parts._inputs.clear()

    @registry.model("acting")
    def build():
        calls = [Call((torch.ones(2),), before=each) for each in (None, to(3), None)]
        return Example(Net(), calls=calls)

    yield "acting"
    parts._inputs.clear()


@pytest.mark.parametrize(
    ("index", "given", "made"), [(0, [2.0], [4.0]), (2, [2.0, 8.0], [4.0, 64])]
)
def test_they_have_the_model_of_the_call_that_shows_the_failure(acting, index, given, made):
    case = f"{acting}-cpu-infer-f32-default-static"
    example = parts._build(Part(name="one", case=case, seed=0, path="second", index=index))
    seen, results = [], []
    for call in example.calls:
        if call.before is not None:
            invoke(call.before, example.module)
        seen.append(call.args[0][0].item())
        results.append(example.module(*call.args)[0].item())
    assert (seen, results) == (given, made)


def test_a_model_that_does_nothing_before_its_calls_has_no_action(acting):
    case = f"{acting}-cpu-infer-f32-default-static"
    example = parts._build(Part(name="one", case=case, seed=0, path="second"))
    assert [call.before for call in example.calls] == [None]
