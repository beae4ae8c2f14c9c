"""Spreads cases over xdist's workers: all cases of a model run on one, the longest model first.

xdist does not honour ``xdist_group`` marks together with session-scoped parameters. The scheduler
therefore reads the model from the node id.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from compilegate.records.case import Case, case_id_of, model_of


class ModelScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Load scheduling by model, so that the cases of a model share imports and weights.

    Args:
        config: pytest's configuration.
        log: xdist's log.
        seconds: Returns the seconds of a case. A worker takes the model with the most seconds, so
            that no long one begins last.
    """

    def __init__(self, config: pytest.Config, log: Any, seconds: Callable[[Case], float]) -> None:
        super().__init__(config, log)
        self._seconds = seconds

    def _assign_work_unit(self, node: WorkerController) -> None:
        if self.workqueue:
            self.workqueue.move_to_end(max(self.workqueue, key=self._taking), last=False)
        super()._assign_work_unit(node)

    def _taking(self, scope: str) -> float:
        total_s = 0.0
        for case in {case_id_of(nodeid) for nodeid in self.workqueue[scope]}:
            with contextlib.suppress(ValueError):  # a test that judges no case
                total_s += self._seconds(Case.parse(case))
        return total_s

    def _split_scope(self, nodeid: str) -> str:
        return model_of(case_id_of(nodeid)) or nodeid

    def abandon(self) -> None:
        """Ask the workers to give back all tests that they have not begun.

        A worker has the tests of whole models waiting, and runs them even if the session stops.
        """
        for node, work in self.assigned_work.items():
            numbers = {nodeid: n for n, nodeid in enumerate(self.registered_collections[node])}
            for nodeid in (
                n for tests in work.values() for n, is_over in tests.items() if not is_over
            ):
                # One by one: a worker gives back all tests of a message or none.
                node.send_steal([numbers[nodeid]])

    def remove_pending_tests_from_node(
        self, node: WorkerController, indices: Sequence[int]
    ) -> None:
        """Note the tests that a worker gave back. Nobody runs them."""
        for index in indices:
            nodeid = self.registered_collections[node][index]
            self.assigned_work[node][self._split_scope(nodeid)][nodeid] = True
