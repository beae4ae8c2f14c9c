"""The zoo's one interface: what a recipe may say, and what is refused with file and line."""

import json
import subprocess
import sys
import textwrap

import pytest

from compilegate.layout import PACKAGE
from compilegate.records.encoding import dumps
from compilegate.zoo import registry as zoo
from compilegate.zoo.example import Call, Example
from compilegate.zoo.registry import Model, load_file, model


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    """The shipped zoo, restored afterwards."""
    zoo.load()
    monkeypatch.setattr(zoo, "_registry", dict(zoo._registry))
    before = set(sys.modules)
    yield zoo._registry
    for name in set(sys.modules) - before:
        if name.startswith("zoo_of_"):
            del sys.modules[name]


@pytest.fixture
def write(tmp_path):
    def write(text, name="zoo_of_mine.py"):
        path = tmp_path / name
        path.write_text("from compilegate import Example, model\n" + textwrap.dedent(text))
        return path

    return write


def build():
    return Example(abs, inputs=(1,))


# The decorator.


def test_a_recipe_is_entered_and_stays_a_function(registry):
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


def test_a_family_may_be_named(registry):
    model("my_net", family="mlp")(build)
    assert registry["my_net"].family == "mlp"


@pytest.mark.parametrize("name", ["My_net", "my-net", "", "my net", "netz.ü", "my_net\n"])
def test_a_name_on_which_ids_would_not_split_is_refused(name):
    with pytest.raises(ValueError, match=r"test_zoo_registry\.py:\d+: model name .* only a-z, 0-9"):
        model(name)(build)


def test_a_name_that_is_taken_is_refused_with_both_places():
    with pytest.raises(ValueError, match=r"test_zoo_registry\.py:\d+: model 'resnet18' is already"):
        model("resnet18")(build)


@pytest.mark.parametrize("sizes", [(), (1, 4), (0, 4), (-2, 4), (4, 4), (4, 8, 4)])
@pytest.mark.parametrize("device", ["vary", "vary_cuda"])
def test_sizes_that_would_specialise_are_refused(sizes, device):
    given = {"vary": {"batch": (8, 4)}} | {device: {"batch": sizes}}
    with pytest.raises(
        ValueError, match=r"py:\d+: sizes of 'batch' must be distinct and at least 2"
    ):
        model("my_net", **given)(build)


def test_a_gpu_may_not_vary_what_a_cpu_does_not():
    with pytest.raises(ValueError, match=r"py:\d+: vary_cuda names \['length'\], which vary does"):
        model("my_net", vary={"batch": (2, 3)}, vary_cuda={"length": (2, 3)})(build)


def test_a_refused_recipe_is_not_entered(registry):
    with pytest.raises(ValueError, match="sizes"):
        model("my_net", vary={"batch": (1,)})(build)
    assert "my_net" not in registry


# A model.


def test_a_gpu_has_its_own_sizes_where_they_are_given():
    entry = Model("m", "f", vary={"batch": (4, 2), "length": (8, 6)}, vary_cuda={"batch": (32, 16)})
    assert entry.sizes("cpu") == {"batch": (4, 2), "length": (8, 6)}
    assert entry.sizes("cuda") == {"batch": (32, 16), "length": (8, 6)}


def test_a_builder_is_told_the_device_if_it_asks():
    entry = Model("m", "f", build=lambda device: Example(abs, inputs=(device,)))
    assert entry.example("cuda").inputs == ("cuda",)


def test_a_builder_that_does_not_ask_is_told_nothing():
    assert Model("m", "f", build=build).example("cuda").inputs == (1,)


@pytest.mark.parametrize("returned", [abs, None, {"module": abs}])
def test_a_builder_that_returns_no_example_is_refused(returned):
    entry = Model("m", "f", source="mine.py", build=lambda: returned)
    with pytest.raises(TypeError, match=r"builder of model 'm' \(mine\.py\) returned .*not an Ex"):
        entry.example("cpu")


