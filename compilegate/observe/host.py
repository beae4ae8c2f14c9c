"""What the child runs on: versions, processor, GPUs."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path

from compilegate.records.environment import Device, Environment

_DISTRIBUTIONS = ("torch", "torchvision", "timm", "transformers", "triton", "numpy")


def environment() -> Environment:
    """The interpreter's own. Initialises CUDA where there is any, so call it in a forked child."""
    import torch

    return Environment(
        python=platform.python_version(),
        platform=platform.platform(),
        versions={name: version for name in _DISTRIBUTIONS if (version := _version(name))},
        compiler=_compiler(),
        cuda=torch.version.cuda or "",
        devices=(_cpu(), *_gpus()),
    )


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _compiler() -> str:
    command = os.environ.get("CXX", "g++")
    try:
        done = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)
    except OSError as error:
        return f"{command}: {error.strerror}"
    return done.stdout.partition("\n")[0]


def _cpu() -> Device:
    information = Path("/proc/cpuinfo")
    text = information.read_text() if information.exists() else ""
    model = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    return Device(
        kind="cpu",
        name=model[1].strip() if model else platform.processor() or platform.machine(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        cores=len(os.sched_getaffinity(0)),
    )


def _gpus() -> list[Device]:
    import torch

    if not torch.cuda.is_available():
        return []
    driver = Path("/sys/module/nvidia/version")
    version = driver.read_text().strip() if driver.exists() else ""
    found = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        found.append(
            Device(
                kind="cuda",
                name=properties.name,
                memory_bytes=properties.total_memory,
                cores=properties.multi_processor_count,
                driver=version,
                capability=f"{properties.major}.{properties.minor}",
            )
        )
    return found
