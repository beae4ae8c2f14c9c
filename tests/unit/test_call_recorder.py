"""Tests of recorded calls: the result holds every effect of a call."""

import pytest
import torch
from torch import nn

from compilegate.observe.model.state import STRUCTURE
from compilegate.zoo.example import Call, Example
from tests.unit.subjects import (
    INFER,
    call,
    example_of,
    plan,
    rows,
    subject,
)


def test_actions_run_before_and_after_their_call():
    log = []

    class Scaled(nn.Module):
        factor = 1.0

        def forward(self, x):
            log.append("call")
            return x * self.factor

    def build():
        x = torch.ones(2)
        return Example(
            Scaled(),
            calls=[
                Call((x,), before=lambda: log.append("before"), after=lambda: log.append("after")),
                Call((x,), before=lambda module: setattr(module, "factor", 3.0)),
                Call((x,), after=lambda output: output.zero_()),
            ],
        )

    made = subject(build, INFER)
    results = [call(made, plan(index)).output["output"].tolist() for index in range(3)]
    assert results == [[1, 1], [3, 3], [3, 3]]
    assert log == ["before", "call", "after", "call", "call"]


def test_a_change_of_an_output_shows_in_the_input_that_it_aliases():
    def build():
        x = torch.ones(2)
        return Example(
            lambda x: x.view(2), calls=[Call((x,), after=lambda y: y.zero_()), Call((x,))]
        )

    made = subject(build, INFER)
    assert [call(made, plan(index)).output["output"].tolist() for index in (0, 1)] == [
        [1, 1],
        [0, 0],
    ]


def test_results_are_copies_that_later_calls_do_not_change():
    def bump(x):
        return x.add_(1)

    made = subject(example_of(bump, lambda: torch.zeros(1)), INFER)
    first = call(made, plan(0))
    second = call(made, plan(1))
    assert (first.output["output"].item(), first.state["input[0]"].item()) == (1, 1)
    assert (second.output["output"].item(), second.state["input[0]"].item()) == (2, 2)


def test_buffers_are_recorded_after_the_call():
    made = subject()
    before = made.buffers()["norm.running_mean"].clone()
    result = call(made)
    assert result.state["buffer norm.num_batches_tracked"] == 1
    assert not torch.equal(result.state["buffer norm.running_mean"], before)


def state_changes(build, case=INFER, calls=1):
    """Return the state that the last of some calls changed, by name, without structures."""
    made = subject(build, case)
    for index in range(calls):
        result = call(made, plan(index))
    return {
        name: value
        for name, value in result.state.items()
        if not name.endswith(STRUCTURE)
        and (name not in result.before or not alike(value, result.before[name]))
    }


def alike(one, other):
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


class Remembers(nn.Module):
    """A module with state that is neither parameter nor buffer."""

    def __init__(self):
        super().__init__()
        self.calls, self.seen, self.last = 0, [], torch.zeros(())
        self._cache = {"sum": 0.0}
        self.mode = "slow"

    def forward(self, x):
        self.calls += 1
        self.seen.append(x.shape[0])
        self.last = x.sum()
        self._cache["sum"] = 2.0
        self.mode = "fast"
        return x * 2


def test_attributes_of_modules_are_state():
    changes = state_changes(lambda: Example(Remembers(), inputs=lambda: (torch.ones(3),)))
    assert changes == {
        "attribute calls": 1,
        "attribute seen[0]": 3,
        "attribute last": torch.tensor(3.0),
        "attribute _cache.sum": 2.0,
        "attribute mode": "fast",
    }


def test_variables_that_a_function_closes_over_count_as_state():
    def build():
        count, log = 0, []

        def counted(x):
            nonlocal count
            count += 1
            log.append(count)
            return x * 2

        return Example(counted, inputs=lambda: (torch.ones(3),))

    assert state_changes(build, calls=2) == {"closure count": 2, "closure log[1]": 2}


def test_the_first_output_counts_as_state():
    class Reuses(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("out", torch.zeros(3))

        def forward(self, x):
            return self.out.copy_(x)

    def build():
        return Example(Reuses(), inputs=lambda: (torch.randn(3),))

    assert "first output" in state_changes(build, calls=2)
    assert "first output" not in state_changes(
        lambda: Example(torch.sin, inputs=lambda: (torch.randn(3),)), calls=2
    )


@pytest.mark.parametrize(("function", "draws"), [(torch.sin, False), (torch.rand_like, True)])
def test_drawing_random_numbers_counts_as_state(function, draws):
    changes = state_changes(lambda: Example(function, inputs=lambda: (torch.randn(3),)))
    assert ("random generator" in changes) == draws
    assert call(subject(example_of(function, rows()), INFER)).draws == draws


def test_containers_in_the_arguments_count_as_state():
    def build():
        return Example(lambda x, log: (log.append(7), x * 2)[1], calls=[Call((torch.ones(2), []))])

    assert state_changes(build) == {"input[1][0]": 7}


def test_an_error_in_forward_is_recorded():
    result = subject(example_of(lambda x: x @ x, rows(4, 3))).call(
        (made := subject(example_of(lambda x: x @ x, rows(4, 3)))).prepare(plan()), 0
    )
    assert isinstance(result.error, RuntimeError)
    assert made.module is not None


def test_an_error_in_backward_is_recorded():
    def overwrites(x):
        y = x.exp()
        z = y.sum()
        y.zero_()
        return z

    made = subject(example_of(overwrites, rows()))
    assert "modified by an inplace operation" in str(made.call(made.prepare(plan()), 0).error)


def test_only_the_selected_output_is_recorded():
    def build():
        return Example(
            lambda x: {"logits": x * 2, "cache": object()},
            inputs=(torch.ones(2),),
            output=lambda out: out["logits"],
        )

    assert list(call(subject(build)).output) == ["output"]


@pytest.mark.parametrize(
    ("function", "groups"),
    [
        (lambda x, y: x * 1, set()),
        (lambda x, y: x, {("input[0]", "output")}),
        (lambda x, y: x.view(-1), {("input[0]", "output")}),
        (lambda x, y: (y, x[1:]), {("input[0]", "output[1]"), ("input[1]", "output[0]")}),
        (lambda x, y: (z := x * 2, z[0]), {("output[0]", "output[1]")}),
        (lambda x, y: [x, x], {("input[0]", "output[0]", "output[1]")}),
    ],
)
def test_outputs_that_share_memory_are_grouped(function, groups):
    result = call(subject(example_of(function, rows(), rows()), INFER))
    assert {tuple(sorted(group)) for group in result.aliases} == groups


def test_an_output_that_is_a_parameter_or_buffer_is_grouped_with_it():
    class Weights(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))
            self.register_buffer("table", torch.ones(3))

        def forward(self):
            return self.weight, self.table[1:]

    result = call(subject(lambda: Example(Weights()), INFER))
    assert {tuple(sorted(group)) for group in result.aliases} == {
        ("output[0]", "weight"),
        ("output[1]", "table"),
    }


def test_inputs_that_share_memory_only_with_inputs_form_no_group():
    def build():
        x = torch.ones(2)
        return Example(lambda x, y: x * 1, inputs=(x, x))

    assert call(subject(build, INFER)).aliases == frozenset()
