"""Tests of nudged samples of calls that change state: what a model adds up is no noise."""

import pytest
import torch
from torch import nn

from compilegate.observe.compare.eager_noise import SAMPLES, Sampler
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.subject import Subject
from compilegate.records.case import Case
from compilegate.zoo.example import Example
from compilegate.zoo.registry import Model

CASE = Case.parse("m-cpu-infer-f32-default-static")
FIRST = PlannedCall(0, {})


@pytest.mark.parametrize("place", ["attribute", "list", "closure"])
def test_samples_start_where_eager_did_or_leave_the_state_out(place):
    class Sums(nn.Module):
        def __init__(self):
            super().__init__()
            total = torch.zeros(2)
            self.total = {"attribute": total, "list": [total], "closure": None}[place]
            self.add = lambda: total.add_(1)

        def forward(self, x):
            self.add()
            return x * 2

    model = Model("m", "m", build=lambda: Example(Sums(), inputs=lambda: (torch.randn(6, 4),)))
    eager = Subject(model, CASE, 0)
    result = eager.call(eager.prepare(FIRST), 0)
    totals = {n: v for n, v in result.state.items() if isinstance(v, torch.Tensor) and "total" in n}
    assert totals
    samples = Sampler(lambda: Subject(model, CASE, 0)).samples(FIRST, eager, result, 1)
    assert samples
    for sample in samples:
        left = {name: value for name, value in totals.items() if name in sample.result.state}
        assert all(torch.equal(sample.result.state[name], left[name]) for name in left)


def test_a_model_that_installs_hooks_in_its_first_call_is_sampled():
    """Models of Hugging Face do so, to return hidden states or the logits of a router."""

    class Records(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.seen = nn.Linear(4, 4), []

        def forward(self, x):
            if not getattr(self, "is_installed", False):
                self.layer.register_forward_hook(lambda *given: self.seen.append(given[-1]))
                self.is_installed = True
            self.layer(x)
            return self.seen.pop()

    model = Model("m", "m", build=lambda: Example(Records(), inputs=lambda: (torch.randn(6, 4),)))
    eager = Subject(model, CASE, 0)
    eager.call(eager.prepare(FIRST), 0)
    second = PlannedCall(1, {})
    result = eager.call(eager.prepare(second), 1)
    sampler = Sampler(lambda: Subject(model, CASE, 0))
    for _ in range(2):
        assert len(sampler.samples(second, eager, result, 1)) == SAMPLES
    assert not sampler.failed


@pytest.mark.parametrize("adds_up", [False, True])
def test_what_a_call_sets_anew_has_noise_and_what_it_adds_up_has_none(adds_up):
    """A loss that a model leaves on itself, say. The samples' model has not been called before."""

    class Leaves(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            x = self.layer(x)
            self.spread = x.std() + (getattr(self, "spread", 0) if adds_up else 0)
            return x

    model = Model("m", "m", build=lambda: Example(Leaves(), inputs=lambda: (torch.randn(6, 4),)))
    eager = Subject(model, CASE, 0)
    eager.call(eager.prepare(FIRST), 0)
    second = PlannedCall(1, {})
    result = eager.call(eager.prepare(second), 1)
    samples = Sampler(lambda: Subject(model, CASE, 0)).samples(second, eager, result, 1)
    assert len(samples) == SAMPLES
    for sample in samples:
        assert ("attribute spread" in sample.result.state) is not adds_up


class Reads(nn.Module):
    """A model that multiplies by the next number of a stream, which nothing can copy."""

    def __init__(self, numbers):
        super().__init__()
        self.numbers = (number for number in numbers)

    def forward(self, x):
        return x * next(self.numbers)


@pytest.mark.parametrize(
    ("again", "reason"),
    [
        ((), "StopIteration"),
        ((3.0,), "it then returned other numbers"),
        ((2.0,) * 9, None),
    ],
)
def test_the_reason_is_kept_why_eager_did_not_make_a_call_again(again, reason):
    def subject(*numbers):
        def build():
            return Example(Reads(numbers), inputs=lambda: (torch.randn(3),))

        return Subject(Model("m", "m", build=build), CASE, 0)

    eager = subject(2.0)
    result = eager.call(eager.prepare(FIRST), 0)
    sampler = Sampler(lambda: subject(*again))
    samples = sampler.samples(FIRST, eager, result, 1)
    assert (samples is None) is (reason is not None)
    assert [reason in one for one in sampler.failed] == [True] * (reason is not None)
