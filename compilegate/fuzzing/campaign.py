"""A run of the fuzzer: several workers for some minutes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from compilegate.fuzzing.state import State
from compilegate.fuzzing.worker import BLOCK, Worker, generator

#: Seconds between two reports.
_REPORT_S = 30.0
#: Processors for one worker: one compiles while the other runs.
_CORES = 2


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is asked of a run.

    Attributes:
        folder: Where everything is written.
        seed: The seed of all programs.
        minutes: How long it runs.
        programs: After how many programs it ends; None for no limit.
        workers: The number of workers; None for one for each two processors.
        inductor_share: The share of programs that Inductor compiles.
        device: Where they are compiled and called.
        reduction_s: Seconds that one reduction may take.
        plant: A zoo file that changes PyTorch in the children.
    """

    folder: Path
    seed: int = 0
    minutes: float = 10.0
    programs: int | None = None
    workers: int | None = None
    inductor_share: float = 0.5
    device: str = "cpu"
    reduction_s: float = 300.0
    plant: Path | None = None


class _Share:
    """Hands out blocks until enough programs were taken."""

    def __init__(self, programs: int | None) -> None:
        self._left, self._lock = programs, threading.Lock()

    def __call__(self) -> int:
        with self._lock:
            if self._left is None:
                return BLOCK
            count = min(BLOCK, self._left)
            self._left -= count
            return count


def run(options: Options, state: State, report: Callable[[State, float], None]) -> bool:
    """Run the workers until the time is over, or the user stops them.

    Args:
        options: What is asked.
        state: Keeps what is done.
        report: Called now and then with the state and the seconds since the beginning.

    Returns:
        Whether the user stopped it.

    Raises:
        NoDeviceError: The machine lacks the device.
    """
    cores = len(os.sched_getaffinity(0))
    count = options.workers or max(cores // _CORES, 1)
    stop, share = threading.Event(), _Share(options.programs)
    (options.folder / "cache").mkdir(parents=True, exist_ok=True)
    workers = [
        Worker(
            str(index),
            options.folder,
            state,
            stop,
            reduction_s=options.reduction_s,
            plant=options.plant,
            threads=max(cores // count, 1),
            cpp=options.inductor_share > 0 and options.device == "cpu",
            generated=generator(options.seed, options.inductor_share, options.device),
        )
        for index in range(count)
    ]
    if options.device != "cpu":
        workers[0].require(options.device)
    errors: list[BaseException] = []

    def work(worker: Worker) -> None:
        try:
            worker.run(share)
        except BaseException as error:
            errors.append(error)
            stop.set()

    threads = [threading.Thread(target=work, args=(worker,)) for worker in workers]
    began = reported = time.monotonic()
    until = began + 60 * options.minutes
    interrupted = False
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        try:
            for thread in threads:
                thread.join(0.2)
            now = time.monotonic()
            if now >= until:
                stop.set()
            if now - reported >= _REPORT_S:
                reported = now
                report(state, now - began)
        except KeyboardInterrupt:
            interrupted = True
            stop.set()
    if errors:
        raise errors[0]
    report(state, time.monotonic() - began)
    return interrupted
