"""A worker: observes programs, confirms those that fail, reduces them and finds their stage."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from msgspec.structs import replace as replace_struct

from compilegate.fuzzing.examiner import Examiner, NoDeviceError, StoppedError
from compilegate.fuzzing.generate import generate
from compilegate.fuzzing.outcome import Symptom
from compilegate.fuzzing.program import Program
from compilegate.fuzzing.reduction import Reducer
from compilegate.fuzzing.script import entry_text, script_text
from compilegate.fuzzing.state import Done, Finding, State

#: The backends of the ladder, from the fewest stages of the compiler to all.
LADDER = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")
#: Programs that one child observes, one after the other.
BLOCK = 50
#: Seeds of the data that confirm a failure, and how many of them must show it, with the first.
SEEDS, CONFIRMED = (1, 2), 2
#: A program with a known culprit among its operators is reduced this often; then it is *again*.
REDUCED_AGAIN = 1
#: Seconds that a script may take.
_SCRIPT_S = 300.0
#: How much of a complaint the state keeps.
_LONGEST = 300


class Worker:
    """Takes blocks of programs until it is stopped.

    Args:
        name: Its name.
        folder: The folder of the run.
        state: Shared by all workers.
        stop: Ends it.
        reduction_s: Seconds that the reduction of one program may take.
        plant: A zoo file that changes PyTorch in the children.
        threads: Threads of one operator.
        cpp: Whether Inductor compiles some programs.
        generated: Makes the program with a number.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        state: State,
        stop: threading.Event,
        *,
        reduction_s: float,
        plant: Path | None,
        threads: int,
        cpp: bool,
        generated: Callable[[int], Program],
    ) -> None:
        self._folder, self._state, self._stop = folder, state, stop
        self._reduction_s, self._plant, self._generated = reduction_s, plant, generated
        self._examiner, self._second = (
            Examiner(folder, one, stop, plant=plant, threads=threads, cpp=cpp)
            for one in (name, f"{name}-again")
        )

    def require(self, device: str) -> None:
        """Refuse to judge programs for a device that this machine lacks, and end.

        Raises:
            NoDeviceError: A child sees no such device.
        """
        try:
            self._examiner.require(device)
        except NoDeviceError:
            self._examiner.close()
            raise

    def run(self, most: Callable[[], int]) -> None:
        """Judge programs until the run ends.

        Args:
            most: Returns how many more programs a block may have.
        """
        try:
            while not self._stop.is_set() and (count := most()) > 0:
                self._judge([self._generated(n) for n in self._state.numbers(count)])
        except StoppedError:
            pass
        finally:
            self._examiner.close()
            self._second.close()

    def _judge(self, programs: Sequence[Program]) -> None:
        began = time.monotonic()
        for program, outcome in zip(programs, self._examiner.examine(programs), strict=True):
            done = Done(
                number=number_of(program),
                backend=program.backend,
                word=outcome.word,
                why=outcome.why[:_LONGEST],
            )
            if outcome.symptom is not None:
                done = self._pursue(program, outcome.symptom, done)
            self._state.add(replace_struct(done, seconds=round(time.monotonic() - began, 2)))
            began = time.monotonic()

    def _pursue(self, program: Program, symptom: Symptom, done: Done) -> Done:
        """Confirm, reduce and keep a failure; return what became of the program."""
        state, line = self._state, symptom.line
        if not self._is_confirmed(program, symptom, SEEDS, CONFIRMED - 1):
            return replace_struct(done, word="unstable", why=line[:_LONGEST])
        stage = self._stage(program, symptom)
        known = state.known(symptom.kind, stage, symptom.what, {*program.operators})
        if known is not None and state.again[known.index] >= REDUCED_AGAIN:
            return _again(done, known, line)
        at_stage = replace(program, backend=stage)
        reducer = Reducer(
            lambda some, until: self._second.first_failing(some, symptom, until),
            self._reduction_s,
        )
        reduced = at_stage
        try:
            reduced = reducer.reduce(at_stage)
            if not self._is_confirmed(reduced, symptom, (0, *SEEDS), CONFIRMED):
                reduced = at_stage
            (last,) = self._second.examine([reduced])
            line = last.symptom.line if last.symptom is not None else line
        except StoppedError:  # what was reached so far is still a finding
            reduced = reducer.best or at_stage
        known = state.known(symptom.kind, stage, symptom.what, {*reduced.operators})
        if known is not None:
            return _again(done, known, line)
        self._keep(program, reduced, symptom, line)
        return replace_struct(done, why=line[:_LONGEST])

    def _is_confirmed(
        self, program: Program, suits: Symptom, seeds: Sequence[int], least: int
    ) -> bool:
        """Whether enough data show the failure, in a child that knows no other program."""
        shown = 0
        for outcome in self._second.examine_with([(program, seed) for seed in seeds]):
            shown += outcome.symptom is not None and outcome.symptom.is_like(suits)
            if shown >= least:
                return True
        return False

    def _stage(self, program: Program, suits: Symptom) -> str:
        """Return the first backend of the ladder that shows the failure."""
        earlier = LADDER[: LADDER.index(program.backend)]
        trials = [replace(program, backend=backend) for backend in earlier]
        for backend, outcome in zip(earlier, self._second.examine(trials), strict=True):
            if outcome.symptom is not None and outcome.symptom.is_like(suits):
                return backend
        return program.backend

    def _keep(self, program: Program, reduced: Program, symptom: Symptom, line: str) -> None:
        index = self._state.next_index()
        script = self._folder / f"finding-{index}.py"
        script.write_text(script_text(reduced, line, 0), encoding="utf-8")
        entry = self._folder / f"finding-{index}.zoo.py"
        entry.write_text(entry_text(reduced, replace(symptom, line=line)), encoding="utf-8")
        self._state.add(
            Finding(
                index=index,
                number=number_of(program),
                kind=symptom.kind,
                stage=reduced.backend,
                line=line,
                what=symptom.what,
                program=reduced,
                seed=0,
                alone=self._plant is None and shows_alone(script),
            )
        )


def _again(done: Done, known: Finding, line: str) -> Done:
    """Return the record of a program that shows a finding again."""
    return replace_struct(done, word="again", finding=known.index, why=line[:_LONGEST])


def number_of(program: Program) -> int:
    """Return the number of a program."""
    return int(program.name.rpartition(".")[2])


def generator(seed: int, inductor_share: float, device: str) -> Callable[[int], Program]:
    """Return a function that makes the program with a number."""
    return lambda number: generate(seed, number, inductor_share=inductor_share, device=device)


def shows_alone(script: Path) -> bool:
    """Whether a script fails in a fresh interpreter: with status 1, by a crash or a hang."""
    try:
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, timeout=_SCRIPT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode == 1 or done.returncode < 0
