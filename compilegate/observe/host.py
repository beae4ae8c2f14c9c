"""What a run is observed with: versions, the C++ compiler, the processor, GPUs."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import subprocess

from compilegate.records.environment import Environment

_DISTRIBUTIONS = ("torch", "torchvision", "timm", "transformers", "triton", "numpy")


def environment() -> Environment:
    """Return the environment of this interpreter.

    It initialises CUDA where there is a GPU, so it must be called in a forked child.
    """
    import torch

    from compilegate.observe.device import DEVICES

    return Environment(
        python=platform.python_version(),
        platform=platform.platform(),
        versions={name: version for name in _DISTRIBUTIONS if (version := _version(name))},
        compiler=_compiler(),
        cuda=torch.version.cuda or "",
        devices=tuple(found for device in DEVICES.values() for found in device.describe()),
    )


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _compiler() -> str:
    """Return the version of the C++ compiler that Inductor calls; empty where it finds none.

    Inductor looks for it in the same way: it runs ``CXX``, or ``g++``, with ``--version``.
    """
    command = [*shlex.split(os.environ.get("CXX", "g++")), "--version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.partition("\n")[0]
