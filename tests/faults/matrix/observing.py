"""Observes cells and their twins, each in a child of its own, and has them judged."""

from __future__ import annotations

import itertools
import json
import os
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
from compilegate.records.environment import Environment
from compilegate.records.observation import Observation, Stage
from compilegate.records.request import Request
from compilegate.records.verdict import Verdict
from compilegate.session.workers import Share
from compilegate.zoo import tiers
from tests.faults.catalogue import SOUND
from tests.faults.matrix.cells import Cell, models, planted
from tests.faults.matrix.verdicts import Filled, Planted, Sound, judge

CHECKOUT = Path(__file__).resolve().parents[3]
ZOO = Path(__file__).with_name("zoo.py")


def twin_of(cell: Cell) -> str:
    """Return the name of the twin of a cell: the case, and what is observed of it."""
    return f"{cell.case.id} {' '.join(cell.kind.wants)}"


def results_of(folder: Path, cell: Cell) -> Path:
    """Return the folder of the kept results of a cell's twin, below that of the matrix."""
    return folder / "sound" / twin_of(cell)


class StoppedError(Exception):
    """The time is over while a case is observed."""


class Station:
    """Observes one case after another. The cases of one model share a child.

    Args:
        folder: The folder of the matrix: kept results of twins, and compiled code.
        name: Distinguishes it from other stations.
        backend: The compiler backend.
        stop: Ends the observation of a case early.
        cells: The cells that it may observe.
        share: Its part of the machine.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        backend: str,
        stop: threading.Event,
        cells: list[Cell],
        *,
        share: Share,
    ) -> None:
        self._folder, self._own = folder, folder / f"station-{name}"
        self._backend, self._stop = backend, stop
        self._own.mkdir(parents=True, exist_ok=True)
        launch = Launch(
            zoo=(str(ZOO),),
            environment={
                "COMPILEGATE_PLANTED": str(self._own),
                "COMPILEGATE_EFFECTS": str(self._own),
                # The zoo imports tests.
                "PYTHONPATH": ":".join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH")))),
                "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"),
                **share.environment(),
            },
            root=str(CHECKOUT),
        )
        self._observer = Observer(launch, self._progress)
        on_cpu = any(cell.case.device == "cpu" for cell in cells)
        self._observer.preload(models(cells), cpp=on_cpu and backend == "inductor")
        self._orders = itertools.count()
        self._environment: Environment | None = None
        self._budgets: Budgets = budgets_toml.read([], sorted(SHIPPED_BUDGETS.glob("*.toml")))

    @property
    def environment(self) -> Environment:
        """The environment of its children."""
        if self._environment is None:
            self._environment = self._observer.environment()
        return self._environment

    def has_results(self, cell: Cell) -> bool:
        """Whether the results of a cell's twin are kept."""
        return results_of(self._folder, cell).exists()

    def observe_twin(self, cell: Cell) -> Sound:
        """Observe the twin of a cell, and keep its results.

        Raises:
            StoppedError: The time is over.
        """
        kept = results_of(self._folder, cell)
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        seen, found = self._observe(cell, SOUND)
        return Sound.of(twin_of(cell), seen, found)

    def fill(self, cell: Cell, twin: Sound) -> Filled:
        """Observe a case with a fault, and judge the cell.

        Raises:
            StoppedError: The time is over.
        """
        began = time.monotonic()
        marks = self._own / f"{cell.kind.name}.{cell.case.model}"
        for file in (self._own / "changes", marks):
            file.unlink(missing_ok=True)
        if cell.kind.alone:
            self._observer.end_child()
        seen, found = self._observe(cell, cell.kind.name)
        if cell.kind.alone:
            self._observer.end_child()
        changes = [json.loads(line) for line in _lines(self._own / "changes")]
        filled = judge(cell.kind, twin, Planted(seen, found, _lines(marks), changes))
        return replace(filled, case=cell.case.id, seconds=time.monotonic() - began)

    def close(self) -> None:
        """End the child and its server."""
        self._observer.close()

    def _observe(self, cell: Cell, kind: str) -> tuple[Observation, list[Verdict]]:
        """Observe a case with a kind of fault, and judge it by the budget of the shipped model."""
        environment, case = self.environment, planted(cell.case)
        kept = results_of(self._folder, cell)
        (self._own / "order").write_text(f"{next(self._orders)}\n{kind}\n{kept}")
        request = Request(case=case.id, wants=cell.kind.wants, backend=self._backend)
        seen = self._observer.observe(
            request,
            model=case.model,
            device=case.device,
            timeout_s=tiers.timeout_s(case, "standard"),
        )
        torch = environment.versions.get("torch", "0")
        budget = self._budgets.budget(cell.case, Machine.of(environment, case.device), torch)
        return seen, list(verdicts(seen, budget))

    def _progress(self, case_id: str, stage: Stage, elapsed_s: float, at_work: str) -> None:
        if self._stop.is_set():
            raise StoppedError


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


#: Called with each cell as soon as it is filled.
Report = Callable[[Filled], None]
