"""A bisection that the user began, and gave up, changes nothing that compilegate observes."""

import os
import shutil

import pytest

from compilegate.processes.observer import Observer
from compilegate.processes.server_process import Launch
from compilegate.records.request import Request
from compilegate.triage.scripts import running

pytestmark = pytest.mark.long

ZOO = """
import torch
from compilegate import Example, model

@model("sine")
def sine():
    return Example(torch.nn.Tanh(), inputs=(torch.ones(3),))
"""
SCRIPT = """
from torch._inductor.compiler_bisector import CompilerBisector as bisector
raise SystemExit(bisector.get_backend() != {expected!r})
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Inductor's cache, which finds the instructions of the processor once for all tests."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(params=["", "file", "variable"])
def left(request, monkeypatch, cache):
    """The folder of a bisection that is at another backend, or of none."""
    folder = cache / "bisect"
    folder.mkdir()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache))
    if request.param == "file":
        (folder / "bisect_status.txt").write_text("backend=eager\n")
    elif request.param == "variable":
        monkeypatch.setenv("TORCH_BISECT_BACKEND", "eager")
    yield folder
    shutil.rmtree(folder)


def test_children_compile_with_the_backend_that_is_asked_for(left, tmp_path):
    zoo = tmp_path / "sines.py"
    zoo.write_text(ZOO)
    before = {file.name: file.read_text() for file in left.iterdir()}
    observer = Observer(Launch(zoo=(str(zoo),)))
    request = Request(case="sine-cpu-infer-f32-default-static", wants=("capture",))
    try:
        seen = observer.observe(request, model="sine", device="cpu", timeout_s=120)
    finally:
        observer.close()
    assert seen.capture is not None
    assert seen.capture.lowered, seen.failure
    assert {file.name: file.read_text() for file in left.iterdir()} == before


def test_torch_by_itself_obeys_it(left, tmp_path):
    """The other side: without this, a script or a child would compile with ``eager``."""
    expected = "eager" if os.listdir(left) or "TORCH_BISECT_BACKEND" in os.environ else None
    script = tmp_path / "asks.py"
    script.write_text(SCRIPT.format(expected=expected))
    done = running._run([str(script)], tmp_path, float("inf"), {**os.environ}, 120)
    assert done.status == 0, done.output


def test_scripts_have_none(left, tmp_path):
    script = tmp_path / "asks.py"
    script.write_text(SCRIPT.format(expected=None))
    done = running.run([str(script)], tmp_path, float("inf"), {}, hangs_s=120)
    assert done.status == 0, done.output
