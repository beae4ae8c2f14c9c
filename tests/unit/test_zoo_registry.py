"""Tests of the zoo's interface: what a recipe can declare, and what is refused with its line."""

import json

import pytest
import torch

from compilegate.records.encoding import dumps
from compilegate.zoo.example import Call, Example
from compilegate.zoo.registry import Model, model

pytestmark = pytest.mark.usefixtures("registry")


def build():
    return Example(abs, inputs=(1,))


# The decorator.


def test_a_recipe_is_registered_and_stays_a_function(registry):
    @model("my_net", vary={"batch": (8, 4)}, blocks="layers", slow=True, requires="timm")
    def my_net():
        return build()

    entry = registry["my_net"]
    assert my_net().module is abs
    assert entry.build is my_net
    assert entry.family == "test_zoo_registry"
    assert entry.source == __file__
    assert (entry.vary, entry.vary_cuda) == ({"batch": (8, 4)}, {})
    assert (entry.blocks, entry.slow, entry.requires) == ("layers", True, "timm")


def test_defaults_vary_nothing(registry):
    model("my_net")(build)
    entry = registry["my_net"]
    assert (entry.vary, entry.blocks, entry.slow, entry.requires) == ({}, None, False, None)


def test_a_recipe_can_name_its_family(registry):
    model("my_net", family="mlp")(build)
    assert registry["my_net"].family == "mlp"


@pytest.mark.parametrize("name", ["My_net", "my-net", "", "my net", "netz.ü", "my_net\n"])
def test_a_name_that_would_break_case_ids_is_refused(name):
    with pytest.raises(ValueError, match=r"test_zoo_registry\.py:\d+: model name .* only a-z, 0-9"):
        model(name)(build)


def test_a_taken_name_is_refused_with_both_places():
    with pytest.raises(ValueError, match=r"test_zoo_registry\.py:\d+: model 'resnet18' is already"):
        model("resnet18")(build)


@pytest.mark.parametrize("sizes", [(), (1, 4), (0, 4), (-2, 4), (4, 4), (4, 8, 4)])
@pytest.mark.parametrize("device", ["vary", "vary_cuda"])
def test_sizes_that_torch_compile_would_specialise_are_refused(sizes, device):
    given = {"vary": {"batch": (8, 4)}} | {device: {"batch": sizes}}
    with pytest.raises(
        ValueError, match=r"py:\d+: sizes of 'batch' must be distinct and at least 2"
    ):
        model("my_net", **given)(build)


def test_a_gpu_cannot_vary_a_name_that_a_cpu_does_not_vary():
    with pytest.raises(ValueError, match=r"py:\d+: vary_cuda names \['length'\], but vary does"):
        model("my_net", vary={"batch": (2, 3)}, vary_cuda={"length": (2, 3)})(build)


def test_a_refused_recipe_is_not_registered(registry):
    with pytest.raises(ValueError, match="sizes"):
        model("my_net", vary={"batch": (1,)})(build)
    assert "my_net" not in registry


# A model.


def test_a_gpu_has_its_own_sizes_if_vary_cuda_names_them():
    entry = Model("m", "f", vary={"batch": (4, 2), "length": (8, 6)}, vary_cuda={"batch": (32, 16)})
    assert entry.sizes("cpu") == {"batch": (4, 2), "length": (8, 6)}
    assert entry.sizes("cuda") == {"batch": (32, 16), "length": (8, 6)}


def test_a_builder_with_a_device_argument_gets_the_device():
    entry = Model("m", "f", build=lambda device: Example(abs, inputs=(device,)))
    assert entry.example("cuda").inputs == ("cuda",)


def test_a_builder_without_a_device_argument_gets_none():
    assert Model("m", "f", build=build).example("cuda").inputs == (1,)


@pytest.mark.parametrize("returned", [abs, None, {"module": abs}])
def test_a_builder_that_returns_no_example_is_refused(returned):
    entry = Model("m", "f", source="mine.py", build=lambda: returned)
    with pytest.raises(
        TypeError, match=r"builder of model 'm' \(mine\.py\) returned .*; it must return an"
    ):
        entry.example("cpu")


