"""Sound models that look wrong at first sight pass, and a fault in the same place does not."""

import enum

import pytest
import torch
from torch import nn
from torch.compiler import is_compiling
from torch.nn import functional

from compilegate.judging.budget import Budget
from compilegate.judging.rules import verdicts
from compilegate.suites import test_forward, test_graph_breaks, test_recompiles
from compilegate.zoo.example import Call
from tests.unit.observed import Linear, observation, verdict


def returning(make, wrongly=None):
    """Return a builder whose module adds an object to its output, another one if compiled."""

    def build():
        made = make()

        class Returns(Linear):
            def forward(self, x):
                y = self.linear(x)
                return y, (made(wrongly(y) if wrongly and is_compiling() else y))

        return Returns()

    return build


def of_own_class():
    class Found:
        __slots__ = ("__dict__", "_mean")

        def __init__(self, y):
            self._mean = y.mean(0)
            self.rows = y.shape[0]
            self.inner = [self._mean.sin()]

    return Found


def member_of_own_enumeration():
    class Sign(enum.Enum):
        PLUS = 1
        MINUS = 2

    return lambda y: Sign.PLUS if y is not None else Sign.MINUS


@pytest.mark.parametrize("make", [of_own_class, member_of_own_enumeration])
def test_an_object_of_a_class_that_each_build_defines_is_compared_by_what_it_holds(make):
    found = verdict(returning(make), backend="aot_eager")
    assert (found.outcome, "compared by type only" in found.summary) == ("passed", False), found


@pytest.mark.parametrize(
    ("make", "wrongly", "expected"),
    [
        (of_own_class, lambda y: y * 1.01, "output[1]._mean (float32): root mean square error"),
        (of_own_class, lambda y: y[1:], "output[1].rows: value differs: eager 8, compiled 7"),
        (
            member_of_own_enumeration,
            lambda y: None,
            "output[1]: value differs: eager <Sign.PLUS: 1>, compiled <Sign.MINUS: 2>",
        ),
    ],
)
def test_a_wrong_value_in_such_an_object_fails(make, wrongly, expected):
    found = verdict(returning(make, wrongly), backend="aot_eager")
    assert found.outcome == "failed"
    assert any(expected in line for line in (found.summary, *found.details)), found


def test_gradients_flow_through_objects():
    seen = observation(returning(of_own_class), phase="train", backend="aot_eager")
    (weight,) = [e for e in seen.calls[0].gradients.errors if e.name == "gradient linear.weight"]
    plain = observation(Linear, phase="train", backend="aot_eager")
    (alone,) = [e for e in plain.calls[0].gradients.errors if e.name == "gradient linear.weight"]
    assert weight.scale != alone.scale


class Raises(nn.Module):
    """Raises an error of a class that each build defines, for some numbers."""

    def __init__(self, wrongly=False):
        super().__init__()

        class BadNumberError(Exception):
            pass

        class OtherError(Exception):
            pass

        self.linear = nn.Linear(4, 4)
        self.errors = BadNumberError, OtherError
        self.wrongly = wrongly

    def forward(self, x, number):
        y = self.linear(x)
        which = int(self.wrongly and is_compiling())
        if number > 1:
            print(end="")  # a graph break, in calls that raise alone
            raise self.errors[which](number)
        return y


def numbers(*chosen):
    return {"calls": [Call((torch.randn(8, 4), number)) for number in chosen], "inputs": ()}


SUITES = (test_forward, test_graph_breaks, test_recompiles)


def test_what_dynamo_does_in_calls_that_raise_in_eager_is_no_failure():
    for suite in SUITES:
        found = verdict(Raises, backend="aot_eager", suite=suite, **numbers(1, 2, 3, 1, 4))
        assert found.outcome == "passed", found


def test_another_error_in_compiled_code_fails():
    found = verdict(lambda: Raises(wrongly=True), backend="eager", **numbers(1, 2))
    assert found.summary.startswith(
        "call 2 (batch=8): eager raises BadNumberError: 2, compiled raises "
    )


class BreaksAndReturns(Raises):
    def forward(self, x, number):
        if number == 1:
            print(end="")
        return super().forward(x, number)


