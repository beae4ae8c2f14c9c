"""Observes cells and their twins, each in a child of its own, and has them judged."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from compilegate.judging import budgets_toml
from compilegate.judging.budgets import Budgets, Machine
from compilegate.judging.rules import verdicts
from compilegate.layout import SHIPPED_BUDGETS
from compilegate.processes.observer import Observer
from compilegate.processes.server_process import Launch
from compilegate.records.case import Case
from compilegate.records.environment import Environment
from compilegate.records.observation import Observation, Stage, Want
from compilegate.records.request import Request
from compilegate.records.verdict import Verdict
from compilegate.zoo import tiers
from tests.faults.matrix.cells import Cell, models, sound
from tests.faults.matrix.verdicts import Filled, Planted, Sound, judge

CHECKOUT = Path(__file__).resolve().parents[3]
ZOO = Path(__file__).with_name("zoo.py")
#: What is observed of every cell. Twins are observed for all kinds, so their memory is, too.
WANTS: tuple[Want, ...] = ("capture", "vary", "reuse", "random")
TWIN_WANTS: tuple[Want, ...] = ("capture", "memory", "vary", "reuse", "random")


class StoppedError(Exception):
    """The time is over while a case is observed."""


class Station:
    """Observes one case after another, each in a child that observes nothing else.

    Args:
        folder: The folder of the matrix: kept results of twins, and compiled code.
        name: Distinguishes it from other stations.
        backend: The compiler backend.
        stop: Ends the observation of a case early.
        cells: The cells that it may observe.
    """

    def __init__(
        self, folder: Path, name: str, backend: str, stop: threading.Event, cells: list[Cell]
    ) -> None:
        self._folder, self._own = folder, folder / f"station-{name}"
        self._backend, self._stop = backend, stop
        self._own.mkdir(parents=True, exist_ok=True)
        launch = Launch(
            zoo=(str(ZOO),),
            environment={
                "COMPILEGATE_PLANTED": str(self._own),
                "COMPILEGATE_EFFECTS": str(self._own),
                "PYTHONPATH": str(CHECKOUT),  # the zoo imports tests
                "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"),
                "TORCHINDUCTOR_COMPILE_THREADS": "1",
            },
            root=str(CHECKOUT),
        )
        self._observer = Observer(launch, self._progress)
        on_cpu = any(cell.case.device == "cpu" for cell in cells)
        self._observer.preload(models(cells), cpp=on_cpu and backend == "inductor")
        self._environment: Environment | None = None
        self._budgets: Budgets = budgets_toml.read([], sorted(SHIPPED_BUDGETS.glob("*.toml")))

    @property
    def environment(self) -> Environment:
        """The environment of its children."""
        if self._environment is None:
            self._environment = self._observer.environment()
        return self._environment

    def results_of(self, case: Case) -> Path:
        """Return the folder of the kept results of a twin."""
        return self._folder / "sound" / case.id

    def observe_twin(self, case: Case) -> Sound:
        """Observe the twin of a case, and keep its results.

        Raises:
            StoppedError: The time is over.
        """
        kept = self.results_of(case)
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        seen, found = self._observe(sound(case), case, TWIN_WANTS)
        return Sound.of(case.id, seen, found)

    def fill(self, cell: Cell, twin: Sound) -> Filled:
        """Observe a case with a fault, and judge the cell.

        Raises:
            StoppedError: The time is over.
        """
        began = time.monotonic()
        for name in ("changes", f"{cell.kind.name}.{cell.case.model}"):
            (self._own / name).unlink(missing_ok=True)
        wants = (*WANTS, *cell.kind.wants)
        seen, found = self._observe(cell.planted, cell.case, wants)
        reports = _lines(self._own / f"{cell.kind.name}.{cell.case.model}")
        changes = [json.loads(line) for line in _lines(self._own / "changes")]
        filled = judge(cell.kind, twin, Planted(seen, found, reports, changes))
        return replace(filled, seconds=time.monotonic() - began)

    def close(self) -> None:
        """End the child and its server."""
        self._observer.close()

    def _observe(
        self, case: Case, shipped: Case, wants: tuple[Want, ...]
    ) -> tuple[Observation, list[Verdict]]:
        """Observe a case, and judge it by the budget of the shipped model."""
        environment = self.environment
        (self._own / "sound").write_text(str(self.results_of(shipped)))
        self._observer.end_child()
        request = Request(case=case.id, wants=wants, backend=self._backend)
        timeout_s = tiers.timeout_s(case, "standard")
        seen = self._observer.observe(
            request, model=case.model, device=case.device, timeout_s=timeout_s
        )
        torch = environment.versions.get("torch", "0")
        budget = self._budgets.budget(shipped, Machine.of(environment, shipped.device), torch)
        return seen, list(verdicts(seen, budget))

    def _progress(self, case_id: str, stage: Stage, elapsed_s: float, at_work: str) -> None:
        if self._stop.is_set():
            raise StoppedError


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


#: Called with each cell as soon as it is filled.
Report = Callable[[Filled], None]
