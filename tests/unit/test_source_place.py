"""How lines of source are named in graph breaks and recompilations."""

import inspect
import os
from pathlib import Path

import pytest
import torch

from compilegate.fixtures import tutorials
from compilegate.judging.budget import AllowedBreak
from compilegate.observe.capture import source_place
from compilegate.observe.capture.source_place import name_from, place
from compilegate.suites.test_graph_breaks import is_allowed
from compilegate.upgrade.fact_changes import of_breaks
from tests.unit.making import make_break, make_capture, make_place


@pytest.fixture(autouse=True)
def no_roots(monkeypatch):
    """No folder is known that the user's files are named from."""
    monkeypatch.setattr(source_place, "_roots", [])


@pytest.mark.parametrize(
    ("filename", "file", "owner"),
    [
        (torch.__file__, "torch/__init__.py", "torch"),
        (torch.nn.functional.__file__, "torch/nn/functional.py", "torch"),
        (pytest.__file__, "pytest/__init__.py", "pytest"),
        (__file__, "test_source_place.py", "model"),
        ("/somewhere/else/net.py", "net.py", "model"),
        ("<string>", "<string>", "model"),
    ],
)
def test_places_read_the_same_on_every_machine(filename, file, owner):
    seen = place(filename, 3, "f")
    assert (seen.file, seen.line, seen.function, seen.owner) == (file, 3, "f", owner)


def test_the_standard_library_is_pythons():
    seen = place(inspect.__file__, 3, "f")
    assert seen.owner == "python"
    assert seen.file.endswith("inspect.py")
    assert not seen.file.startswith("/")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a zoo file in a folder of its own, and code elsewhere."""
    monkeypatch.chdir(tmp_path / "..")
    return tmp_path


def test_a_file_of_the_user_is_named_from_the_root_of_the_project(project):
    name_from(str(project), [str(project / "zoo" / "mine.py")])
    seen = place(str(project / "my_net" / "routing.py"), 3, "f")
    assert (seen.file, seen.owner) == ("my_net/routing.py", "model")
    found = make_break(place=seen)
    assert is_allowed(found, AllowedBreak(place="my_net/routing.py"))
    assert not is_allowed(found, AllowedBreak(place="their_net/routing.py"))


def test_without_a_root_a_file_is_named_from_the_folder_of_the_zoo_file(project):
    name_from("", [str(project / "mine.py")])
    assert place(str(project / "my_net" / "routing.py"), 3, "f").file == "my_net/routing.py"


def test_without_a_zoo_file_a_file_is_named_from_the_current_folder(project, monkeypatch):
    monkeypatch.chdir(project)
    name_from("", [])
    assert place(str(project / "my_net" / "routing.py"), 3, "f").file == "my_net/routing.py"


def test_a_root_behind_a_symbolic_link_names_files_by_either_path(project):
    os.symlink(project, project / "link")
    name_from(str(project / "link"), [])
    for folder in (project, project / "link"):
        assert place(str(folder / "net.py"), 3, "f").file == "net.py"


def test_an_installed_package_inside_the_project_is_no_code_of_the_user():
    name_from(str(Path(torch.__file__).parents[4]), [])
    assert place(torch.__file__, 3, "f").owner == "torch"


def test_a_torch_that_a_path_file_lends_is_torch(monkeypatch):
    monkeypatch.setattr("site.getsitepackages", list)
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"purelib": "/elsewhere"})
    source_place._packages.cache_clear()
    try:
        assert place(torch.__file__, 3, "f").owner == "torch"
    finally:
        source_place._packages.cache_clear()


def test_a_recipe_of_the_shipped_zoo_goes_by_its_name_alone():
    name_from(str(Path(tutorials.__file__).parents[2]), [])
    for path in (Path(tutorials.__file__), Path(tutorials.__file__).resolve()):
        assert place(str(path), 3, "f").file == "tutorials.py"


def test_a_break_is_the_same_where_an_earlier_run_holds_no_folder():
    def capture(file):
        return make_capture(breaks=(make_break(place=make_place(file=file)),))

    assert list(of_breaks(capture("routing.py"), capture("my_net/routing.py"))) == []
    changes = of_breaks(capture("routing.py"), capture("my_net/experts.py"))
    assert [change.effect for change in changes] == ["worse", "better"]
