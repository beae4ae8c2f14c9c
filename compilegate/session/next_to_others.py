"""Observes cases next to those of other workers, so that verdicts are those of one worker alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from compilegate.processes.attempt import Progress
from compilegate.processes.memory_shares import MemoryShares
from compilegate.records.case import Case
from compilegate.records.observation import (
    EARLIER_ATTEMPTS,
    WAITING_FOR_MEMORY,
    Observation,
)
from compilegate.records.statistics import is_busy
from compilegate.session.plan import Plan
from compilegate.session.workers import Share
from compilegate.upgrade.paired_baseline import CaseRequest

#: The share of a device's memory that is planned. The rest is for what no case accounts for.
_PLANNED = 0.9
#: What a process holds of a GPU between two cases: its context, and a small reference.
_BETWEEN_CASES = 1 << 30
#: A case that ran out of memory is observed again with this many times as much.
_MORE = 3


class NextToOthers:
    """Observes cases of one worker while other workers observe theirs.

    A case waits until its memory is free. What the others may have spoiled is observed again: a
    case that ran out of memory, with three times as much and then with the whole device, and one
    that compiled for longer than its budget allows, in a turn. Under two versions, a case with an
    empty cache compiles in a turn at once, since the seconds of both are compared.

    Args:
        plan: The plan of the session. Its observer takes turns.
        progress: Called every few seconds while a case waits.
        observe: Observes a case, and the version in use, too, if there is one.
    """

    def __init__(
        self, plan: Plan, progress: Progress, observe: Callable[[CaseRequest], Observation]
    ) -> None:
        self._plan, self._progress, self._observe_at_once = plan, progress, observe
        self._memory: dict[str, MemoryShares] = {}

    def observe(self, asked: CaseRequest) -> Observation:
        """Observe a case."""
        alone = replace(asked, request=replace(asked.request, compiles_alone=True))
        if self._plan.paired is not None and asked.request.cold:
            asked = alone
        own = self._own(asked.case)
        made, had = self._observe(asked, own or self._expected(asked.case), at_least=own)
        capacity = self._shares(asked.case.device).capacity
        for wanted in (_MORE * had, capacity):
            if had < wanted <= capacity and self._lacked_memory(made, asked.case):
                made, had = self._observe(asked, wanted, at_least=wanted, before=made)
        seen = (made, *self._before(asked.case))
        if any(self._compiled_for_long(one, asked) for one in seen):
            return self._observe(alone, had, at_least=had, before=made)[0]
        return made

    def _lacked_memory(self, made: Observation, case: Case) -> bool:
        return any(one.status == "out_of_memory" for one in (made, *self._before(case)))

    def _before(self, case: Case) -> list[Observation]:
        """Return what was observed of a case under the version in use."""
        paired = self._plan.paired
        return [paired.observed[case.id]] if paired is not None else []

    def _observe(
        self,
        asked: CaseRequest,
        memory_bytes: int,
        *,
        at_least: int,
        before: Observation | None = None,
    ) -> tuple[Observation, int]:
        """Observe a case as soon as so much memory is free; return also how much it had.

        What the case waited, and what an attempt before took, counts as spent on it.
        """
        case, began = asked.case, time.monotonic()

        def waiting() -> None:
            self._progress(case.id, "start", 0.0, "waits for memory")

        shares = self._shares(case.device)
        with shares.taken(memory_bytes, waiting, at_least=at_least) as memory:
            waited_s = time.monotonic() - began
            # Under two versions, two children hold the case.
            self._plan.observer.memory = memory if self._plan.paired is None else None
            made = self._observe_at_once(asked)
            spent_s = {**made.spent_s}
            spent_s[WAITING_FOR_MEMORY] = spent_s.get(WAITING_FOR_MEMORY, 0.0) + waited_s
            if before is not None:
                spent_s[EARLIER_ATTEMPTS] = sum(before.spent_s.values())
            return replace(made, spent_s=spent_s), memory.planned

    def _compiled_for_long(self, made: Observation, asked: CaseRequest) -> bool:
        allowed_s = self._plan.budget(asked.case).max_compile_s
        seen = made.compile_time
        if not made.cold or seen is None or allowed_s is None:
            return False
        return seen.total_s > allowed_s and is_busy(seen.busy)

    def _own(self, case: Case) -> int:
        """Return the bytes of a case in an earlier run; 0 if it was not observed there.

        Under two versions, both hold the case at the same time.
        """
        seen = self._plan.earlier.memory_bytes(case)
        return seen if self._plan.paired is None else 2 * seen

    def _expected(self, case: Case) -> int:
        """Return the bytes that a case begins with, if no earlier run has observed it.

        They are the most of cases like it, but no more than an equal part of all: its first call
        shows what it needs, and a small case does not wait for the memory of a large sibling. Under
        two versions, nothing shows that.
        """
        sharing = self._plan.share.workers_of_device(case.device)
        equal = self._shares(case.device).capacity // sharing
        most = self._plan.earlier.most_memory_bytes(case)
        if not most:
            return equal
        return min(most, equal) if self._plan.paired is None else 2 * most

    def _shares(self, device: str) -> MemoryShares:
        if device not in self._memory:
            plan = self._plan
            shares = MemoryShares(_folder(plan.share, device), _capacity(plan, device))
            plan.resources.callback(shares.close)
            self._memory[device] = shares
        return self._memory[device]


def _folder(share: Share, device: str) -> Path:
    gpu = f"-{share.gpu}" if device == "cuda" and share.gpu else ""
    return Path(share.turns) / f"memory-{device}{gpu}".replace("/", "_")


def _capacity(plan: Plan, device: str) -> int:
    found = plan.environment.device(device) if plan.environment else None
    if found is None:
        return 0
    between = _BETWEEN_CASES * plan.share.workers_of_device(device) if device == "cuda" else 0
    return max(int(_PLANNED * found.memory_bytes) - between, 0)
