"""A suite that is outside of pytest's root directory is judged and recorded as any other."""

import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from compilegate.layout import SUITES
from compilegate.session.collection import suite_outside

ZOO = ("--zoo", "tests/zoos/faulty.py", "--models", "breaks", "-m", "cpu", "--save", "far")


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "workers"])
def test_a_suite_that_an_argument_names_is_recorded(compilegate, tmp_path, workers):
    root = ("--rootdir", str(tmp_path))
    session = compilegate("suites/test_graph_breaks.py", *root, *ZOO, *workers, backend="eager")
    assert session.status == 1, session.output
    assert "run file: " in session.output
    run = session.run("far")
    assert run.closing is not None
    assert {aspect for _, aspect in run.verdicts} == {"graph_breaks"}


def test_a_copy_of_a_suite_is_refused_and_the_message_names_the_suites(tmp_path):
    shutil.copy(SUITES / "test_graph_breaks.py", tmp_path)
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["compilegate.plugin"]\n')
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_graph_breaks.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "test_graph_breaks.py is a copy of a suite. Run those of the" in done.stdout
    assert f"pytest {SUITES}" in done.stdout
    assert "KeyError" not in done.stdout


def test_files_that_are_no_suites_or_inside_keep_their_ids(tmp_path):
    outside = SimpleNamespace(config=SimpleNamespace(rootpath=tmp_path))
    assert suite_outside(tmp_path.parent / "test_graph_breaks.py", outside) is None
    inside = SimpleNamespace(config=SimpleNamespace(rootpath=SUITES.parent))
    assert suite_outside(SUITES / "test_graph_breaks.py", inside) is None
