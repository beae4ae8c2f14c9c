"""Runs the ranks of the practice ``distributed`` under torchrun, and says how one failed.

https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from compilegate.observe import error_text
from compilegate.observe.practices import distributed_answers, fresh_process, same_case
from compilegate.observe.practices.bench import Bench, ProcessError
from compilegate.observe.practices.distributed_answers import Answer
from compilegate.observe.practices.distributed_ways import RANKS, Way
from compilegate.observe.practices.fresh_process import FreshProcessError
from compilegate.observe.practices.unavailable import StepUnavailableError
from compilegate.records.host_memory import MemoryAccount

_WORKER = "compilegate.observe.practices.distributed_rank"


#: What torchrun writes of the rank that ended first. It then ends the others.
_ROOT_CAUSE = re.compile(
    r"Root Cause.*?\brank +: (?P<rank>\d+).*?\bexitcode +: (?P<status>-?\d+)", re.DOTALL
)


class RankError(ProcessError):
    """A rank raised, died or hangs. The message has what the ranks wrote, or their stacks."""


def gpus(bench: Bench) -> list[str]:
    """Return the GPUs for the ranks, the one of this process first; empty if there are too few.

    A worker of xdist shows its children one GPU. The request names the others of the session.
    """
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    own = named.split(",") if named else [*map(str, range(torch.accelerator.device_count()))]
    found = [*dict.fromkeys([*own, *bench.request.gpus])]
    return found[:RANKS] if len(found) >= RANKS else []


def first_death(output: str) -> str:
    """Return which rank ended first, and how, from the output of torchrun; empty if it is silent.

    Args:
        output: What torchrun wrote.
    """
    found = _ROOT_CAUSE.search(output)
    if found is None:
        return ""
    status = int(found["status"])
    if status < 0:
        return f"rank {found['rank']} was killed by {signal.Signals(-status).name}"
    return f"rank {found['rank']} exited with status {status}"


class Ranks:
    """The ranks of a case.

    Args:
        bench: The case.
        folder: A folder for what they leave.
        idle_s: Seconds after which they hang, if none of them does anything.

    Attributes:
        end: The error that ended them after they had left all answers: they may hang there, too.
    """

    def __init__(self, bench: Bench, folder: Path, idle_s: float) -> None:
        self._bench, self._folder, self._idle_s = bench, folder, idle_s
        self._failed: dict[Way, RankError] = {}
        self.end: RankError | None = None

    def run(self, ways: Sequence[Way]) -> None:
        """Have all ranks train in some ways. If one fails, new ranks train in those after it."""
        left = [*ways]
        while left:
            failure = self._start(left)
            while left and distributed_answers.is_complete(self._folder, left[0]):
                left.pop(0)
            if left:
                failed = left.pop(0)
                self._failed[failed] = failure or RankError("the ranks ended without an answer")
                left = [way for way in left if way.eager is not failed]
            else:
                self.end = failure

    def answers(self, way: Way) -> list[Answer]:
        """Return what each rank found in a way.

        Raises:
            RankError: A rank failed.
            StepUnavailableError: A rank failed in the eager way, which it is compared with.
        """
        if way.eager is not None and way.eager in self._failed:
            reason = error_text.of(self._failed[way.eager])
            raise StepUnavailableError(f"in eager, {way.eager.name} fails: {reason}")
        if way in self._failed:
            raise self._failed[way]
        return distributed_answers.read(self._folder, way, self._bench.builder.case.device)

    def _start(self, ways: Sequence[Way]) -> RankError | None:
        """Run the ranks to their end. Return how one failed; None if none did."""
        job = same_case.described(self._bench) | {"ways": [way.name for way in ways]}
        # From a GPU, each rank would load them to the GPU of this process.
        job["weights"] = {name: weight.cpu() for name, weight in job["weights"].items()}
        fresh_process.put_job(self._folder, job)
        for file in (*self._folder.glob("stage-*"), *self._folder.glob("error-*")):
            file.unlink()
        memory = MemoryAccount()
        kills = memory.kills()
        try:
            fresh_process.run_command(
                self._command(),
                self._bench.progress.beat,
                environment=self._environment(),
                idle_s=self._idle_s,
                progress=lambda: distributed_answers.stages(self._folder),
            )
        except FreshProcessError as error:
            first, _, rest = str(error).partition("\n")
            end = first.rstrip(":").replace("a fresh process", "torchrun", 1)
            how, held = self._how(first_death(rest) or end, killed=memory.kills() != kills)
            # After a blank line, what the ranks wrote is no further part of the first sentence.
            return RankError(f"{how}\n\n{rest}", held)
        return None

    def _command(self) -> list[str]:
        """Return the command: torchrun writes whose each line is."""
        return [
            *(sys.executable, "-m", "torch.distributed.run"),
            *("--standalone", "--nproc-per-node", str(RANKS)),
            *("--log-dir", str(self._folder / "log"), "--tee", "3"),
            *("--no-python", *fresh_process.command(_WORKER, self._folder)),
        ]

    def _environment(self) -> dict[str, str]:
        """Return variables of the ranks, which share the machine.

        On CPU they have as many threads as this process. Inductor compiles for their number, and
        finds the kernels of the case.
        """
        compilers = max(len(os.sched_getaffinity(0)) // RANKS, 1)
        found = {
            "OMP_NUM_THREADS": str(torch.get_num_threads()),
            "TORCHINDUCTOR_COMPILE_THREADS": str(compilers),
            "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "rank ${rank}: ",
        }
        if self._bench.builder.case.device != "cpu":
            found["CUDA_VISIBLE_DEVICES"] = ",".join(gpus(self._bench))
        return found

    def _how(self, end: str, *, killed: bool) -> tuple[str, float | None]:
        """Return the first error that a rank raised, or else how far each of them came.

        Args:
            end: How all of them ended.
            killed: Whether the kernel has killed a process for lack of memory.

        Returns:
            Words, and the share of the memory that other processes held when it ran out: 0 if it
            did not, None if that is unknown.
        """
        for rank, error in distributed_answers.errors(self._folder).items():
            return f"rank {rank} raises {error.text}; {end}", error.held_by_others
        stages = distributed_answers.stages(self._folder)
        reached: dict[str, list[str]] = {}
        for rank in sorted(stages):
            reached.setdefault(stages[rank], []).append(f"rank {rank}")
        texts = [f"{' and '.join(ranks)} came as far as {at}" for at, ranks in reached.items()]
        if killed:
            texts.append("the kernel killed a process for lack of memory")
        return "; ".join([end, *(texts or ["no rank started"])]), None if killed else 0.0
