"""The fork server: what it does before it forks."""

import subprocess
import sys

import pytest
import torch

from compilegate.observe.device import cuda, device


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
