"""What each of several xdist workers is told, and may use: a GPU, its share of the processor."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import pytest

from compilegate.records.environment import Environment

#: Variables that are the user's to set: what is in the environment stays.
_USERS = {"TORCHINDUCTOR_COMPILE_THREADS", "OMP_NUM_THREADS"}


@dataclass(frozen=True)
class Share:
    """What a process that observes cases may use.

    Attributes:
        workers: How many such processes there are.
        gpu: Its GPU, as ``CUDA_VISIBLE_DEVICES`` names it; None leaves it to PyTorch.
        shares_gpu: Whether there are fewer GPUs than workers: times and energy mean little then.
    """

    workers: int = 1
    gpu: str | None = None
    shares_gpu: bool = False

    def environment(self) -> dict[str, str]:
        """Variables for children: the GPU that they see, and their share of the processor.

        Compilers of one worker are not to keep the others from launching kernels. Nor are threads,
        which wait for each other in each small operation where there are more of them than cores.
        On CPU they stay: compiled code is made for as many as there are.
        """
        found = {"CUDA_VISIBLE_DEVICES": self.gpu} if self.gpu is not None else {}
        if self.workers > 1:
            share = str(max(len(os.sched_getaffinity(0)) // self.workers, 1))
            found |= {"TORCHINDUCTOR_COMPILE_THREADS": share}
            found |= {"OMP_NUM_THREADS": share} if self.gpu is not None else {}
            found |= {name: os.environ[name] for name in _USERS & os.environ.keys()}
        return found


#: Of the only process that observes.
ALONE = Share()


def visible_gpus(environment: Environment | None) -> list[str]:
    """The GPUs that children may use, as ``CUDA_VISIBLE_DEVICES`` names them."""
    count = sum(device.kind == "cuda" for device in environment.devices) if environment else 0
    if not count:
        return []
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    return given.split(",")[:count] if given else [str(index) for index in range(count)]


def count_of(config: pytest.Config) -> int:
    """How many processes of a session run tests."""
    if config.getoption("dist", "no") == "no":
        return 1
    from xdist.workermanage import parse_tx_spec_config  # noqa: PLC0415 (xdist is optional)

    return len(parse_tx_spec_config(config))


def refuse_other_ways(config: pytest.Config) -> None:
    """Refuse workers that would disturb each other, or share what one process is to keep.

    Raises:
        pytest.UsageError: With the way out.
    """
    way = config.getoption("dist", "no")
    if config.getoption("baseline_python") and way != "no":
        raise pytest.UsageError(
            "--baseline-python times two processes in turns, which workers of -n would disturb: "
            "leave -n out, or run parts with --models and put them together with "
            "python -m compilegate merge"
        )
    if way not in ("no", "load"):
        raise pytest.UsageError(
            f"--dist {way} would spread the cases of a model, which share a process, over workers: "
            "leave it out"
        )


class Told(NamedTuple):
    """What a worker need not find out again.

    Attributes:
        models: The user's.
        environment: What the machine has; None where nothing is observed.
        share: What its children may use.
    """

    models: Sequence[Mapping[str, Any]]
    environment: Environment | None
    share: Share


def told(config: pytest.Config) -> Told | None:
    """What the controller told this process; None where it is none of its workers."""
    given = getattr(config, "workerinput", {}).get("compilegate")
    return msgspec.convert(given, Told) if given else None


class Workers:
    """Hands out the GPUs, the least used first: xdist replaces a worker that died by a new one.

    Args:
        count: How many workers there are at a time.
        environment: What the machine has; None where nothing is observed.
    """

    def __init__(self, count: int, environment: Environment | None) -> None:
        self._count = count
        self._gpus = visible_gpus(environment)
        self._names = (
            {d.name for d in environment.devices if d.kind == "cuda"} if environment else ()
        )
        self._given: dict[str, str] = {}

    def refuse_unlike_gpus(self) -> None:
        """Thresholds are judged, and run files written, as of one kind of GPU.

        Raises:
            pytest.UsageError: Workers would get different kinds.
        """
        if len(self._names) > 1 and self._count > 1:
            raise pytest.UsageError(
                f"-n {self._count}: this machine's GPUs differ ({', '.join(sorted(self._names))}), "
                "and a run is of one kind: name those of one kind in CUDA_VISIBLE_DEVICES"
            )

    def share(self, worker: str) -> Share:
        """What a new worker may use."""
        if not self._gpus:
            return Share(self._count)
        used = Counter(self._given.values())
        self._given[worker] = min(self._gpus, key=lambda gpu: used[gpu])
        return Share(self._count, self._given[worker], self._count > len(self._gpus))

    def ended(self, worker: str) -> None:
        """Take back what a worker had."""
        self._given.pop(worker, None)


#: Where the process that hands out the GPUs keeps how.
WORKERS = pytest.StashKey[Workers]()
#: Where it keeps the environment that was asked for to count them.
ENVIRONMENT = pytest.StashKey[Environment]()
