"""Variables behind methods, hooks and decorators: compiled code leaves them as eager does."""

import copy
import functools
from collections import deque

import pytest
import torch
from torch import nn

from compilegate.observe.compare import exact
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.snapshot import Snapshot
from compilegate.observe.model.state import attributes, cells_of, variables
from tests.unit.compiled import INFER, TRAIN, differences, subject

# Where variables are found. Each builds a model that counts its calls in a variable.


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
    """Calls the functions that it is given."""

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
def test_a_change_that_is_lost_is_found(build, name):
    found = differences(build, theirs=lambda x: x + 1)
    assert f"closure {name}" in [where for where, _, _ in found]


@pytest.mark.parametrize("case", [INFER, TRAIN], ids=["infer", "train"])
@pytest.mark.parametrize("build", [build for build, _ in BUILDERS[1:]])  # PyTorch loses the first
def test_healthy_compiled_code_shows_no_difference(build, case):
    assert differences(build, case, calls=3) == []


# What is read.


def names_in(model):
    return [name for name, _ in variables(cells_of(model))]


def counter(n=0):
    """A function that counts; made anew for each that asks."""

    def touch():
        nonlocal n
        n += 1

    return touch


SHARED = functools.wraps(len)(counter())


def test_what_all_sides_share_is_left_out():
    assert names_in(lambda x: SHARED()) == []
    assert names_in(Calls(SHARED)) == []
    assert names_in(Calls(counter())) == ["touch.n"]


def test_variables_of_one_name_are_told_apart():
    one, other = counter(1), counter(2)
    assert dict(variables(cells_of(Calls(one, other, one)))) == {"touch.n": 1, "touch.n #2": 2}


def test_tables_are_left_out():
    table, state = dict.fromkeys(range(100), 0), dict.fromkeys("ab", 0)
    names = ["<lambda>.state (order of keys)", "<lambda>.state.a", "<lambda>.state.b"]
    assert names_in(Calls(lambda: (table, state))) == names


class Remembers(nn.Module):
    """It keeps what it has seen, in containers of several kinds."""

    def __init__(self):
        super().__init__()
        self.seen, self.last = {0}, deque([0], 3)

    def forward(self, x):
        self.seen.add(len(self.seen))
        self.last.append(len(self.seen))
        return x


def test_sets_and_queues_are_state_as_they_are_at_the_time():
    module = Remembers()
    before = dict(attributes(module))
    module(torch.ones(1))
    after = dict(attributes(module))
    assert (before["seen"], after["seen"]) == ({0}, {0, 1})
    assert (before["last[0]"], after["last[1]"]) == (0, 2)


def test_sets_of_what_differs_by_identity_are_left_out():
    module = nn.Module()
    module.parts = {nn.ReLU()}
    assert dict(attributes(module)) == {}


def test_a_class_that_refers_to_itself_is_looked_at_once():
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


def test_what_pytorch_wraps_functions_in_is_no_state():
    assert names_in(torch.no_grad()(counter())) == ["touch.n"]
    assert names_in(torch.compiler.disable(counter())) == ["touch.n"]
    assert names_in(torch.compile(counter())) == ["touch.n"]


# What is in classes that the builder made.


def in_classes():
    class Base(nn.Module):
        n, last, gone, memory = 0, torch.zeros(3), "x", torch.zeros(3)

        def forward(self, x):
            return x + 1

    class Net(Base):
        def forward(self, x):
            Base.n += 1
            Base.last = x * 2
            Base.memory.add_(1)
            Net.seen.append(x.detach())
            return super().forward(x)

    Net.seen = []
    return nn.Sequential(Net(), Base())


CHANGES = {
    "class Base.n": 1,
    "class Base.last": torch.full((3,), 2.0),
    "class Base.memory": torch.ones(3),
    "class Net.seen[0]": torch.ones(3),
}


def test_an_attribute_of_a_class_that_a_call_changes_is_state():
    made = subject(in_classes)
    result = made.call(made.prepare(PlannedCall(0, {})), 0)
    assert result.before["attribute class Base.n"] == 0
    assert all(exact.is_same(result.state[f"attribute {n}"], held) for n, held in CHANGES.items())


def test_a_changed_attribute_of_a_class_that_is_lost_is_found():
    """As in https://github.com/pytorch/pytorch/issues/169253."""
    found = differences(in_classes, theirs=lambda x: x + 1, calls=1)
    assert ("attribute class Base.n", "1", "0") in found
    assert ("attribute class Net.seen[0]", "a tensor", "None") in found


@pytest.mark.parametrize("case", [INFER, TRAIN], ids=["infer", "train"])
def test_attributes_of_classes_that_compiled_code_changes_alike_are_no_difference(case):
    assert differences(in_classes, case, calls=3) == []


def test_attributes_of_classes_are_put_back():
    model = in_classes()
    before = {name: copy.copy(value) for name, value in attributes(model)}
    snapshot = Snapshot(model, parameters=False)
    model(torch.ones(3))
    del type(model[1]).gone
    snapshot.put_back()
    after = dict(attributes(model))
    assert after.keys() == before.keys()
    assert all(exact.is_same(after[name], value) for name, value in before.items())


def test_classes_of_one_name_are_told_apart_and_shared_ones_left_out():
    def made(start):
        class Net(nn.Module):
            n = start

        return Net()

    model = nn.Sequential(made(1), made(2), Remembers(), torch.fx.symbolic_trace(nn.ReLU()))
    found = {name: value for name, value in attributes(model) if name.startswith("class")}
    assert found == {"class Net.n": 1, "class Net #2.n": 2}


# What is in objects among the arguments.


class Layer:
    def __init__(self):
        self.keys = torch.zeros(0)


class Cache:
    def __init__(self):
        self.length = 0
        self.layers = [Layer(), Layer()]
        self.owner = self


def given_a_cache():
    return (torch.ones(3), Cache())


def append(x, cache):
    cache.length += x.shape[0]
    for layer in cache.layers:
        layer.keys = torch.cat([layer.keys, x])
    return cache.layers[0].keys.sum()


def append_to_one(x, cache):
    cache.layers[0].keys = torch.cat([cache.layers[0].keys, x])
    return cache.layers[0].keys.sum()


def test_objects_that_a_call_is_given_are_state():
    made = subject(lambda: append, inputs=given_a_cache)
    result = made.call(made.prepare(PlannedCall(0, {})), 0)
    assert (result.before["input[1].length"], result.state["input[1].length"]) == (0, 3)
    assert result.before["input[1].layers[1].keys"].shape == (0,)
    assert torch.equal(result.state["input[1].layers[1].keys"], torch.ones(3))


@pytest.mark.parametrize("case", [INFER, TRAIN], ids=["infer", "train"])
def test_what_compiled_code_does_to_them_is_compared(case):
    assert differences(lambda: append, case, inputs=given_a_cache) == []
    lost = differences(lambda: append, case, inputs=given_a_cache, theirs=append_to_one)
    assert [where for where, _, _ in lost[:2]] == ["input[1].length", "input[1].layers[1].keys"]


# What is put back.


@pytest.mark.parametrize(("build", "name"), BUILDERS, ids=IDS)
def test_variables_are_put_back(build, name):
    model = build()
    before = dict(variables(cells_of(model)))
    snapshot = Snapshot(model, parameters=False)
    model(torch.ones(3))
    assert dict(variables(cells_of(model)))[name] == 1
    snapshot.put_back()
    assert dict(variables(cells_of(model))) == before
