"""What differs between two environments, and which differences decide.

A difference *decides* if it can change what a case computes or costs: two environments without such
a difference are one version compared with itself. *Hardware* decides whether costs can be compared,
and whether observations can belong to one run. What is *shown* decides nothing.

Standard library only: the observed interpreter need not have more than torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from compilegate.records import variables
from compilegate.records.environment import Device, Environment, Inventory, changes

Group = Literal["software", "libraries", "variables", "configuration", "machine"]
Weight = Literal["decides", "hardware", "shown"]

#: What comes first, since it is the likeliest cause of a change.
_FIRST = (
    *("torch", "torch build", "cuDNN", "cuBLAS", "CUDA runtime", "oneDNN", "MKL"),
    *("python", "torchvision", "timm", "transformers", "diffusers", "triton", "numpy"),
    *("compiler", "CUDA", "driver"),
)
_GROUPS: tuple[Group, ...] = ("configuration", "variables", "libraries", "software", "machine")
_WEIGHTS: tuple[Weight, ...] = ("decides", "hardware", "shown")
#: What must come with another torch, in addition to the distributions that torch needs.
_WITH_TORCH = frozenset({"torchvision", "torchaudio", "triton", "CUDA"})
#: Libraries that do not come with torch.
_OF_THE_SYSTEM = frozenset({"glibc", "allocator"})
#: How NVIDIA's distributions name the release of CUDA that they are for: ``nvidia-cudnn-cu13``.
_CUDA_RELEASE = re.compile(r"-cu\d+$")
#: The distribution of a library. If both differ, only the library is named.
_WHEELS = {
    "cuDNN": "nvidia-cudnn",
    "cuBLAS": "nvidia-cublas",
    "CUDA runtime": "nvidia-cuda-runtime",
    "NCCL": "nvidia-nccl",
    "cuFFT": "nvidia-cufft",
    "cuSOLVER": "nvidia-cusolver",
    "cuSPARSE": "nvidia-cusparse",
    "cuSPARSELt": "nvidia-cusparselt",
}


@dataclass(frozen=True)
class EnvironmentChange:
    """A difference between two environments: ``cuDNN 9.10.2 → 9.15.1``.

    Attributes:
        group: What kind of thing differs.
        name: What differs.
        before: Its version or value in the first environment.
        now: Its version or value in the second.
        weight: What the difference decides.
        with_torch: Whether it necessarily comes with another torch.
    """

    group: Group
    name: str
    before: str
    now: str
    weight: Weight = "decides"
    with_torch: bool = False

    def __str__(self) -> str:
        return f"{self.name} {self.before} → {self.now}"


def compare(before: Environment, now: Environment) -> list[EnvironmentChange]:
    """Return all differences, those that decide first, and of these the most important first.

    What only one of the two records is unknown, which is no difference.
    """
    found = [*_software(before, now), *_hardware(before, now)]
    if before.inventory and now.inventory:
        found += _inventory(before, now, before.inventory, now.inventory)
    return sorted(found, key=_rank)


def deciding(before: Environment, now: Environment) -> list[EnvironmentChange]:
    """Return the differences that decide. What comes with another torch is left out.

    The list is empty where one environment is compared with itself (A/A).
    """
    found = [change for change in compare(before, now) if change.weight == "decides"]
    if any(change.name == "torch" for change in found):
        return [change for change in found if not change.with_torch]
    named = {_WHEELS.get(change.name, "") for change in found if change.group == "libraries"}
    return [change for change in found if _CUDA_RELEASE.sub("", change.name) not in named]


def headline(found: Sequence[EnvironmentChange], most: int = 3) -> str:
    """Return the most important differences in one phrase: ``cuDNN 9.10.2 → 9.15.1 and 2 more``."""
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(map(str, found[:most])) + more


def is_unknown(before: Environment, now: Environment) -> bool:
    """Return whether one of them records versions only: further differences are unknown."""
    return before.inventory is None or now.inventory is None


def refusals(before: Environment, now: Environment, most: int = 8) -> list[str]:
    """Return why observations of two environments cannot belong to one run; empty if they can.

    Args:
        before: The environment of the run.
        now: The other one.
        most: How many differences are named.
    """
    hardware = [change for change in compare(before, now) if change.weight == "hardware"]
    found = [str(change) for change in (*deciding(before, now), *hardware)]
    return [*found[:most], *([f"and {len(found) - most} more"] if len(found) > most else [])]


def hardware_changes(before: Device, now: Device) -> list[str]:
    """Return how two devices differ in what both record: ``cores 2 → 8``."""
    ours, theirs = _recorded_hardware(before, now)
    return changes(ours, theirs)


def _software(before: Environment, now: Environment) -> Iterator[EnvironmentChange]:
    drivers = _driver(before), _driver(now)
    ours, theirs = (
        {
            "python": side.python,
            **side.versions,
            "compiler": side.compiler or "none",
            "CUDA": side.cuda or "none",
            **({"driver": driver} if all(drivers) else {}),
        }
        for side, driver in zip((before, now), drivers, strict=True)
    )
    for name, old, new in _differing(ours, theirs, "none"):
        yield EnvironmentChange("software", name, old, new, with_torch=name in _WITH_TORCH)


def _driver(environment: Environment) -> str:
    return gpu.driver if (gpu := environment.device("cuda")) else ""


def _hardware(before: Environment, now: Environment) -> Iterator[EnvironmentChange]:
    for kind in dict.fromkeys(device.kind for device in (*before.devices, *now.devices)):
        ours, theirs = before.device(kind), now.device(kind)
        if ours is None or theirs is None:
            old, new = (device.name if device else "none" for device in (ours, theirs))
            yield EnvironmentChange("machine", kind, old, new, "hardware")
            continue
        known = _recorded_hardware(ours, theirs)
        for name, old, new in _differing(known[0], known[1], "none"):
            label = kind if name == kind else f"{kind} {name}"
            yield EnvironmentChange("machine", label, old, new, "hardware")
        old, new = (f"{device.memory_bytes / 2**30:.4g} GiB" for device in (ours, theirs))
        if old != new:
            yield EnvironmentChange("machine", f"{kind} memory", old, new, "shown")
        old, new = (str(sum(d.kind == kind for d in side.devices)) for side in (before, now))
        if old != new:
            yield EnvironmentChange("machine", f"number of {kind} devices", old, new, "shown")


def _recorded_hardware(before: Device, now: Device) -> tuple[dict[str, str], dict[str, str]]:
    """Return the hardware of two devices, as far as both record it."""
    ours, theirs = before.hardware, now.hardware
    known = {before.kind, *(ours.keys() & theirs.keys())}
    return (
        {name: text for name, text in ours.items() if name in known},
        {name: text for name, text in theirs.items() if name in known},
    )


def _inventory(
    before: Environment, now: Environment, ours: Inventory, theirs: Inventory
) -> Iterator[EnvironmentChange]:
    decisive = {*ours.decisive, *theirs.decisive}
    torch_needs = {*ours.torch_needs, *theirs.torch_needs} | _WITH_TORCH
    for name, old, new in _differing(ours.distributions, theirs.distributions, "none"):
        if name not in {*before.versions, *now.versions}:  # these are compared as software
            weight: Weight = "decides" if name in decisive else "shown"
            with_torch = name in torch_needs
            yield EnvironmentChange("software", name, old, new, weight, with_torch=with_torch)
    for name, old, new in _differing(ours.libraries, theirs.libraries, "none"):
        yield EnvironmentChange("libraries", name, old, new, with_torch=name not in _OF_THE_SYSTEM)
    for name, old, new in _differing(ours.variables, theirs.variables, "unset"):
        yield EnvironmentChange("variables", name, old, new, _of_setting(name, old, new))
    for name, old, new in _differing(ours.configuration, theirs.configuration, "default"):
        yield EnvironmentChange("configuration", name, old, new, _of_setting(name, old, new))
    for name, old, new in _differing(ours.machine, theirs.machine, "none"):
        yield EnvironmentChange("machine", name, old, new, "shown")


def _of_setting(name: str, before: str, now: str) -> Weight:
    is_hidden = variables.HIDDEN in (before, now)
    return "decides" if variables.decides(name) and not is_hidden else "shown"


def _differing(
    before: Mapping[str, str], now: Mapping[str, str], absent: str
) -> Iterator[tuple[str, str, str]]:
    """Yield name, former value and present value of what differs."""
    for name in dict.fromkeys((*before, *now)):
        ours, theirs = before.get(name, absent), now.get(name, absent)
        if ours != theirs:
            yield name, ours, theirs


def _rank(change: EnvironmentChange) -> tuple[int, int]:
    """Return a key that sorts by weight, then by importance."""
    place = len(_FIRST) + _GROUPS.index(change.group)
    if change.name in _FIRST:
        place = _FIRST.index(change.name)
    return _WEIGHTS.index(change.weight), place
