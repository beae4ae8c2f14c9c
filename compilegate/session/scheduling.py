"""Spreads cases over xdist's workers: all cases of a model run on one, the longest model first.

xdist does not honour ``xdist_group`` marks together with session-scoped parameters. The scheduler
therefore reads the model from the node id.

Tests that judge by the pairs of all cases run on one worker, when the others have ended: it then
has the machine for itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from compilegate.records.case import Case, case_id_of, model_of

#: What the tests are called together that wait for the observations of all cases.
_LAST = "after all cases"


class ModelScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Load scheduling by model, so that the cases of a model share imports and weights.

    Args:
        config: pytest's configuration.
        log: xdist's log.
        seconds: Returns the seconds of a case. A worker takes the model with the most seconds, so
            that no long one begins last.
        waits: Whether a test, given its node id, waits for the observations of all cases.
    """

    def __init__(
        self,
        config: pytest.Config,
        log: Any,
        seconds: Callable[[Case], float],
        waits: Callable[[str], bool] = lambda nodeid: False,
    ) -> None:
        super().__init__(config, log)
        self._seconds, self._waits = seconds, waits

    @property
    def _only_last(self) -> bool:
        """Whether only the tests that wait have no worker yet."""
        return [*self.workqueue] == [_LAST]

    def _assign_work_unit(self, node: WorkerController) -> None:
        if not self._only_last:
            if self.workqueue:
                self.workqueue.move_to_end(max(self.workqueue, key=self._taking), last=False)
            super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        if self._only_last:
            self._assign_last()
        else:
            super()._reschedule(node)

    def _assign_last(self) -> None:
        """Give one worker the tests that wait, when the others have ended all of theirs."""
        living = [node for node in self.nodes if not node.shutting_down]
        if not living:
            return
        keeper = max(living, key=lambda node: self._pending_of(self.assigned_work[node]))
        others = [node for node in self.nodes if node is not keeper]
        for node in others:
            if node in living:
                node.shutdown()
        if not any(self._pending_of(self.assigned_work[node]) for node in others):
            super()._assign_work_unit(keeper)

    def remove_node(self, node: WorkerController) -> str | None:
        """Forget a worker that ended. Others get the models that it has not finished."""
        work = self.assigned_work[node].items()
        self.assigned_work[node] = {s: tests for s, tests in work if not all(tests.values())}
        crashed: str | None = super().remove_node(node)
        return crashed

    def _taking(self, scope: str) -> float:
        if scope == _LAST:
            return -1.0
        total_s = 0.0
        for case in {case_id_of(nodeid) for nodeid in self.workqueue[scope]}:
            with contextlib.suppress(ValueError):  # a test that judges no case
                total_s += self._seconds(Case.parse(case))
        return total_s

    def _split_scope(self, nodeid: str) -> str:
        return _LAST if self._waits(nodeid) else model_of(case_id_of(nodeid)) or nodeid

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
