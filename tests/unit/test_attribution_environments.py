"""An environment between two is the version in use with some distributions of the candidate."""

import os
import py_compile
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from compilegate.processes.child_process import ObserverError
from compilegate.upgrade.attribution import distributions, environments
from compilegate.upgrade.attribution.environments import Environments
from compilegate.upgrade.attribution.index import MakingError
from tests.venvs import SITE, install, make_venv, make_wheel

WHAT = """
import importlib.util as u, importlib.metadata as m
for name in ("gadget", "widget", "added", "removed"):
    there = u.find_spec(name)
    print(name, m.version(name), __import__(name).VALUE) if there else print(name, "absent")
"""


def value(number):
    return f"VALUE = {number}\n"


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Two environments that differ in four distributions."""
    old, new = (tmp_path_factory.mktemp("venvs") / side for side in ("old", "new"))
    for folder in (old, new):
        make_venv(folder)
        install(folder, "same", "1.0", value(0))
    install(old, "gadget", "1.0", value(1))
    install(new, "gadget", "2.0", value(2))
    install(old, "widget", "1.0", value(1))
    install(new, "widget", "2.0", value(2))
    install(old, "removed", "1.0", value(1))
    install(new, "added", "2.0", value(2))
    (old / SITE / "by_hand.py").write_text(value(9))
    return old, new


@pytest.fixture
def made(both, tmp_path):
    """Makes environments between the two."""
    before, now = (distributions.installed(str(side / "bin" / "python")) for side in both)
    return Environments(tmp_path / "kept", before, now, distributions.changes(before, now))


def run(python, code=WHAT):
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def test_what_differs_is_what_one_lacks_or_has_in_another_version(made):
    assert {name: str(change) for name, change in made.changes.items()} == {
        "added": "added none → 2.0",
        "gadget": "gadget 1.0 → 2.0",
        "removed": "removed 1.0 → none",
        "widget": "widget 1.0 → 2.0",
    }


def test_only_the_named_distributions_are_the_candidates(made):
    python = made.python_with(frozenset({"gadget"}))
    assert run(python) == ["gadget 2.0 2", "widget 1.0 1", "added absent", "removed 1.0 1"]
    assert run(python, "import by_hand, same; print(by_hand.VALUE, same.VALUE)") == ["9 0"]


def test_a_distribution_can_be_added_and_removed(made):
    python = made.python_with(frozenset({"added", "removed"}))
    assert run(python) == ["gadget 1.0 1", "widget 1.0 1", "added 2.0 2", "removed absent"]


def test_without_a_change_it_is_a_copy(made, both):
    assert run(made.python_with(frozenset())) == run(str(both[0] / "bin" / "python"))


def test_files_are_linked_and_the_originals_stay(made, both):
    python = made.python_with(frozenset({"gadget"}))
    site = Path(python).parents[1] / SITE
    assert os.path.samefile(site / "by_hand.py", both[0] / SITE / "by_hand.py")
    assert os.path.samefile(site / "gadget/__init__.py", both[1] / SITE / "gadget/__init__.py")
    assert (both[0] / SITE / "gadget/__init__.py").read_text() == value(1)


def test_links_to_nothing_and_to_a_parent_are_left_out(made, both, request):
    site = both[0] / SITE
    for name, target in ((".#edited.py", "gone"), ("loop", site)):
        (site / name).symlink_to(target)
        request.addfinalizer((site / name).unlink)
    made_site = Path(made.python_with(frozenset())).parents[1] / SITE
    assert (made_site / "by_hand.py").exists()
    assert not (made_site / "loop").exists()
    assert not (made_site / ".#edited.py").is_symlink()


def test_bytecode_of_an_exchanged_module_is_left_behind(made, both):
    """Both sources have one size and may have one time, so Python would take the bytecode."""
    sources = [side / SITE / "gadget" / "__init__.py" for side in both]
    for source in sources:
        os.utime(source, (10**9, 10**9))
    py_compile.compile(str(sources[0]), doraise=True)
    assert run(str(both[0] / "bin" / "python"))[0] == "gadget 1.0 1"
    assert run(made.python_with(frozenset({"gadget"})))[0] == "gadget 2.0 2"


def test_an_environment_is_kept_and_used_again(made):
    first = made.python_with(frozenset({"gadget"}))
    seen = os.stat(first).st_ctime_ns
    assert made.python_with(frozenset({"gadget"})) == first
    assert os.stat(first).st_ctime_ns == seen
    assert made.python_with(frozenset({"widget"})) != first
    assert (made.folder / ".gitignore").read_text() == "*\n"
    assert "gadget 1.0 → 2.0" in (Path(first).parents[1] / "changes.txt").read_text()


def test_a_patched_file_makes_another_environment(made, both):
    first = made.python_with(frozenset({"gadget"}))
    source = both[0] / SITE / "by_hand.py"
    source.unlink()
    source.write_text(value(9))
    assert made.python_with(frozenset({"gadget"})) != first


def test_an_interrupted_environment_is_not_used(made, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(environments, "_place", stop)
        with pytest.raises(KeyboardInterrupt):
            made.python_with(frozenset({"gadget"}))
    assert [path.name for path in made.folder.iterdir()] == [".gitignore"]
    assert run(made.python_with(frozenset({"gadget"})))[0] == "gadget 2.0 2"


def test_what_a_killed_session_left_is_removed(made):
    left = made.folder / ".making-999999999-x"
    left.mkdir(parents=True)
    made.python_with(frozenset({"gadget"}))
    assert not left.exists()


def test_files_are_copied_where_they_cannot_be_linked(made, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    assert run(made.python_with(frozenset({"gadget"})))[0] == "gadget 2.0 2"


def test_a_full_disk_is_refused_beforehand(made, monkeypatch):
    monkeypatch.setattr(environments, "RESERVE", 2**60)
    with pytest.raises(MakingError, match=r"GiB free; an environment needs 0\.0 GiB.*Free some"):
        made.python_with(frozenset({"gadget"}))
    assert not [path for path in made.folder.iterdir() if path.is_dir()]


def test_a_distribution_without_a_list_of_files_cannot_be_exchanged(made):
    found = {**made.now.distributions}
    found["gadget"] = replace(found["gadget"], record="")
    lacking = replace(made, now=replace(made.now, distributions=found))
    assert re.search(r"no list of its files .*pip or uv", lacking.obstacle("gadget"))
    assert not lacking.obstacle("widget")


def test_what_conda_installed_cannot_be_exchanged(made):
    found = {name: replace(d, installer="conda") for name, d in made.before.distributions.items()}
    conda = replace(made, before=replace(made.before, distributions=found))
    assert "conda installed it in the version in use" in conda.obstacle("gadget")


def test_links_to_files_of_a_containers_image_count_as_copies(made, monkeypatch):
    """The file system copies such a file when it is linked."""
    seen = []
    monkeypatch.setattr(environments, "_is_overlay", lambda device: seen.append(device) or True)
    monkeypatch.setattr(environments, "RESERVE", 2**60)
    monkeypatch.setattr(environments, "_can_link", lambda *_: pytest.fail("it was not asked"))
    with pytest.raises(MakingError, match="GiB free"):
        made.python_with(frozenset({"gadget"}))
    assert seen


def test_a_distribution_outside_the_environment_cannot_be_exchanged(made):
    elsewhere = replace(made, before=replace(made.before, folders=("/elsewhere",)))
    assert "outside its own site-packages" in elsewhere.obstacle("gadget")
    assert not elsewhere.obstacle("added")


def test_an_index_provides_what_is_for_another_python(made, tmp_path, monkeypatch):
    other = replace(made, now=replace(made.now, python=(3, 99, 0)))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")  # without uv
    with pytest.raises(MakingError, match=r"(?s)cannot install gadget==2\.0.*one version of Py"):
        other.python_with(frozenset({"gadget"}))
    make_wheel(tmp_path, "gadget", "2.0", value(3))
    assert run(other.python_with(frozenset({"gadget"})))[0] == "gadget 2.0 3"


def test_an_editable_distribution_is_on_no_index(made):
    found = {name: replace(d, is_editable=True) for name, d in made.now.distributions.items()}
    editable = replace(made, now=replace(made.now, distributions=found))
    assert not editable.obstacle("gadget")
    other = replace(editable, now=replace(editable.now, python=(3, 99, 0)))
    assert "it is editable" in other.obstacle("gadget")


def test_an_interpreter_that_does_not_answer_is_named():
    with pytest.raises(ObserverError, match="/bin/false could not list"):
        distributions.installed("/bin/false")
    with pytest.raises(ObserverError, match="cannot run /nowhere/python: No such file"):
        distributions.installed("/nowhere/python")


def test_an_interpreter_that_hangs_is_not_waited_for(tmp_path, monkeypatch):
    hanging = tmp_path / "python"
    hanging.write_text("#!/bin/sh\nexec sleep 60\n")
    hanging.chmod(0o755)
    monkeypatch.setattr(distributions, "_TIMEOUT_S", 0.2)
    with pytest.raises(ObserverError, match=r"not listed its distributions in 0\.2 s"):
        distributions.installed(str(hanging))