def test_a_break_in_a_call_that_returns_fails_next_to_those_that_raise():
    found = verdict(BreaksAndReturns, backend="eager", suite=test_graph_breaks, **numbers(1, 2, 1))
    assert found.outcome == "failed"
    assert found.summary.startswith("1 graph break not budgeted")


class Subtracts(Linear):
    """Returns a difference of equal terms, and one that only eager's are equal."""

    def forward(self, x):
        y = self.linear(x)
        return y, (y - y * (1.01 if self.action is None and is_compiling() else 1))


def test_an_output_that_is_rightly_zero_is_not_blind():
    for phase in ("infer", "train"):
        found = verdict(Subtracts, phase, backend="aot_eager")
        assert (found.outcome, ", 1 rightly zero" in found.summary) == ("passed", True), found


class NormsEqualNumbers(nn.Module):
    """Returns a norm of groups of equal numbers. Compiled code multiplies what their mean errs."""

    def __init__(self, wrongly=0.0):
        super().__init__()
        self.wrongly = wrongly

    def forward(self, x):
        y = functional.group_norm(x[:, :2, None].expand(-1, -1, 5) * torch.ones(5), 2)
        return x * 2, y + self.wrongly if is_compiling() else y


@pytest.mark.parametrize(("wrongly", "outcome"), [(0.0, "passed"), (3e-4, "failed")])
def test_a_norm_of_equal_numbers_may_be_as_large_as_it_makes_a_rounding_error(wrongly, outcome):
    wants = ("capture", "vary", "reuse")
    seen = observation(lambda: NormsEqualNumbers(wrongly), backend="inductor", wants=wants)
    found = next(each for each in verdicts(seen, Budget()) if each.aspect == "forward")
    assert (found.outcome, bool(seen.probes)) == (outcome, True), found


def test_an_output_that_only_eager_leaves_zero_fails():
    found = verdict(lambda: Subtracts(None), backend="aot_eager")
    assert (found.outcome, "output[1] (float32): largest error" in found.summary) == (
        "failed",
        True,
    )


def test_an_output_that_other_numbers_wake_is_blind():
    def dead(x, y):
        return y, (y - 100).relu(), y * 1

    found = verdict(lambda: Linear(dead), backend="eager")
    assert (found.outcome, found.summary) == ("inconclusive", "blind: output[1] is zero")


def test_an_output_that_starts_at_zero_is_blind():
    class Head(Linear):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(4, 2)
            nn.init.zeros_(self.head.weight)
            nn.init.zeros_(self.head.bias)

        def forward(self, x):
            return self.linear(x), self.head(self.linear(x))

    found = verdict(Head, backend="eager", signal=False)
    assert found.outcome == "inconclusive", found
    assert found.summary.startswith("blind: output[1] is zero;")


def test_a_recurrent_network_names_the_setting_that_allows_it():
    class Recurrent(Linear):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(4, 4)

        def forward(self, x):
            return self.lstm(self.linear(x))[0]

    found = verdict(Recurrent, backend="eager", suite=test_graph_breaks)
    assert found.outcome == "failed"
    assert "Dynamo does not support RNN, GRU, or LSTM" in found.summary
    assert "torch._dynamo.config.allow_rnn=True" in found.summary


def test_that_nothing_was_compiled_is_said_once_and_why():
    seen = observation(lambda: nn.LSTM(4, 4), backend="eager")
    judged = [*verdicts(seen, Budget())]
    first, *others = judged
    assert (first.aspect, first.outcome) == ("forward", "failed")
    assert first.summary.startswith("nothing was compiled, all of it ran eagerly: Unsupported")
    assert "torch._dynamo.config.allow_rnn=True" in first.summary
    (way_out,) = (line for line in first.details if "recipe" in line)
    assert way_out.endswith('Example(…, config={"dynamo.allow_rnn": True})')
    assert {(v.outcome, v.summary) for v in others} == {
        ("skipped", "nothing was compiled: forward fails for it")
    }
    assert len(others) > 3


def test_that_nothing_was_compiled_names_the_function_that_is_disabled():
    class Disabled(Linear):
        @torch.compiler.disable
        def forward(self, x):
            return self.linear(x)

    first, *_ = verdicts(observation(Disabled, backend="eager"), Budget())
    assert first.outcome == "failed"
    assert any("Disabled.forward" in line for line in first.details), first
