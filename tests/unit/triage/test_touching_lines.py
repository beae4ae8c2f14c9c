"""The lines that make or read what is wrong, where each line computes the same."""

from dataclasses import replace

import pytest

from compilegate.culprits.grouping import culprits
from compilegate.judging.budget import Budget
from compilegate.records.part import LineDiffers
from compilegate.triage.search.suspect import Suspect
from compilegate.triage.steps.lines import of_state, of_what_differs
from tests.unit.failing import WRONG, A, failures, wrong
from tests.unit.making import make_checked, make_difference, make_error

TRAIN = "one-cpu-train-f32-default-static"
SHARED = make_difference("output", "aliasing", "output.k = output.v", "output.k; output.v")
FOUND = LineDiffers(
    compared=9,
    touched={
        "input[0]": "net.py:1: x = self.stem(x)",
        "stem.weight": "net.py:1: x = self.stem(x)",
        "fc.weight": "net.py:2: x = self.fc(x)",
        "fc.bias": "net.py:2: x = self.fc(x)",
        "head.weight": "net.py:3: return self.head(x)",
        "buffer mean": "net.py:1: x = self.stem(x)",
        "output.k": "net.py:4: k = x.t()",
        "output.v": "net.py:5: v = x.t()",
        "output.v_rest": "net.py:6: rest = x[:8]",
    },
)


def suspect_of(observation):
    shown = failures(observation)
    return Suspect(
        culprits(shown)[0], observation, [shown[0].verdict], lambda _: Budget(), "2.15.0"
    )


def gradients(*names):
    right = [make_error("gradient head.weight")]
    return make_checked(*right, *(make_error(f"gradient {name}", **WRONG) for name in names))


@pytest.mark.parametrize(
    ("case", "groups", "names"),
    [
        (A, {"outputs": make_checked(make_error("output.v", **WRONG))}, ["output.v"]),
        (
            A,
            {"outputs": make_checked(make_error("output.v"), differences=[SHARED])},
            ["output.k", "output.v"],
        ),
        (A, {"state": make_checked(make_error("buffer mean", **WRONG))}, ["buffer mean"]),
        (TRAIN, {"gradients": gradients("stem.weight")}, ["gradient stem.weight"]),
        (
            TRAIN,
            {"gradients": gradients("input[0]", "stem.weight", "fc.weight", "fc.bias")},
            ["gradient fc.weight", "gradient fc.bias"],
        ),
        (TRAIN, {"gradients": gradients("unknown")}, []),
    ],
    ids=["an output", "aliases", "a buffer", "a gradient", "the last gradients", "unknown"],
)
def test_they_are_those_of_the_wrong_tensors(case, groups, names):
    suspect = suspect_of(wrong(case, **groups))
    assert list(of_what_differs(suspect, FOUND)) == names


def test_there_are_none_where_a_line_computes_something_else_or_there_are_many():
    wrong_outputs = make_checked(*(make_error(f"output.o{n}", **WRONG) for n in range(6)))
    suspect = suspect_of(wrong(A, outputs=wrong_outputs))
    many = {f"output.o{n}": f"net.py:{n}: o{n} = x + {n}" for n in range(6)}
    found = LineDiffers(compared=9, touched=many)
    assert of_what_differs(suspect, found) == {}
    fewer = dict(list(many.items())[:2])
    assert of_what_differs(suspect, replace(found, touched=fewer)) == fewer
    assert of_what_differs(suspect, replace(found, touched=fewer, source="net.py:1")) == {}


REVERSE, ASSIGN = "net.py:7: self.order.reverse()", "net.py:8: order = [1]"
CHANGED = LineDiffers(compared=2, changed={".order": [REVERSE], "order": [ASSIGN]})


@pytest.mark.parametrize(
    ("where", "found", "lines"),
    [
        ("attribute order[0]", CHANGED, (REVERSE,)),
        ("attribute blocks.0.order['a'][1]", CHANGED, (REVERSE,)),
        ("global order", CHANGED, (REVERSE, ASSIGN)),
        ("attribute disorder", CHANGED, ()),
        ("buffer order", CHANGED, ()),
        ("attribute order[0]", replace(CHANGED, source="net.py:1"), ()),
        ("attribute order", replace(CHANGED, changed={".order": [REVERSE] * 9}), ()),
    ],
    ids=["item", "nested", "variable", "another", "tensor", "wrong line", "many lines"],
)
def test_the_lines_that_change_what_differs_of_python_are_named(where, found, lines):
    state = make_checked(differences=[make_difference(where, "value", "3", "1")])
    suspect = suspect_of(wrong(A, state=state))
    assert of_state(suspect, found) == (where if lines else "", lines)
