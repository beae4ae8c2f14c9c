"""Tests of variables that all sides of a comparison share: of classes, functions and modules."""

import copy
import dataclasses
import functools

import pytest
import torch
from torch import nn

from compilegate.observe.model.shared_state import SharedState
from compilegate.observe.model.snapshot import Snapshot
from compilegate.suites import test_side_effects
from tests.unit import observed
from tests.unit.compiled import INFER, TRAIN, differences

COUNT = 0
READY = False
SEEN = []
GROUPS = set()
TABLE = {"n": 0}
MEMORY = torch.zeros(3)


@dataclasses.dataclass
class Options:
    """An object in a global variable."""

    n: int = 0


OPTIONS = Options()


class Counting(nn.Module):
    """A module that counts its calls everywhere but in itself."""

    calls = 0
    outputs = []  # noqa: RUF012

    @torch.no_grad()
    def forward(self, x):
        global COUNT  # noqa: PLW0603
        Counting.calls += 1
        type(self).outputs.append(x * 2)
        COUNT += 1
        SEEN.append(x + 1)
        GROUPS.add(len(GROUPS))
        TABLE["n"] += 1
        MEMORY.add_(1)
        OPTIONS.n += 1
        return helper(x) * COUNT


def helper(x, given=[]):  # noqa: B006, a default that remembers
    helper.calls += 1
    given.append(1)
    return x * len(given) + MEMORY


helper.calls = 0
#: What the first call changes.
CHANGES = {
    "class Counting.calls": "1",
    "class Counting.outputs[0]": "a tensor",
    "global tests.unit.test_shared_state.COUNT": "1",
    "global tests.unit.test_shared_state.SEEN[0]": "a tensor",
    "global tests.unit.test_shared_state.GROUPS": "frozenset({0})",
    "global tests.unit.test_shared_state.TABLE.n": "1",
    "global tests.unit.test_shared_state.OPTIONS.n": "1",
    "function helper.calls": "1",
    "function helper(given)[0]": "1",
}


@pytest.mark.parametrize("case", [INFER, TRAIN], ids=["infer", "train"])
def test_each_side_finds_shared_variables_as_it_left_them(case):
    assert differences(Counting, case, calls=3) == []


def test_a_lost_change_of_a_shared_variable_is_found():
    found = differences(Counting, theirs=lambda x: x + COUNT, calls=1)
    lost = {where: ours for where, ours, _ in found if not where.startswith("output")}
    assert lost == CHANGES


def test_a_change_that_compiled_code_repeats_is_found():
    def twice(x):
        global COUNT  # noqa: PLW0603
        COUNT += 2
        return x

    assert differences(lambda: once, theirs=twice, calls=1) == [
        ("global tests.unit.test_shared_state.COUNT", "1", "2")
    ]


def once(x):
    global COUNT  # noqa: PLW0603
    COUNT += 1
    return x


def test_variables_are_for_others_as_they_were():
    before = copy.deepcopy(dict(SharedState(Counting()).read()))
    differences(Counting, calls=2)
    after = dict(SharedState(Counting()).read())
    assert after.keys() == before.keys()
    assert str(after) == str(before)


class Announcing(nn.Module):
    """A module that sets a flag for good; compiled code may not."""

    def __init__(self, *, loses):
        super().__init__()
        self.linear, self.loses = nn.Linear(4, 4), loses

    def forward(self, x):
        global READY  # noqa: PLW0603
        if not (self.loses and torch.compiler.is_compiling()):
            READY = True
        return self.linear(x).sin()


@pytest.mark.parametrize(("loses", "outcome"), [(False, "passed"), (True, "failed")])
def test_a_flag_that_only_the_first_call_sets_is_not_set_before_it(loses, outcome):
    found = observed.verdict(lambda: Announcing(loses=loses), suite=test_side_effects)
    assert found.outcome == outcome, found
    assert not READY


def declare(x):
    global DECLARED  # noqa: PLW0603
    DECLARED = 1
    helper.late = 1
    Options.late = 1
    return x + OPTIONS.n


def test_variables_that_a_call_creates_are_deleted_again():
    shared = SharedState(declare)
    with shared.as_left():
        declare(1)
    assert "DECLARED" not in globals()
    assert not hasattr(helper, "late")
    assert not hasattr(Options, "late")
    with shared.as_left():
        assert globals()["DECLARED"] == 1


def test_objects_keep_their_identity():
    shared, seen, memory = SharedState(Counting()), SEEN, MEMORY
    with shared.as_left():
        Counting()(torch.ones(3))
    assert (SEEN is seen, MEMORY is memory, MEMORY.tolist()) == (True, True, [0, 0, 0])
    with shared.as_left():
        assert (len(SEEN), MEMORY.tolist()) == (1, [1, 1, 1])


def test_a_snapshot_restores_what_a_side_left():
    shared = SharedState(once)
    with shared.as_left():
        once(1)
    snapshot = Snapshot(once, parameters=False, shared=shared)
    with shared.as_left():
        once(1)
    once(1)
    snapshot.put_back()
    assert COUNT == 0
    with shared.as_left():
        assert COUNT == 1


def wrapped(function):
    @functools.wraps(function)
    def call(*args):
        return function(*args)

    return call


@wrapped
def decorated(x):
    return x + TABLE["n"]


def test_functions_are_found_behind_decorators_partials_and_attributes():
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = functools.partial(decorated)

        def forward(self, x):
            return self.act(x)

    for model in (decorated, Holder(), nn.Sequential(Holder())):
        assert "global tests.unit.test_shared_state.TABLE.n" in dict(SharedState(model).read())


def test_variables_of_libraries_are_left_out():
    model = nn.Sequential(nn.Linear(2, 2), nn.TransformerEncoderLayer(4, 2))
    assert dict(SharedState(model).read()) == {}


LARGE = torch.zeros(2**21)


def test_large_tensors_are_data():
    def add(x):
        return x + LARGE.sum()

    assert dict(SharedState(add).read()) == {}
