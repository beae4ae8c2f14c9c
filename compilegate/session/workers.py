"""The workers of xdist: what each knows from the controller, and its part of the machine."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from compilegate.processes import file_locks
from compilegate.records.case import Case
from compilegate.records.environment import Environment

#: Bytes of a device that a worker of the shipped models needs, most of the time.
_BYTES = {"cuda": 6 << 30, "cpu": 3 << 30}
#: Bytes of the host that the compilers of a worker of a GPU need, too: six of C++ take 0.7 GB.
_COMPILERS_BYTES = 1 << 30

#: Where workers of a GPU take turns, their compilers share the processor this many times over: a
#: worker generates code most of the time, and compiles kernels in bursts.
_BURSTS = 6

#: Whether Inductor ends compilers that were idle for a minute. Where a process stands still in the
#: turns of others, they seem idle: in one of 297 cases on GPUs, new ones never got their work.
_ENDS_IDLE = "TORCHINDUCTOR_QUIESCE_ASYNC_COMPILE_POOL"

#: Variables that the user may set. compilegate does not change them.
USERS = {"TORCHINDUCTOR_COMPILE_THREADS", "OMP_NUM_THREADS", "GOMP_SPINCOUNT", _ENDS_IDLE}
#: How often a thread of OpenMP looks whether others are done before it sleeps. By default it looks
#: for milliseconds: on two cores, two processes then take ten times as long for a small layer. With
#: 300, threads sleep between two calls, and a call of a small kernel takes twice as long.
_SPINS = "10000"


@dataclass(frozen=True)
class Share:
    """The part of the machine that a process which observes cases may use.

    Attributes:
        workers: The number of such processes.
        gpu: The GPU of the process, as ``CUDA_VISIBLE_DEVICES`` names it; None for all of them.
        shares_gpu: Whether workers time on one GPU at once, since they cannot take turns. Times and
            energy mean little then.
        gpus: The GPUs of all workers; empty if there is one process, which sees them all.
        turns: The folder of the locks by which workers take turns to time; empty if each has a GPU
            of its own, or if there is one process.
        cores: The processors of the workers of this GPU, where each of several GPUs has its own;
            empty for all of them.
        part: Where workers of the processor take turns: the processors on which this one's children
            run outside of their turns; empty for all of them.
    """

    workers: int = 1
    gpu: str | None = None
    shares_gpu: bool = False
    gpus: tuple[str, ...] = ()
    turns: str = ""
    cores: tuple[int, ...] = ()
    part: tuple[int, ...] = ()

    def workers_of_device(self, device: str) -> int:
        """Return how many workers use the same processors, or the GPU of this one."""
        groups = len(self.gpus) if device == "cuda" or self.cores else 0
        return -(-self.workers // max(groups, 1))

    def environment(self) -> dict[str, str]:
        """Return variables for children: the GPU that they see, and their part of the processor.

        Without turns, the compilers of one worker must not keep the others from launching kernels.
        Nor must threads: with more threads than cores, they wait for each other in every small
        operation. On CPU the threads stay: Inductor compiles for the number that there are. But
        they sleep while they wait for each other, instead of keeping other workers from computing.
        """
        found = {"CUDA_VISIBLE_DEVICES": self.gpu} if self.gpu is not None else {}
        if self.workers > 1:
            cores = len(self.cores or os.sched_getaffinity(0))
            workers = self.workers_of_device("cpu")
            compilers = cores * (_BURSTS if self.turns and self.gpu is not None else 1)
            found |= {"TORCHINDUCTOR_COMPILE_THREADS": str(max(compilers // workers, 1))}
            found |= {_ENDS_IDLE: "0"} if self.turns else {}
            if self.gpu is not None:
                found |= {"OMP_NUM_THREADS": str(max(cores // workers, 1))}
            else:
                found |= {"GOMP_SPINCOUNT": _SPINS}
            found |= {name: os.environ[name] for name in USERS & os.environ.keys()}
        return found


#: The share of the only process that observes.
ALONE = Share()


@dataclass(frozen=True)
class Known:
    """The facts that the controller passes to workers, so that they need not find them again.

    Attributes:
        models: The user's models, listed by xdist's controller, which has also checked the options.
            None if this process must list them.
        environment: The observed environment; None if this process must ask for it.
        baseline: The environment of the PyTorch in use; likewise.
        share: The part of the machine that the children of this process may use.
        earlier_run: The path of the run by which time and memory are planned; empty for none.
        run: The path of the run that the controller writes; empty if it writes none.
        ends_at: When no case is begun any more, in seconds since the epoch; 0 for never.
    """

    models: Sequence[Mapping[str, Any]] | None = None
    environment: Environment | None = None
    baseline: Environment | None = None
    share: Share = ALONE
    earlier_run: str = ""
    run: str = ""
    ends_at: float = 0.0


def from_controller(config: pytest.Config) -> Known | None:
    """Return what xdist's controller passed to this process; None if it is not a worker."""
    given = getattr(config, "workerinput", {}).get("compilegate")
    return msgspec.convert(given, Known) if given else None


def visible_gpus(environment: Environment | None) -> list[str]:
    """Return the GPUs that children may use, as ``CUDA_VISIBLE_DEVICES`` names them."""
    count = sum(device.kind == "cuda" for device in environment.devices) if environment else 0
    if not count:
        return []
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    return given.split(",")[:count] if given else [str(index) for index in range(count)]


