"""Tests of a user's zoo file: its models, its imports, and one sentence for each mistake."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

from compilegate import fixtures
from compilegate.layout import PACKAGE
from compilegate.zoo import registry as zoo
from compilegate.zoo.registry import ZooError, load_file, load_with

pytestmark = pytest.mark.usefixtures("registry")


@pytest.fixture
def write(tmp_path):
    def write(text, name="zoo_of_mine.py"):
        path = tmp_path / name
        path.write_text("from compilegate import Example, model\n" + textwrap.dedent(text))
        return path

    return write


def test_load_file_returns_the_models_of_a_file_in_order(write):
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


def test_a_model_that_a_helper_defines_belongs_to_the_file_that_was_loaded(write):
    helper = """
        def define(name):
            model(name)(lambda: Example(abs))
        """
    helped = write(helper, "helper_of_mine.py")
    path = write("import helper_of_mine\nhelper_of_mine.define('helped')\n")
    (entry,) = load_file(path)
    assert entry.source == str(helped)
    assert zoo.file_of(entry) == str(path)
    assert zoo.file_of(zoo.load()["mlp"]).endswith("tutorials.py")


def test_load_file_accepts_a_relative_path_as_text(write, monkeypatch):
    path = write('model("mine")(lambda: Example(abs))\n')
    monkeypatch.chdir(path.parent)
    assert [entry.name for entry in load_file("zoo_of_mine.py")] == ["mine"]


def test_a_file_that_is_written_twice_in_one_second_is_read_twice(write, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    found = []
    for name in ("ant", "bee"):
        path = write(f'model("{name}")(lambda: Example(abs))\n')
        os.utime(path, (1e9, 1e9))
        found += [entry.name for entry in load_file(path)]
    assert found == ["ant", "bee"]


def test_a_file_without_models_is_accepted(write):
    assert load_file(write("")) == []
    assert load_with([write("")]) == zoo.load()


def test_a_file_without_models_is_refused_where_the_caller_needs_one(write):
    with pytest.raises(ZooError) as refused:
        load_file(write(""), must_define_model=True)
    message = 'zoo_of_mine.py:1: the file defines no model: decorate a builder with @model("name")'
    assert str(refused.value) == message
    assert load_file(write("model('a')(lambda: Example(abs))\n"), must_define_model=True)


def test_a_file_can_import_its_neighbours(write, tmp_path):
    (tmp_path / "zoo_of_helpers.py").write_text("name = 'helped'\n")
    path = write("import zoo_of_helpers\nmodel(zoo_of_helpers.name)(lambda: Example(abs))\n")
    assert [entry.name for entry in load_file(path)] == ["helped"]


def test_a_builder_can_import_a_neighbour_when_it_runs(write, tmp_path):
    (tmp_path / "zoo_of_lazy.py").write_text("def net(x):\n    return x\n")
    path = write(
        """
        @model("mine")
        def mine():
            import zoo_of_lazy
            return Example(zoo_of_lazy.net)
        """
    )
    (entry,) = load_file(path)
    assert entry.example("cpu").module.__module__ == "zoo_of_lazy"
    assert sys.path[-1] == str(tmp_path)


def test_the_folder_of_two_files_is_added_to_the_path_once(write, tmp_path):
    load_file(write(""))
    load_file(write("", name="zoo_of_yours.py"))
    assert sys.path.count(str(tmp_path)) == 1


def test_a_neighbour_named_like_an_installed_package_does_not_hide_it(write, tmp_path):
    (tmp_path / "colorsys.py").write_text("raise RuntimeError\n")
    sys.modules.pop("colorsys", None)
    load_file(write("import colorsys\nmodel('mine')(lambda: Example(abs))\n"))


def test_the_classes_of_a_file_are_found_in_their_module(write):
    """Dynamo and pickle look up a class in ``sys.modules``."""
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


def test_a_file_named_like_a_loaded_module_does_not_replace_it(write):
    path = write('model("mine")(lambda: Example(abs))\n', name="json.py")
    assert [entry.name for entry in load_file(path)] == ["mine"]
    assert sys.modules["json"] is json


def test_two_files_of_one_name_both_add_their_models(write, tmp_path):
    first = write('model("one")(lambda: Example(abs))\n')
    (tmp_path / "sub").mkdir()
    second = write('model("two")(lambda: Example(abs))\n', name="sub/zoo_of_mine.py")
    assert [entry.name for entry in (*load_file(first), *load_file(second))] == ["one", "two"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('\n@model("My")\ndef f(): ...\n', r"zoo_of_mine\.py:3: model name 'My'"),
        (
            '@model("resnet18")\ndef f(): ...\n',
            r"zoo_of_mine\.py:2: model 'resnet18' is already defined in .*convnets\.py:\d+; choose",
        ),
        (
            '@model("a")\ndef f(): ...\n@model("a")\ndef g(): ...\n',
            r"zoo_of_mine\.py:4: model 'a' is already defined in .*zoo_of_mine\.py:2; choose",
        ),
        ('@model("a", vary={"b": (1,)})\ndef f(): ...\n', r"zoo_of_mine\.py:2: sizes of 'b'"),
        (
            '@model("a", settings=("train-fp32-*",))\ndef f(): ...\n',
            r"zoo_of_mine\.py:2: settings 'train-fp32-\*' matches no .*did you mean 'f32'",
        ),
        (
            '@model("a", settings="train-f32-static")\ndef f(): ...\n',
            r"zoo_of_mine\.py:2: settings 'train-f32-static' matches no setting$",
        ),
    ],
)
def test_a_wrong_definition_in_a_file_is_refused_with_its_line(write, text, message):
    with pytest.raises(ZooError, match=message):
        load_file(write(text))


CANNOT = "cannot import the zoo file zoo_of_mine.py: "


OLD = (
    f"{CANNOT}zoo_of_mine.py:2 imports fixtures.zoo, which does not exist; "
    "write: from compilegate import Call, Example, model"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "\nimport zoo_of_nobody\n",
            "ModuleNotFoundError: No module named 'zoo_of_nobody' at zoo_of_mine.py:3",
        ),
        ("def f():\n    return 1 / 0\n\nf()\n", "ZeroDivisionError: division by zero at "
         "zoo_of_mine.py:3"),
        ("def f(:\n", "SyntaxError: invalid syntax at zoo_of_mine.py:2"),
        ("raise ValueError('one\\ntwo')\n", "ValueError: one at zoo_of_mine.py:2"),
        ("raise ValueError\n", "ValueError at zoo_of_mine.py:2"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3 at zoo_of_mine.py:3"),
        ("import json\njson.loads('')\n", "JSONDecodeError: Expecting value: line 1 column 1 "
         "(char 0) at zoo_of_mine.py:3"),
        ("model(3)(lambda: Example(abs))\n", "TypeError: expected string or bytes-like object, "
         "got 'int' at zoo_of_mine.py:2"),
    ],
)  # fmt: skip
def test_a_file_that_raises_is_refused_in_one_sentence_with_the_users_own_line(
    write, text, message
):
    with pytest.raises(ZooError) as refused:
        load_file(write(text))
    assert str(refused.value) == CANNOT + message


@pytest.mark.parametrize(
    "file",
    ["acme_nets/__init__.py", "acme_nets.py", "acme_nets.txt", "src/acme_nets/__init__.py"],
)
def test_a_missing_package_of_the_user_comes_with_the_way_to_import_it(
    write, file, tmp_path, monkeypatch
):
    project = tmp_path / "project"
    (project / file).parent.mkdir(parents=True)
    (project / file).touch()
    monkeypatch.chdir(project)
    with pytest.raises(ZooError) as refused:
        load_file(write("import acme_nets\n"))
    found = project / "src" if file.startswith("src/") else project
    way_out = (
        f"; it is in {found}: pip install -e it, or name that folder in pytest's setting pythonpath"
    )
    assert str(refused.value).endswith(way_out) is not file.endswith(".txt")


@pytest.mark.parametrize(
    "end", ["raise ValueError", "import sys; sys.exit()", 'model("My")(lambda: Example(abs))']
)
def test_a_refused_file_leaves_nothing_and_can_be_corrected(write, registry, end):
    before = dict(registry)
    half = 'model("half")(lambda: Example(abs))\n'
    with pytest.raises(ZooError):
        load_file(write(half + end + "\n"))
    assert registry == before
    assert "zoo_of_mine" not in sys.modules
    assert [entry.name for entry in load_file(write(half))] == ["half"]
    assert "zoo_of_mine" in sys.modules


def test_a_refused_file_named_like_a_loaded_module_leaves_that_module(write):
    with pytest.raises(ZooError):
        load_file(write("raise ValueError\n", name="json.py"))
    assert sys.modules["json"] is json


def test_a_shipped_family_that_cannot_be_imported_leaves_nothing(write, registry, monkeypatch):
    path = write('model("half")(lambda: Example(abs))\nraise ValueError("half")\n')
    family = "compilegate.fixtures.zoo_of_mine"
    monkeypatch.setattr(zoo, "FAMILIES", ["zoo_of_mine"])
    monkeypatch.setattr(fixtures, "__path__", [str(path.parent)])
    before = dict(registry)
    with pytest.raises(ValueError, match="half"):
        zoo.load()
    assert registry == before
    assert family not in sys.modules


def test_an_error_in_a_neighbour_is_placed_there(write, tmp_path):
    (tmp_path / "zoo_of_parts").mkdir()
    (tmp_path / "zoo_of_parts" / "nets.py").write_text("\n\nimport zoo_of_nobody\n")
    with pytest.raises(ZooError, match=r"'zoo_of_nobody' at zoo_of_parts/nets\.py:3$"):
        load_file(write("import zoo_of_parts.nets\n"))


@pytest.mark.parametrize(
    "text",
    [
        "from fixtures.zoo import Example, model",
        "from fixtures.zoo import (\n    Example,\n    model,\n)",
        "from fixtures.zoo.example import Call",
        "import fixtures.zoo",
        "from fixtures import zoo",
    ],
)
def test_an_import_from_the_old_place_is_refused_with_the_new_one(write, text, monkeypatch):
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", str(PACKAGE.parent))])
    monkeypatch.delitem(sys.modules, "fixtures", raising=False)
    with pytest.raises(ZooError) as refused:
        load_file(write(text + "\n"))
    assert str(refused.value) == OLD


@pytest.mark.parametrize(
    "text", ["from fixtures.zoo import model", "import fixtures.zoo", "from fixtures import zoo"]
)
def test_an_import_from_the_old_place_is_refused_where_a_package_fixtures_exists(
    write, text, monkeypatch, tmp_path
):
    (tmp_path / "theirs" / "fixtures").mkdir(parents=True)
    (tmp_path / "theirs" / "fixtures" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "theirs")
    monkeypatch.delitem(sys.modules, "fixtures", raising=False)
    with pytest.raises(ZooError) as refused:
        load_file(write(text + "\n"))
    assert str(refused.value) == OLD
    monkeypatch.delitem(sys.modules, "fixtures", raising=False)
    with pytest.raises(ZooError, match=r"cannot import name 'zebra' from 'fixtures'"):
        load_file(write("from fixtures import zebra\n"))


@pytest.mark.parametrize("folder", ["fixtures", "zoo_of_fixtures"])
def test_another_missing_module_is_not_mistaken_for_fixtures_zoo(write, folder, monkeypatch):
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", str(PACKAGE.parent))])
    monkeypatch.delitem(sys.modules, "fixtures", raising=False)
    with pytest.raises(ZooError, match=f"No module named '{folder}' at zoo_of_mine.py:2"):
        load_file(write(f"import {folder}.mine\n"))


def test_a_file_that_is_not_python_is_refused(tmp_path):
    (tmp_path / "zoo.toml").touch()
    with pytest.raises(
        ZooError, match=r"zoo\.toml is not a Python file: its name must end in \.py"
    ):
        load_file(tmp_path / "zoo.toml")


def in_a_fresh_process(text):
    return subprocess.run(
        [sys.executable, "-c", text],
        cwd=PACKAGE.parent,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_name_of_the_shipped_zoo_is_refused_in_a_fresh_process(write):
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
