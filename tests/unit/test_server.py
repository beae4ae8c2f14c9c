"""The fork server: what it does before it forks."""

import subprocess
import sys

import pytest
import torch

from compilegate.observe.device import cuda, device
from compilegate.processes.observer import Observer
from compilegate.processes.server_process import Launch
from compilegate.records.request import Request

FROZEN = """
import gc
import torch
from compilegate import Example, model

@model("frozen")
def frozen():
    assert gc.get_freeze_count() > 100_000  # objects
    return Example(torch.nn.Linear(2, 2), inputs=(torch.ones(3, 2),))
"""


def asks_the_runtime(*_):
    raise AssertionError("the CUDA runtime was asked in the process that forks")


@pytest.fixture
def driver(monkeypatch, tmp_path):
    """Let the machine have a driver."""
    monkeypatch.setenv("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    monkeypatch.setattr(cuda, "_DRIVER", tmp_path)
    monkeypatch.setattr(torch.cuda, "_cached_device_count", None)


@pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="PyTorch without CUDA")
def test_another_process_counts_the_gpus_that_nvml_does_not_count(monkeypatch, driver):
    code = "import torch; print(torch.cuda.device_count())"
    there = int(subprocess.check_output([sys.executable, "-c", code]))
    monkeypatch.setattr(torch.cuda, "_device_count_nvml", lambda: -1)
    monkeypatch.setattr(torch._C, "_cuda_getDeviceCount", asks_the_runtime, raising=False)
    device("cuda").prepare_to_fork()
    assert torch.cuda.device_count() == there
    assert torch.cuda.is_available() == (there > 0)


def test_nvml_counts_the_gpus_where_it_can(monkeypatch, driver):
    monkeypatch.setattr(torch.cuda, "_device_count_nvml", lambda: 1)
    monkeypatch.setattr(subprocess, "run", asks_the_runtime)
    device("cuda").prepare_to_fork()
    assert torch.cuda._cached_device_count is None


def test_no_collection_in_a_child_searches_what_the_server_imported(tmp_path):
    zoo = tmp_path / "frozen_zoo.py"
    zoo.write_text(FROZEN)
    observer = Observer(Launch(zoo=(str(zoo),)))
    case = "frozen-cpu-infer-f32-default-static"
    request = Request(case=case, wants=("capture",), backend="eager")
    try:
        observed = observer.observe(request, model="frozen", device="cpu", timeout_s=120)
    finally:
        observer.close()
    assert observed.status == "completed", observed.failure
