"""What a run is observed with: versions, libraries, settings, the compiler, the devices."""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import subprocess

from compilegate.observe.host import distributions, libraries, machine, settings
from compilegate.records.environment import Environment, Inventory

#: The distributions that every report names.
_LEADING = ("torch", "torchvision", "timm", "transformers", "diffusers", "triton", "numpy")


def environment() -> Environment:
    """Return the environment of this interpreter.

    It initialises CUDA where there is a GPU, so it must be called in a forked child.
    """
    import torch

    from compilegate.observe.device import DEVICES

    found = distributions.installed()
    versions = {name: distribution.version for name, distribution in found.items()}
    devices = [described for device in DEVICES.values() for described in device.describe()]
    return Environment(
        python=platform.python_version(),
        platform=platform.platform(),
        versions={name: versions[name] for name in _LEADING if name in versions},
        compiler=_compiler(),
        cuda=torch.version.cuda or "",
        devices=tuple(devices),
        inventory=Inventory(
            distributions=dict(sorted(versions.items())),
            torch_needs=tuple(sorted(distributions.needed_by(["torch"], found))),
            decisive=tuple(sorted(distributions.decisive(found))),
            libraries=libraries.versions(),
            variables=settings.variables(),
            configuration=settings.configuration(),
            machine=machine.describe() | _limits(),
        ),
    )


def _limits() -> dict[str, str]:
    """Return the limits of the devices that have sensors."""
    from compilegate.observe.device import DEVICES
    from compilegate.observe.device.protocol import UnavailableError

    found: dict[str, str] = {}
    for device in DEVICES.values():
        if device.has_sensors and device.is_available():
            with contextlib.suppress(UnavailableError):
                found |= device.open_sensors().limits()
    return found


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
