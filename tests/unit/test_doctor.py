"""``compilegate doctor``: what is there is OK, and what is missing has a way out."""

import json
import os
import platform
import subprocess
import sys
import time
import venv
from types import SimpleNamespace

import pytest

from compilegate.doctor import gpu, host, interpreter
from compilegate.records.environment import Device
from tests.unit.making import make_environment
from tests.unit.reading_commands import run_command

H200 = Device(kind="cuda", name="NVIDIA H200", memory_bytes=2**37, capability="9.0")


class NVMLError(Exception):
    pass


class Nvml:
    """A GPU that is idle and cool, but for what is changed."""

    NVMLError = NVMLError
    NVML_CLOCK_SM = 1

    def __init__(self, **answers):
        self.answers = {
            "nvmlInit": None,
            "nvmlSystemGetDriverVersion": "580.65",
            "nvmlSystemGetCudaDriverVersion_v2": 13020,
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": "handle",
            "nvmlDeviceGetName": "NVIDIA H200",
            "nvmlDeviceGetComputeRunningProcesses": [],
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=0),
            "nvmlDeviceGetClockInfo": 345,
            "nvmlDeviceGetMaxClockInfo": 1980,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 0x01,  # idle, which holds clocks down
        } | answers

    def __getattr__(self, name):
        def query(*_):
            if isinstance(self.answers[name], Exception):
                raise self.answers[name]
            return self.answers[name]

        return query


def missing(checks):
    return {check.name: check for check in checks if not check.is_there}


def test_a_compiler_that_works_is_named():
    found = host.compiler()
    assert found.is_there
    assert "++" in found.text


def test_without_a_compiler_the_way_out_is_to_install_one(monkeypatch, tmp_path):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = host.compiler()
    assert not found.is_there
    assert "g++ is not on the path" in found.text
    assert found.way_out == "install g++ or set CXX"


def test_a_folder_that_inductor_cannot_name_to_the_compiler_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "a blank"))
    found = host.compiler()
    assert not found.is_there
    assert "a blank" in found.text
    assert found.way_out.startswith("set TORCHINDUCTOR_CACHE_DIR to a folder without blanks")


def test_a_compiler_that_cannot_compile_is_missing(monkeypatch):
    monkeypatch.setenv("CXX", "g++ --no-such-option")
    found = host.compiler()
    assert not found.is_there
    assert "no-such-option" in found.text


def test_room_on_the_disk(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert not missing(host.disk(0.001))
    assert set(missing(host.disk(1e9))) == {"disk", "temporary files"}


@pytest.mark.parametrize(("free_gib", "has_room"), [(12, False), (24, True)])
def test_two_environments_of_the_default_wheels_need_room(monkeypatch, free_gib, has_room):
    free = SimpleNamespace(free=free_gib * 2**30)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: free)
    assert bool(missing(host.disk(host.DISK_GIB["cpu"]))) is not has_room


def test_the_system_s_interpreter_is_no_environment_of_its_own(monkeypatch):
    monkeypatch.setattr(sys, "prefix", "/some/where")
    assert host.virtual_environment().is_there
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    assert "python3 -m venv" in host.virtual_environment().way_out


def test_an_old_python_is_missing(monkeypatch):
    monkeypatch.setattr(platform, "python_version", lambda: "3.13.1")
    assert host.python().is_there
    monkeypatch.setattr(sys, "version_info", (3, 10, 1))
    assert "install Python 3.11" in host.python().way_out


def test_a_python_that_makes_guards_slow_is_to_be_replaced(monkeypatch):
    monkeypatch.setattr(platform, "python_version", lambda: "3.13.0")
    assert "install Python 3.13.1" in host.python().way_out


def test_another_session_s_work_makes_the_processor_busy():
    busy = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(busy, start_new_session=True) for _ in os.sched_getaffinity(0)]
    try:
        found = host.idle_processor()
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert not found.is_there, found


def test_a_processor_that_others_hardly_use_is_idle(monkeypatch):
    cores, clock = len(os.sched_getaffinity(0)), time.monotonic
    monkeypatch.setattr(host, "_idle_s", lambda: 0.9 * cores * clock())
    assert host.idle_processor().is_there


