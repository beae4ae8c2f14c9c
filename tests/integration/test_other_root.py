"""A suite that is outside of pytest's root directory is judged and recorded as any other."""

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


def test_files_that_are_no_suites_or_inside_keep_their_ids(tmp_path):
    outside = SimpleNamespace(config=SimpleNamespace(rootpath=tmp_path))
    assert suite_outside(tmp_path.parent / "test_graph_breaks.py", outside) is None
    inside = SimpleNamespace(config=SimpleNamespace(rootpath=SUITES.parent))
    assert suite_outside(SUITES / "test_graph_breaks.py", inside) is None
