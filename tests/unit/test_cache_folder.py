"""Each instruction set has a cache of its own: code for another one crashes, or errs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compilegate.observe import cache_folder
from compilegate.processes.observer import Observer
from compilegate.processes.server_process import Launch
from compilegate.records.request import Request

#: Uses the folder as a child does, and has a process that it starts do the same.
CODE = """
import os, subprocess, sys
from compilegate.observe import cache_folder
cache_folder.use_own()
print(os.environ["TORCHINDUCTOR_CACHE_DIR"])
if sys.argv[1:]:
    print(subprocess.check_output([sys.executable, "-c", sys.argv[1]], text=True), end="")
"""
ZOO = """
import torch
from compilegate import Example, model

@model("halves")
def halves():
    half = torch.nn.Linear(6, 6)
    return Example(torch.nn.Sequential(half, torch.nn.Tanh()), inputs=lambda: (torch.randn(9, 6),))
"""


def folders(cache, **variables):
    """Return the folder that a process uses, and that of a process that it starts."""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(cache), **variables}
    words = [sys.executable, "-c", CODE, CODE]
    return subprocess.check_output(words, env=environment, text=True).splitlines()


def test_each_instruction_set_has_a_folder_that_nested_processes_keep(tmp_path):
    plain, nested = folders(tmp_path, ATEN_CPU_CAPABILITY="default")
    assert plain == nested
    assert Path(plain).parent == tmp_path
    assert " " not in Path(plain).name, "g++ takes a path with a blank for two"
    assert folders(tmp_path, ATEN_CPU_CAPABILITY="default") == [plain, plain]
    limited = folders(tmp_path, ATEN_CPU_CAPABILITY="default", ONEDNN_MAX_CPU_ISA="SSE41")
    assert len({plain, *limited}) == 2


@pytest.mark.parametrize(("capability", "is_same"), [("AVX512", True), ("NO AVX", False)])
def test_another_capability_has_another_folder(monkeypatch, tmp_path, capability, is_same):
    used = []
    for one in ("AVX512", capability):
        monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda one=one: one)
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
        cache_folder.use_own()
        used.append(cache_folder.in_use())
    assert (used[0] == used[1]) is is_same


def test_another_processor_has_another_folder(monkeypatch, tmp_path):
    used = []
    for flags in ("0123456789ab", "ba9876543210"):
        monkeypatch.setattr(cache_folder, "flags_digest", lambda flags=flags: flags)
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
        cache_folder.use_own()
        used.append(cache_folder.in_use())
    assert used[0] != used[1]


@pytest.mark.parametrize(("version", "is_apart"), [("2.12.1", True), ("2.13.0", False)])
def test_float16_is_apart_where_caches_do_not_know_the_dtype_of_autocast(
    monkeypatch, tmp_path, version, is_apart
):
    monkeypatch.setattr("torch.__version__", version)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    used = {}
    for precision in ("f32", "bf16", "f16"):
        with cache_folder.of_precision(precision):
            used[precision] = cache_folder.in_use()
        assert cache_folder.in_use() == tmp_path
    assert used["f32"] == used["bf16"] == tmp_path
    assert (used["f16"] != tmp_path) is is_apart


@pytest.mark.long
def test_children_compile_nothing_into_the_folder_that_instruction_sets_share(tmp_path):
    zoo = tmp_path / "halves.py"
    zoo.write_text(ZOO)
    cache = tmp_path / "cache"
    request = Request(case="halves-cpu-infer-f32-default-static", wants=("capture",))
    for capability in ("", "default"):
        variables = {"ATEN_CPU_CAPABILITY": capability} if capability else {}
        variables["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
        observer = Observer(Launch(zoo=(str(zoo),), environment=variables))
        try:
            seen = observer.observe(request, model="halves", device="cpu", timeout_s=120)
        finally:
            observer.close()
        assert seen.status == "completed", seen.failure
        assert not [error for call in seen.calls for error in call.outputs.differences]
    first, second = cache.iterdir()
    assert all([*folder.rglob("*.so")] for folder in (first, second))
