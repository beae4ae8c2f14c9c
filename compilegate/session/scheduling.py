"""Spreads cases over xdist's workers: a worker stays with a model, and helps another at the end.

xdist does not honour ``xdist_group`` marks together with session-scoped parameters. The scheduler
therefore reads the case from the node id.

Tests that judge by the pairs of all cases run on one worker, when the others have ended: it then
has the machine for itself.
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
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
        #: By model: what its cases took that have ended, and what was planned for them.
        self._spent_s: dict[str, float] = defaultdict(float)
        self._planned_s: dict[str, float] = defaultdict(float)

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
        while not (self._only_last or node.shutting_down):
            if not self.workqueue:
                node.shutdown()
            elif self._pending_of(self.assigned_work[node]) < _LEAST:
                self._assign_work_unit(node)  # one may have a single test, and more be needed
            else:
                return
        if self._only_last:
            self._assign_last()

    def mark_test_complete(
        self, node: WorkerController, item_index: int, duration: float = 0
    ) -> None:
        """Note how long a case took: those of the same model that are left take as much longer."""
        scope = self._split_scope(self.registered_collections[node][item_index])
        self._spent_s[model_of(scope)] += duration
        if sum(not is_over for is_over in self.assigned_work[node][scope].values()) == 1:
            self._planned_s[model_of(scope)] += max(self._taking(scope), 0.0)
        super().mark_test_complete(node, item_index, duration)

    def _next(self, node: WorkerController) -> str:
        """Return the next case of a worker: of its own model, if that has any left.

        Of them it takes the longest one in training, since these share a reference. Training needs
        more memory, so the second half of the workers begins with the others.
        """
        waiting: dict[str, list[str]] = {}
        for scope in self.workqueue:
            waiting.setdefault(model_of(scope) or scope, []).append(scope)
        own = model_of(self._last_of(node))
        if own not in waiting:
            workers = Counter(model_of(self._last_of(other)) for other in self.nodes)

            def left_for_each(model: str) -> float:
                return self._left_s(model, waiting[model]) / (workers[model] + 1)

            own = max(waiting, key=left_for_each)
        training = sum(_trains(self._last_of(other)) for other in self.nodes if other is not node)
        trains = 2 * training < len(self.nodes)
        return max(waiting[own], key=lambda scope: (_trains(scope) == trains, self._taking(scope)))

    def _left_s(self, model: str, scopes: Iterable[str]) -> float:
        """Return the seconds of cases that are left, by what others of the model have taken."""
        planned_s, spent_s = self._planned_s[model], self._spent_s[model]
        if not (planned_s and spent_s):
            planned_s, spent_s = sum(self._planned_s.values()), sum(self._spent_s.values())
        pace = spent_s / planned_s if planned_s and spent_s else 1.0
        return pace * sum(map(self._taking, scopes))

    def _last_of(self, node: WorkerController) -> str:
        """Return the case that a worker was given last; empty if none."""
        return next(reversed(self.assigned_work[node]), "")

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


def _trains(scope: str) -> bool:
    return "-train-" in scope
