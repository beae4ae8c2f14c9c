"""Documented remedies: those that fit the kind of a break or of a guard, and no others."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from compilegate.culprits.grouping import culprits
from compilegate.judging.budget import Budget
from compilegate.observe.dissect import disabling
from compilegate.triage.search.sightings import OTHERS_LEFT, with_remedy
from compilegate.triage.search.suspect import Suspect
from compilegate.triage.steps.remedies import remedies
from tests.unit.failing import WRONG, A, broken, failures, wrong
from tests.unit.making import (
    make_break,
    make_call,
    make_capture,
    make_checked,
    make_compilation,
    make_error,
    make_observation,
    make_place,
)

SET = "torch._dynamo.config."
ITEM = replace(
    make_break("Unsupported Tensor.item() call with capture_scalar_outputs=False"),
    hint=f"Set `{SET}capture_scalar_outputs = True` or `export TORCHDYNAMO_…=1` to include these.",
)
NONZERO = replace(
    make_break("Dynamic shape operator"),
    hint=f"Enable tracing with `{SET}capture_dynamic_output_shape_ops = True`",
)
PRINT = replace(
    make_break("Failed to trace builtin operator"),
    explanation="Dynamo does not know how to trace builtin operator `print` with ['str']",
    hint=f"you can try adding it to `{SET}reorderable_logging_functions`.",
)
LOGGER = replace(
    make_break("logging.Logger method not supported for non-export cases"),
    hint=f"add the exact method being called to `{SET}ignore_logging_functions`.",
)
UNSPECIALISED = f"(HINT: make this integer dynamic using {SET}allow_unspec_int_on_nn_module = True)"
NUMBER = f"0/0: self.n == 1 # return x * self.n # t/net.py:8 in f {UNSPECIALISED}"


def suspect_of(observation, index=0):
    found = failures(observation)
    culprit = culprits(found)[index]
    return Suspect(culprit, observation, [found[0].verdict], lambda case: Budget(), "2.15.0")


def wrong_later(case):
    healthy, bad = make_checked(make_error()), make_checked(make_error(**WRONG))
    calls = make_call(outputs=healthy), make_call(outputs=bad)
    return make_observation(case=case, calls=calls)


def guarded(reason, at=""):
    items = make_compilation(0), make_compilation(1, reason, guarded_at=at)
    again = (make_compilation(2, reason, guarded_at=at),)
    return make_observation(case=A, capture=make_capture(compilations=(*items, *again)))


@pytest.mark.parametrize(
    ("observation", "expected"),
    [
        (broken(A, ITEM), [f"{SET}capture_scalar_outputs = True"]),
        (broken(A, NONZERO), [f"{SET}capture_dynamic_output_shape_ops = True"]),
        (broken(A, PRINT), [f"{SET}reorderable_logging_functions |= {{print}}"]),
        (broken(A, make_break()), []),
        (wrong(A), []),
        (wrong_later(A), []),
        (wrong_later(A.replace("static", "auto")), ["torch.compile(model, dynamic=False)"]),
        (
            guarded(NUMBER, "net.py:8"),
            [
                f"{SET}allow_unspec_int_on_nn_module = True",
                "@torch.compiler.disable  # on the function that has net.py:8",
            ],
        ),
        (
            guarded("0/0: tensor 'x' size mismatch at index 0. expected 3, actual 5"),
            [
                "torch.compile(model)  # dynamic=None, the default",
                "torch._dynamo.mark_dynamic(input, dim)  # before the first call",
                "torch.compile(model, dynamic=True)",
                f"{SET}assume_static_by_default = False",
            ],
        ),
    ],
    ids=[
        "item",
        "nonzero",
        "print",
        "another break",
        "numbers",
        "static",
        "sizes",
        "an integer",
        "a size",
    ],
)
def test_only_remedies_of_this_kind_are_tried(observation, expected):
    assert [remedy.code for remedy in remedies(suspect_of(observation))] == expected


def test_a_logger_is_left_out_by_its_methods():
    (remedy,) = remedies(suspect_of(broken(A, LOGGER)))
    first, second = remedy.code.splitlines()
    assert first == "import logging"
    assert second.startswith(f"{SET}ignore_logging_functions |= {{logging.Logger.debug, ")
    assert remedy.config["dynamo.ignore_logging_functions"][1] == "logging.Logger.info"


def test_a_remedy_of_one_break_helps_where_another_is_left():
    other = make_break("Call to `f`", place=make_place(20))
    suspect = suspect_of(broken(A, ITEM, other))
    assert with_remedy(suspect, broken(A, other)).text == OTHERS_LEFT
    assert with_remedy(suspect, broken(A, ITEM)).state == "bad"
    assert with_remedy(suspect, broken(A)).state == "good"


class Net(nn.Module):
    def forward(self, x):
        return self.tail(x) + helped(x)

    def tail(self, x):
        return x.cos()


def helped(x):
    return x.sin()


@pytest.mark.parametrize(
    ("text", "name"),
    [("return x.cos()", "tail"), ("return x.sin()", "helped"), ("nowhere", "")],
)
def test_the_function_that_has_a_line_is_left_to_eager(text, name, monkeypatch):
    lines = [line.strip() for line in Path(__file__).read_text().splitlines()]
    monkeypatch.setattr(Net, "tail", Net.tail)
    monkeypatch.setitem(globals(), "helped", helped)
    before = {"tail": Net.tail, "helped": helped}
    at = lines.index(text) + 1 if text in lines else 10**6
    disabling.disable_at(Net(), f"{Path(__file__).name}:{at}")
    now = {"tail": Net.tail, "helped": globals()["helped"]}
    assert [one for one in before if now[one] is not before[one]] == [name] * bool(name)
    torch.testing.assert_close(Net()(torch.zeros(2)), torch.ones(2))
