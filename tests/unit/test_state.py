"""Tests of model state: variables behind methods, hooks and decorators."""

import functools
from collections import deque

import pytest
import torch
from torch import nn

from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.snapshot import Snapshot
from compilegate.observe.model.state import attributes, cells_of, variables
from tests.unit.compiled import INFER, TRAIN, differences, subject

# Places of variables. Each function builds a model that counts its calls in a variable.


def in_a_method_of_a_local_class():
    state = {"n": 0}

    class Helper:
        def touch(self):
            state["n"] += 1

    def f(x):
        Helper().touch()
        return x + 1

    return f


def in_a_static_method():
    state = {"n": 0}

    class Helper:
        @staticmethod
        def touch():
            state["n"] += 1

    def f(x):
        Helper.touch()
        return x + 1

    return f


def in_a_property_of_a_base_class():
    n = 0

    class Base:
        @property
        def one(self):
            nonlocal n
            n += 1
            return 1

    class Helper(Base):
        pass

    helper = Helper()
    return lambda x: x + helper.one


def in_another_function():
    n = 0

    def touch():
        nonlocal n
        n += 1

    def f(x):
        touch()
        return x + 1

    return f


def in_a_decorated_function():
    n = 0

    def counted(function):
        @functools.wraps(function)
        def wrapper(x):
            nonlocal n
            n += 1
            return function(x)

        return wrapper

    @torch.no_grad()
    @counted
    def f(x):
        return x + 1

    return f


def in_a_partial():
    n = 0

    def f(y, x):
        nonlocal n
        n += 1
        return x + y

    return functools.partial(f, 1)


def in_the_forward_of_a_local_module():
    state = {"n": 0}

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            state["n"] += 1
            return self.linear(x)

    return nn.Sequential(Net(), nn.Tanh())


class Calls(nn.Module):
    """A module that calls given functions."""

    def __init__(self, *actions):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.actions = list(actions)
        self.first = {"action": actions[0]}

    def forward(self, x):
        for action in self.actions:
            action()
        return self.linear(x)


def in_attributes_of_a_module():
    n = {"lambda": 0, "partial": 0}

    def touch(which):
        n[which] += 1

    return Calls(lambda: touch("lambda"), functools.partial(touch, "partial"))


def in_a_hook():
    seen = {}
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    def keep(module, args, output):
        seen["n"] = seen.get("n", 0) + 1
        seen["output"] = output.detach()

    net[0].register_forward_hook(keep)
    return net


def in_a_method_set_on_a_module():
    n = 0
    net = nn.Linear(3, 3)
    original = net.forward

    def forward(self, x):
        nonlocal n
        n += 1
        return original(x)

    net.forward = forward.__get__(net)
    return net


BUILDERS = [
    (in_a_method_of_a_local_class, "touch.state.n"),
    (in_a_static_method, "touch.state.n"),
    (in_a_property_of_a_base_class, "one.n"),
    (in_another_function, "touch.n"),
    (in_a_decorated_function, "f.n"),
    (in_a_partial, "f.n"),
    (in_the_forward_of_a_local_module, "forward.state.n"),
    (in_attributes_of_a_module, "touch.n.lambda"),
    (in_a_hook, "keep.seen.n"),
    (in_a_method_set_on_a_module, "forward.n"),
]


IDS = [build.__name__ for build, _ in BUILDERS]


@pytest.mark.parametrize(("build", "name"), BUILDERS, ids=IDS)
def test_a_variable_that_a_call_changes_is_state(build, name):
    made = subject(build)
    results = [made.call(made.prepare(PlannedCall(index, {})), index) for index in (0, 1)]
    assert [result.state[f"closure {name}"] for result in results] == [1, 2]


@pytest.mark.parametrize(("build", "name"), BUILDERS, ids=IDS)
def test_a_lost_change_is_found(build, name):
    found = differences(build, theirs=lambda x: x + 1)
    assert f"closure {name}" in [where for where, _, _ in found]


@pytest.mark.parametrize("case", [INFER, TRAIN], ids=["infer", "train"])
@pytest.mark.parametrize("build", [build for build, _ in BUILDERS[1:]])  # PyTorch loses the first
def test_healthy_compiled_code_shows_no_difference(build, case):
    assert differences(build, case, calls=3) == []


# Reading state.


def names_in(model):
    return [name for name, _ in variables(cells_of(model))]


def counter(n=0):
    """Return a new function that counts its calls."""

    def touch():
        nonlocal n
        n += 1

    return touch


SHARED = functools.wraps(len)(counter())


def test_variables_that_all_sides_share_are_left_out():
    assert names_in(lambda x: SHARED()) == []
    assert names_in(Calls(SHARED)) == []
    assert names_in(Calls(counter())) == ["touch.n"]


def test_variables_of_one_name_are_distinguished():
    one, other = counter(1), counter(2)
    assert dict(variables(cells_of(Calls(one, other, one)))) == {"touch.n": 1, "touch.n #2": 2}


def test_large_tables_are_left_out():
    table, state = dict.fromkeys(range(1000), 0), dict.fromkeys("ab", 0)
    names = ["<lambda>.state (structure)", "<lambda>.state.a", "<lambda>.state.b"]
    assert names_in(Calls(lambda: (table, state))) == names


class Remembers(nn.Module):
    """A module that keeps its inputs in containers of several kinds."""

    def __init__(self):
        super().__init__()
        self.seen, self.last = {0}, deque([0], 3)

    def forward(self, x):
        self.seen.add(len(self.seen))
        self.last.append(len(self.seen))
        return x


def test_the_current_contents_of_sets_and_queues_are_state():
    module = Remembers()
    before = dict(attributes(module))
    module(torch.ones(1))
    after = dict(attributes(module))
    assert (before["seen"], after["seen"]) == ({0}, {0, 1})
    assert (before["last[0]"], after["last[1]"]) == (0, 2)


def test_sets_of_objects_that_compare_by_identity_are_left_out():
    module = nn.Module()
    module.parts = {nn.ReLU()}
    named = {"parts (structure)": "set", "the model (class)": "Module"}
    assert dict(attributes(module)) == {"training": True, **named}


def test_a_class_that_refers_to_itself_is_visited_once():
    n = 0

    class Base(nn.Module):
        def forward(self, x):
            return x + n

    class Net(Base):
        def forward(self, x):
            return super().forward(x), Net, later

    assert names_in(nn.ModuleList([Net(), Net()])) == ["forward.n"]
    later = 1.0
    assert names_in(Net()) == ["forward.later", "forward.n"]


def test_wrapper_functions_of_pytorch_are_no_state():
    assert names_in(torch.no_grad()(counter())) == ["touch.n"]
    assert names_in(torch.compiler.disable(counter())) == ["touch.n"]
    assert names_in(torch.compile(counter())) == ["touch.n"]


# Restoring state.


@pytest.mark.parametrize(("build", "name"), BUILDERS, ids=IDS)
def test_variables_are_restored(build, name):
    model = build()
    before = dict(variables(cells_of(model)))
    snapshot = Snapshot(model, parameters=False)
    model(torch.ones(3))
    assert dict(variables(cells_of(model)))[name] == 1
    snapshot.put_back()
    assert dict(variables(cells_of(model))) == before
