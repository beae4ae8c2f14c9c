"""Spreads cases over xdist's workers: a worker stays with a model, and helps another at the end.

xdist does not honour ``xdist_group`` marks together with session-scoped parameters. The scheduler
therefore reads the case from the node id.

Tests that judge by the pairs of all cases run on one worker, when the others have ended: it then
has the machine for itself.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from compilegate.records.case import Case, case_id_of, model_of

#: What the tests are called together that wait for the observations of all cases.
_LAST = "after all cases"
#: A worker runs a test when it knows the next one, so it needs as many.
_LEAST = 2


class CaseScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Load scheduling by case. Cases of a model share imports and weights on the same worker.

    A worker that has no model takes the one with the most seconds left for each worker that it has,
    so that no long one is left at the end. Several workers then share a model.

    Args:
        config: pytest's configuration.
        log: xdist's log.
        seconds: Returns the seconds of a case.
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
                self.workqueue.move_to_end(self._next(node), last=False)
            super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        if self._only_last:
            self._assign_last()
        elif node.shutting_down:
            return
        elif not self.workqueue:
            node.shutdown()
        elif self._pending_of(self.assigned_work[node]) < _LEAST:
            self._assign_work_unit(node)

    def _next(self, node: WorkerController) -> str:
        """Return the next case of a worker: of its own model, if that has any left.

        Those in training come first, and the longest of them: they share a reference.
        """
        waiting: dict[str, list[str]] = {}
        for scope in self.workqueue:
            waiting.setdefault(model_of(scope) or scope, []).append(scope)
        own = self._model_of(node)
        if own not in waiting:
            workers = Counter(map(self._model_of, self.nodes))

            def left_for_each(model: str) -> float:
                return sum(map(self._taking, waiting[model])) / (workers[model] + 1)

            own = max(waiting, key=left_for_each)
        return max(waiting[own], key=lambda scope: ("-train-" in scope, self._taking(scope)))

    def _model_of(self, node: WorkerController) -> str:
        """Return the model that a worker was given last; empty if none."""
        last = next(reversed(self.assigned_work[node]), "")
        return model_of(last) or last

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
        """Forget a worker that ended. Others get the cases that it has not finished."""
        work = self.assigned_work[node].items()
        self.assigned_work[node] = {s: tests for s, tests in work if not all(tests.values())}
        crashed: str | None = super().remove_node(node)
        return crashed

    def _taking(self, scope: str) -> float:
        with contextlib.suppress(ValueError):  # a test that judges no case
            return self._seconds(Case.parse(scope))
        return -1.0 if scope == _LAST else 0.0

    def _split_scope(self, nodeid: str) -> str:
        return _LAST if self._waits(nodeid) else case_id_of(nodeid) or nodeid

    def abandon(self) -> None:
        """Ask the workers to give back all tests that they have not begun.

        A worker has the tests of whole cases waiting, and runs them even if the session stops.
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
