"""Has programs observed, many by one child, each from a clean compiler."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from compilegate.fuzzing.outcome import Outcome, Symptom, outcome_of
from compilegate.fuzzing.program import Program, zoo_text
from compilegate.processes.observer import Observer
from compilegate.processes.server_process import Launch
from compilegate.records.observation import Stage
from compilegate.records.request import Request

#: Seconds without progress after which a program hangs.
TIMEOUT_S = 90.0
#: What is left of the machine's compilers: a process pool in each child costs more than it brings.
_ALONE = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}


class StoppedError(Exception):
    """The user or the clock ended the run while a program was observed."""


class NoDeviceError(Exception):
    """PyTorch sees no such device. The text says so."""


class Examiner:
    """Observes and judges programs in one child after another.

    Args:
        folder: Where the zoo file of the programs, and compiled code, is written.
        name: Distinguishes it from other examiners in the folder.
        stop: Ends the observation of a program early.
        plant: A zoo file that is loaded before the programs. It may change PyTorch.
        threads: The threads of an operator, unless the user's environment says how many. If all
            workers together have more threads than processors, each waits for the others.
        cpp: Whether Inductor compiles some programs.
        timeout_s: Seconds without progress after which a program hangs.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        stop: threading.Event,
        *,
        plant: Path | None = None,
        threads: int = 1,
        cpp: bool = True,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._file = folder / f"programs-{name}.py"
        self._stop, self._timeout_s = stop, timeout_s
        self._blocks = itertools.count()
        self._file.write_text(zoo_text([]), encoding="utf-8")
        zoo = (*([str(plant)] if plant else []), str(self._file))
        count = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads))}
        environment = {**_ALONE, **count, "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
        launch = Launch(zoo=zoo, environment=environment, root=str(folder))
        self._observer = Observer(launch, self._progress)
        if cpp:
            self._observer.preload([], cpp=True)  # or each child would ask the compiler again

    def examine(self, programs: Sequence[Program], *, seed: int = 0) -> Iterator[Outcome]:
        """Yield the outcome of each program, observed by a child that knows no others.

        Args:
            programs: The programs, which may have the same name.
            seed: The seed of weights and inputs.

        Raises:
            StoppedError: The run ends.
        """
        return self.examine_with([(program, seed) for program in programs])

    def examine_with(self, trials: Sequence[tuple[Program, int]]) -> Iterator[Outcome]:
        """Yield the outcome of each program with a seed, as :meth:`examine` does."""
        named = [
            (replace(program, name=f"{program.name}.{index}"), seed)
            for index, (program, seed) in enumerate(trials)
        ]
        self._file.write_text(zoo_text([program for program, _ in named]), encoding="utf-8")
        self._observer.end_child()
        key = f"block {next(self._blocks)}"
        for program, seed in named:
            if self._stop.is_set():
                raise StoppedError
            request = Request(
                case=program.case,
                wants=("capture", "vary") if program.varies else ("capture",),
                backend=program.backend,
                seed=seed,
            )
            observed = self._observer.observe(
                request, model=key, device=program.device, timeout_s=self._timeout_s
            )
            if observed.failure is not None and observed.failure.stage in ("start", "build"):
                key = f"block {next(self._blocks)}"  # it must not end the others
            yield outcome_of(observed)

    def require(self, device: str) -> None:
        """Refuse programs for a device that this machine lacks.

        Raises:
            NoDeviceError: A child sees no such device.
        """
        environment = self._observer.environment()
        if environment.device(device) is None:
            raise NoDeviceError(f"torch {environment.versions['torch']} sees no such device")

    def first_failing(
        self, programs: Sequence[Program], suits: Symptom, until: float
    ) -> Program | None:
        """Return the first program that fails in a certain way; None if none does.

        Args:
            programs: The programs.
            suits: How it fails.
            until: When to end, on the monotonic clock.
        """
        for program, outcome in zip(programs, self.examine(programs), strict=True):
            if outcome.symptom is not None and outcome.symptom.is_like(suits):
                return program
            if time.monotonic() > until:
                break
        return None

    def close(self) -> None:
        """End the child and its server."""
        self._observer.close()

    def _progress(self, case_id: str, stage: Stage, elapsed_s: float, at_work: str) -> None:
        if self._stop.is_set():
            raise StoppedError