def test_a_registry_has_torch_or_is_missing(monkeypatch, tmp_path):
    (tmp_path / "torch").mkdir()
    wheel = '<a href="torch-2.15.0-py3-none-any.whl">torch-2.15.0-py3-none-any.whl</a>'
    (tmp_path / "torch" / "index.html").write_text(wheel)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    found = host.registry(f"file://{tmp_path}")
    assert found.is_there, found
    assert "torch (2.15.0)" in found.text
    found = host.registry("http://127.0.0.1:9/simple")
    assert not found.is_there
    assert "PIP_INDEX_URL" in found.way_out


def test_an_environment_without_pip_is_named_and_not_the_network(monkeypatch, tmp_path):
    venv.create(tmp_path, with_pip=False)  # as one of uv
    python = str(tmp_path / "bin" / "python")
    monkeypatch.setattr(sys, "executable", python)
    found = host.registry()
    assert not found.is_there
    assert found.text == f"no pip in the environment of {python}"
    assert "ensurepip" in found.way_out
    assert "network" not in found.way_out


def test_issues_need_gh_and_a_token(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    monkeypatch.delenv("GH_TOKEN", raising=False)
    found = missing(host.github())
    assert set(found) == {"gh", "token"}
    assert "issues: write" in found["token"].way_out
    (tmp_path / "gh").write_text("#!/bin/sh\n")
    (tmp_path / "gh").chmod(0o755)
    monkeypatch.setenv("GH_TOKEN", "secret")
    assert not missing(host.github())
    assert "secret" not in "".join(check.text for check in host.github())


def test_an_idle_gpu_at_its_normal_clocks_is_fine():
    found = [*gpu.checks(Nvml())]
    assert not missing(found)
    assert found[0].text == "580.65, for CUDA up to 13.2"


@pytest.mark.parametrize(
    ("answers", "name", "text"),
    [
        ({"nvmlInit": NVMLError("Library Not Found")}, "driver", "Library Not Found"),
        ({"nvmlDeviceGetCount": 0}, "driver", "knows no GPU"),
        ({"nvmlDeviceGetName": NVMLError("GPU is lost")}, "GPU 0", "GPU is lost"),
        (
            {"nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=4711)]},
            "idle GPU 0",
            "4711",
        ),
        (
            {"nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=40)},
            "idle GPU 0",
            "40% busy",
        ),
        (
            {"nvmlDeviceGetCurrentClocksThrottleReasons": 0x40},
            "clocks of GPU 0",
            "hw_thermal_slowdown",
        ),
    ],
)
def test_what_a_gpu_lacks_is_named(answers, name, text):
    (found,) = missing(gpu.checks(Nvml(**answers))).values()
    assert found.name == name
    assert text in found.text + found.way_out
    assert found.way_out


def test_torch_must_find_a_gpu_that_triton_supports():
    (cpu,) = make_environment().devices
    with_gpu = make_environment(devices=(cpu, H200), cuda="13.0")
    assert interpreter.gpu_of(with_gpu).is_there
    assert not interpreter.gpu_of(make_environment()).is_there
    old = Device(kind="cuda", name="Tesla P100", memory_bytes=2**34, capability="6.0")
    assert "Triton" in interpreter.gpu_of(make_environment(devices=(cpu, old))).text


def test_an_interpreter_without_torch_is_missing(tmp_path):
    (found,) = interpreter.checks(str(tmp_path / "python"), gpu=False)
    assert not found.is_there
    assert "pip install torch" in found.way_out


def test_the_command_prints_a_line_for_each_thing(monkeypatch, tmp_path):
    monkeypatch.setattr(host, "registry", lambda index="": host.python())
    status, output, _ = run_command("doctor", "--json", "--disk-gib", "1e9")
    lines = [json.loads(line) for line in output.splitlines()]
    names = {line["name"]: line for line in lines}
    assert status == 1
    assert {"python", "venv", "g++", "disk", "torch"} <= names.keys()
    assert names["torch"]["is_there"]
    assert all(bool(line["way_out"]) is not line["is_there"] for line in lines)
