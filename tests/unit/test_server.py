"""The fork server, as far as a process can be looked at that never forks."""

import subprocess
import sys

import pytest
import torch

from compilegate.observe import server


def spoils(*_):
    raise AssertionError("the CUDA runtime was asked in the process that forks")


@pytest.fixture
def driver(monkeypatch, tmp_path):
    """A machine with a driver."""
    monkeypatch.setenv("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    monkeypatch.setattr(server, "_DRIVER", tmp_path)
    monkeypatch.setattr(torch.cuda, "_cached_device_count", None)


@pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="PyTorch without CUDA")
def test_gpus_that_nvml_does_not_count_are_counted_elsewhere(monkeypatch, driver):
    code = "import torch; print(torch.cuda.device_count())"
    there = int(subprocess.check_output([sys.executable, "-c", code]))
    monkeypatch.setattr(torch.cuda, "_device_count_nvml", lambda: -1)
    monkeypatch.setattr(torch._C, "_cuda_getDeviceCount", spoils, raising=False)
    server._count_gpus()
    assert torch.cuda.device_count() == there
    assert torch.cuda.is_available() == (there > 0)


def test_gpus_that_nvml_counts_are_left_to_it(monkeypatch, driver):
    monkeypatch.setattr(torch.cuda, "_device_count_nvml", lambda: 1)
    monkeypatch.setattr(subprocess, "run", spoils)
    server._count_gpus()
    assert torch.cuda._cached_device_count is None
