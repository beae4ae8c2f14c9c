"""Devices: both implement the protocol, and nothing else names one of them."""

import inspect
import re
from pathlib import Path

import pytest
import torch

from compilegate.observe import host
from compilegate.observe.device import DEVICES, cuda, device, held_bytes, unsupported
from compilegate.observe.device.protocol import Allocator, Device, UnavailableError
from compilegate.records.case import AXES

OBSERVE = Path(host.__file__).parent
CPU = device("cpu")


def members(protocol):
    return protocol.__annotations__ | {
        name: value for name, value in vars(protocol).items() if inspect.isfunction(value)
    }


@pytest.mark.parametrize(
    ("protocol", "made"),
    [*((Device, made) for made in DEVICES.values()), (Allocator, cuda.CudaAllocator())],
)
def test_a_device_has_every_member_of_the_protocol_and_no_other(protocol, made):
    wanted = {name for name in members(protocol) if not name.startswith("_")}
    assert wanted == {name for name in dir(made) if not name.startswith("_")}
    for name in wanted:
        if inspect.isfunction(getattr(protocol, name, None)):
            ours, theirs = (inspect.signature(getattr(of, name)) for of in (protocol, type(made)))
            assert [*ours.parameters] == [*theirs.parameters]


def test_devices_and_case_ids_have_the_same_names():
    assert tuple(DEVICES) == AXES["device"]
    assert all(made.kind == kind for kind, made in DEVICES.items())


def test_only_the_package_device_names_cuda():
    named = [
        f"{path.relative_to(OBSERVE)}: {line.strip()}"
        for path in OBSERVE.rglob("*.py")
        if path.parent.name != "device"
        for line in path.read_text().splitlines()
        if re.search(r"torch\.cuda|\"cuda\"", line)
    ]
    assert named == []


def test_only_the_package_device_imports_the_module_of_a_device():
    imported = [
        path.name
        for path in OBSERVE.rglob("*.py")
        if path.parent.name != "device"
        and re.search(r"observe\.device\.(cuda|cpu)\b|device import (cuda|cpu)\b", path.read_text())
    ]
    assert imported == []


def test_a_gpu_is_synchronised_through_the_interface_of_all_accelerators(monkeypatch):
    """PyTorch 2.8 has these functions, and every accelerator has them."""
    asked = []
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: asked.append("synchronize"))
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 3)
    device("cuda").synchronize()
    assert asked == ["synchronize"]
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    assert device("cuda").initialized_index() == 3
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert device("cuda").initialized_index() is None


@pytest.mark.parametrize(("in_use", "held"), [(False, 0), (True, 700 + (1 << 30))])
def test_a_process_holds_memory_of_a_gpu_that_it_uses(monkeypatch, in_use, held):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: in_use)
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 0)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 700)
    assert held_bytes() == held


def test_the_processor_describes_itself():
    (found,) = CPU.describe()
    assert (found.kind, CPU.is_available()) == ("cpu", True)
    assert found.name
    assert found.memory_bytes > 2**28
    assert found.cores >= 1


def test_the_processor_has_no_sensors():
    assert not CPU.has_sensors
    with pytest.raises(UnavailableError, match="no sensors"):
        CPU.open_sensors()


def test_the_processor_s_generator_is_the_default_one():
    torch.manual_seed(3)
    state = CPU.generator_state()
    torch.rand(1)
    assert not torch.equal(CPU.generator_state(), state)
    torch.manual_seed(3)
    assert torch.equal(CPU.generator_state(), state)


def test_without_an_error_there_is_no_reason():
    assert unsupported.reason(None) == ""


@pytest.mark.parametrize("command", ["no-such-compiler", "false", "", "no-such-compiler g++"])
def test_a_compiler_that_cannot_be_run_is_none(monkeypatch, command):
    monkeypatch.setenv("CXX", command)
    assert host.environment().compiler == ""


def test_a_compiler_is_recorded_by_its_version(monkeypatch, tmp_path):
    program = tmp_path / "c++"
    program.write_text("#!/bin/sh\necho my compiler 7 $*\necho more\n")
    program.chmod(0o755)
    monkeypatch.setenv("CXX", f"{program} -x")
    assert host.environment().compiler == "my compiler 7 -x --version"


@pytest.mark.parametrize(
    ("requested", "seen"),
    [(100, 100), (0, 512)],
    ids=["PyTorch's allocator", "the driver's, which does not count it"],
)
def test_what_tensors_ask_for_is_less_than_they_occupy(monkeypatch, requested, seen):
    stats = {"allocated_bytes.all.current": 512, "requested_bytes.all.current": requested}
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda: stats)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 512)
    assert cuda.CudaAllocator().requested() == seen