def fitting(cases: Sequence[Case], environment: Environment) -> int:
    """Return how many workers a machine has room for.

    Workers of one GPU, or of the processor, take turns to time: while one of them times, or waits
    for Python, others compile. On the processor each has two cores for that: one compiles kernels
    while another runs the model. Where some cases run on the processor, which all workers share,
    each of several GPUs gets one worker.

    Args:
        cases: The cases of the session.
        environment: Names the processor and the GPUs.
    """
    gpus = visible_gpus(environment) if any(case.device == "cuda" for case in cases) else []
    if len(gpus) > 1 and not are_on_gpus(cases):
        return len(gpus)
    cores = len(os.sched_getaffinity(0))
    rooms = [len(cases), cores if gpus else max(cores // 2, min(cores, 2))]
    host_bytes = _BYTES["cpu"] + (_COMPILERS_BYTES if gpus else 0)
    for kind, needed in {**_BYTES, "cpu": host_bytes}.items():
        device = environment.device(kind)
        if device is not None and device.memory_bytes and (gpus or kind == "cpu"):
            count = len(gpus) if kind == "cuda" else 1
            rooms.append(count * (device.memory_bytes // needed))
    return max(min(rooms), 1)


def are_on_gpus(cases: Iterable[Case]) -> bool:
    """Whether no case runs on the processor, so that workers of different GPUs share nothing."""
    return all(case.device == "cuda" for case in cases)


def count_of(config: pytest.Config) -> int:
    """Return the number of processes that run the tests of a session."""
    if config.getoption("dist", "no") == "no":
        return 1
    from xdist.workermanage import parse_tx_spec_config  # noqa: PLC0415 (xdist is optional)

    return len(parse_tx_spec_config(config))


def refuse_other_distributions(config: pytest.Config) -> None:
    """Refuse workers that would share what one process must keep.

    Raises:
        pytest.UsageError: The message says what to do.
    """
    distribution = config.getoption("dist", "no")
    if distribution not in ("no", "load"):
        raise pytest.UsageError(
            f"--dist {distribution} would spread the cases of a model, which share a process, over "
            "workers: leave it out"
        )


class Workers:
    """Assigns the GPUs to workers, the least used first. xdist replaces a worker that died.

    Args:
        count: The number of workers that run at the same time.
        environment: The observed environment; None if the session observes nothing.
        on_gpus: Whether any case runs on a GPU. Else the workers share the processor alone.
        apart: Whether the workers of each of several GPUs may have processors of their own. They
            take turns among themselves then.
    """

    def __init__(
        self,
        count: int,
        environment: Environment | None,
        *,
        on_gpus: bool = True,
        apart: bool = False,
    ) -> None:
        self._count, self._apart = count, apart
        self._gpus = visible_gpus(environment) if on_gpus else []
        self._names = (
            {d.name for d in environment.devices if d.kind == "cuda"} if environment else ()
        )
        self._given: dict[str, str] = {}
        self._turns = tempfile.TemporaryDirectory(
            prefix="compilegate-turns-", ignore_cleanup_errors=True
        )

    @classmethod
    def of(cls, cases: Sequence[Case], count: int, environment: Environment | None) -> Workers:
        """Return the workers of some cases. See the class for ``count`` and ``environment``."""
        on_gpus = any(case.device == "cuda" for case in cases)
        return cls(count, environment, on_gpus=on_gpus, apart=are_on_gpus(cases))

    def close(self) -> None:
        """Remove the locks of turns."""
        self._turns.cleanup()

    @property
    def _take_turns(self) -> bool:
        """Whether there are more workers than GPUs, or than one on CPU, and locks work."""
        return self._count > max(len(self._gpus), 1) and file_locks.are_possible(
            Path(self._turns.name)
        )

    def refuse_unlike_gpus(self) -> None:
        """Refuse GPUs of several kinds: thresholds and run files apply to one kind.

        Raises:
            pytest.UsageError: The workers would get different kinds.
        """
        if len(self._names) > 1 and self._count > 1:
            raise pytest.UsageError(
                f"-n {self._count}: this machine's GPUs differ ({', '.join(sorted(self._names))}), "
                "and a run covers one kind: name GPUs of one kind in CUDA_VISIBLE_DEVICES"
            )

    def share(self, worker: str) -> Share:
        """Return the part of the machine that a new worker may use."""
        turns = self._turns.name if self._take_turns else ""
        if not self._gpus:
            part = self._part(int(worker.removeprefix("gw")) % self._count, self._count)
            return Share(self._count, turns=turns, part=part if turns else ())
        used = Counter(self._given.values())
        gpu = self._given[worker] = min(self._gpus, key=lambda gpu: used[gpu])
        shares_gpu = self._count > len(self._gpus) and not turns
        cores: tuple[int, ...] = ()
        if turns and self._apart and len(self._gpus) > 1:
            index = self._gpus.index(gpu)
            cores = self._part(index, len(self._gpus))
            turns = str(Path(turns, str(index)))
            Path(turns).mkdir(exist_ok=True)
        return Share(self._count, gpu, shares_gpu, tuple(self._gpus), turns, cores)

    @staticmethod
    def _part(index: int, count: int) -> tuple[int, ...]:
        """Return one of several parts of the processors: neighbours, which share caches."""
        cores = sorted(os.sched_getaffinity(0))
        begin, end = (len(cores) * at // count for at in (index, index + 1))
        return tuple(cores[begin : max(end, begin + 1)])

    def ended(self, worker: str) -> None:
        """Free the GPU of a worker that ended."""
        self._given.pop(worker, None)


#: Where xdist's controller keeps the assignment of GPUs.
WORKERS = pytest.StashKey[Workers]()