def test_an_example_whose_module_is_not_callable_is_refused():
    entry = Model("m", "f", source="mine.py", build=lambda: Example("resnet18"))
    with pytest.raises(
        TypeError, match=r"Example of model 'm' \(mine\.py\) holds str; it must hold"
    ):
        entry.example("cpu")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Example(abs, inputs=1.0), r"inputs of Example must be a tuple.* not a float"),
        (lambda: Example(abs, inputs={"x": 1}), "not a dict; arguments by name go into kwargs"),
        (
            lambda: Example(abs, inputs=torch.nn.Linear(2, 2)),
            r"are a module, Linear: write Example\(Linear\(…\)",
        ),
        (lambda: Example(abs, kwargs=(1,)), "kwargs of Example must be a dict .* not a tuple"),
        (lambda: Call("x"), r"args of Call must be a tuple of arguments, \(x,\), not a str"),
        (lambda: Call((), [1]), "kwargs of Call must be a dict of arguments by name, not a list"),
        (lambda: Example(abs, calls=[(1,)]), "calls of Example must be a list .* not of a tuple"),
        (lambda: Example(abs, calls={"x": 1}), "calls of Example must be a list .* not of a dict"),
        (lambda: Example(abs, dims={0: "batch"}), "dims of Example must name dimensions"),
    ],
)
def test_a_field_of_the_wrong_type_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def sized(vary, **example):
    given = {"inputs": (lambda batch: (batch,)) if vary else (1,)} | example
    return Model("m", "f", vary=vary, build=lambda: Example(abs, **given)).example("cpu")


def test_dims_without_a_name_that_varies_are_refused():
    with pytest.raises(ValueError, match="dims of Example name bach, but vary has batch"):
        sized({"batch": (8, 4)}, dims={0: {0: "bach"}})


@pytest.mark.parametrize(
    ("vary", "dims"),
    [
        (
            {"batch": (8, 4)},
            {0: {0: "batch", 1: "length"}},
        ),  # length is marked, and always the same
        ({}, {0: {0: "batch"}}),  # nothing varies
    ],
)
def test_dims_that_are_marked_but_do_not_vary_are_accepted(vary, dims):
    assert sized(vary, dims=dims).dims == dims


@pytest.mark.parametrize(
    ("vary", "given", "message"),
    [
        (
            {"batch": (8, 4)},
            {"inputs": lambda b: (b,)},
            "inputs .* function of b, but vary has batch",
        ),
        (
            {},
            {"inputs": lambda batch: (batch,)},
            "inputs .* function of batch, but vary has no sizes: .*vary={.batch.: .8, 4, 12.}",
        ),
        ({"batch": (8, 4)}, {"kwargs": lambda *, n: {"n": n}}, "kwargs .* function of n, but vary"),
    ],
)
def test_a_function_of_something_that_is_no_size_is_refused(vary, given, message):
    with pytest.raises(ValueError, match=message):
        sized(vary, **given)


@pytest.mark.parametrize(
    "inputs",
    [
        lambda batch: (batch,),
        lambda: (1,),
        lambda batch, scale=2: (batch * scale,),
        lambda **sizes: (sizes["batch"],),
    ],
)
def test_a_function_of_sizes_or_of_none_is_accepted(inputs):
    assert sized({"batch": (8, 4)}, inputs=inputs).inputs is inputs


def test_two_examples_share_no_defaults():
    first, second = build(), build()
    assert first.kwargs is not second.kwargs


def test_everything_except_the_recipe_can_be_sent_as_json():
    entry = Model("m", "f", vary={"batch": (4, 2)}, blocks="layers", slow=True, build=build)
    content = entry.to_dict()
    assert "build" not in content
    back = Model(**json.loads(dumps(content)))
    assert (back.name, back.blocks, back.slow, back.build) == ("m", "layers", True, None)
    assert {name: tuple(sizes) for name, sizes in back.vary.items()} == {"batch": (4, 2)}