def test_an_example_of_nothing_callable_is_refused():
    entry = Model("m", "f", source="mine.py", build=lambda: Example("resnet18"))
    with pytest.raises(TypeError, match=r"Example of model 'm' \(mine\.py\) holds str, which is"):
        entry.example("cpu")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Example(abs, inputs=1.0), r"inputs of Example must be a tuple.* not a float"),
        (lambda: Example(abs, kwargs=(1,)), "kwargs of Example must be a dict .* not a tuple"),
        (lambda: Call("x"), r"args of Call must be a tuple of arguments, \(x,\), not a str"),
        (lambda: Call((), [1]), "kwargs of Call must be a dict of arguments by name, not a list"),
        (lambda: Example(abs, calls=[(1,)]), "calls of Example must be a list .* not of a tuple"),
        (lambda: Example(abs, calls={"x": 1}), "calls of Example must be a list .* not of a dict"),
        (lambda: Example(abs, dims={0: "batch"}), "dims of Example must name dimensions"),
    ],
)
def test_a_field_of_the_wrong_kind_is_refused_where_it_is_given(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def sized(vary, **example):
    given = {"inputs": lambda batch: (batch,)} | example
    return Model("m", "f", vary=vary, build=lambda: Example(abs, **given)).example("cpu")


def test_dims_that_never_vary_are_refused():
    with pytest.raises(ValueError, match="dims of Example name bach, but vary has batch"):
        sized({"batch": (8, 4)}, dims={0: {0: "bach"}})


@pytest.mark.parametrize(
    ("vary", "dims"),
    [
        ({"batch": (8, 4)}, {0: {0: "batch", 1: "length"}}),  # marked, and always the same
        ({}, {0: {0: "batch"}}),  # of given calls
    ],
)
def test_dims_that_are_marked_but_do_not_vary_are_taken(vary, dims):
    assert sized(vary, dims=dims).dims == dims


def test_two_examples_share_no_defaults():
    first, second = build(), build()
    assert first.kwargs is not second.kwargs


def test_everything_but_the_recipe_can_be_sent():
    entry = Model("m", "f", vary={"batch": (4, 2)}, blocks="layers", slow=True, build=build)
    content = entry.to_dict()
    assert "build" not in content
    back = Model(**json.loads(dumps(content)))
    assert (back.name, back.blocks, back.slow, back.build) == ("m", "layers", True, None)
    assert {name: tuple(sizes) for name, sizes in back.vary.items()} == {"batch": (4, 2)}


# Files.


def test_a_file_gives_the_models_that_it_defines_in_order(write):
    path = write(
        """
        for name in ("zebra", "ant"):
            model(name)(lambda: Example(abs))
        """
    )
    entries = load_file(path)
    assert [entry.name for entry in entries] == ["zebra", "ant"]
    assert {entry.source for entry in entries} == {str(path)}
    assert {entry.family for entry in entries} == {"zoo_of_mine"}


def test_a_file_may_be_given_as_text_and_relative(write, monkeypatch):
    path = write('model("mine")(lambda: Example(abs))\n')
    monkeypatch.chdir(path.parent)
    assert [entry.name for entry in load_file("zoo_of_mine.py")] == ["mine"]


def test_a_file_without_models_gives_none(write):
    assert load_file(write("")) == []


def test_a_file_may_import_its_neighbours(write, tmp_path):
    (tmp_path / "zoo_of_helpers.py").write_text("name = 'helped'\n")
    before = list(sys.path)
    path = write("import zoo_of_helpers\nmodel(zoo_of_helpers.name)(lambda: Example(abs))\n")
    assert [entry.name for entry in load_file(path)] == ["helped"]
    assert sys.path == before


def test_classes_of_a_file_are_found_in_their_module(write):
    """Dynamo and pickle look a class up in ``sys.modules``."""
    path = write(
        """
        class Net:
            def __call__(self):
                return 1

        @model("mine")
        def mine():
            return Example(Net())
        """
    )
    (entry,) = load_file(path)
    net = type(entry.example("cpu").module)
    assert getattr(sys.modules[net.__module__], net.__qualname__) is net


def test_a_file_named_like_a_module_that_is_there_does_not_replace_it(write):
    path = write('model("mine")(lambda: Example(abs))\n', name="json.py")
    assert [entry.name for entry in load_file(path)] == ["mine"]
    assert sys.modules["json"] is json


def test_two_files_of_one_name_both_give_their_models(write, tmp_path):
    first = write('model("one")(lambda: Example(abs))\n')
    (tmp_path / "sub").mkdir()
    second = write('model("two")(lambda: Example(abs))\n', name="sub/zoo_of_mine.py")
    assert [entry.name for entry in (*load_file(first), *load_file(second))] == ["one", "two"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('\n@model("My")\ndef f(): ...\n', r"zoo_of_mine\.py:3: model name 'My'"),
        ('@model("resnet18")\ndef f(): ...\n', r"zoo_of_mine\.py:2: model 'resnet18' is already"),
        ('@model("a")\ndef f(): ...\n@model("a")\ndef g(): ...\n', r"mine\.py:4: model 'a' is alr"),
        ('@model("a", vary={"b": (1,)})\ndef f(): ...\n', r"zoo_of_mine\.py:2: sizes of 'b'"),
    ],
)
def test_a_mistake_in_a_file_is_refused_with_its_line(write, text, message):
    with pytest.raises(ValueError, match=message):
        load_file(write(text))


def test_what_is_no_python_file_is_refused(tmp_path):
    (tmp_path / "zoo.toml").touch()
    with pytest.raises(ImportError, match=r"zoo\.toml is not a Python file"):
        load_file(tmp_path / "zoo.toml")


def test_an_error_of_the_file_is_its_own_and_the_path_is_restored(write):
    before = list(sys.path)
    with pytest.raises(ZeroDivisionError):
        load_file(write("1 / 0\n"))
    assert sys.path == before


def in_a_fresh_process(text):
    return subprocess.run(
        [sys.executable, "-c", text],
        cwd=PACKAGE.parent,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_name_of_the_shipped_zoo_is_refused_also_where_that_was_not_loaded(write):
    path = write('@model("resnet18")\ndef f(): ...\n')
    done = in_a_fresh_process(
        f"from compilegate.zoo.registry import load_file; load_file({str(path)!r})"
    )
    assert "model 'resnet18' is already defined in" in done.stderr


def test_listing_the_shipped_zoo_imports_no_torch():
    text = "import sys; from compilegate.zoo import registry; assert registry.load()"
    text += "; assert 'torch' not in sys.modules"
    done = in_a_fresh_process(text)
    assert done.returncode == 0, done.stderr
