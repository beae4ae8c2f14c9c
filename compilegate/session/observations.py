"""The observations of a session: each case is observed once, for all tests that need it."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import pytest

from compilegate.processes import lost_device
from compilegate.processes.attempt import Progress
from compilegate.records.case import Case
from compilegate.records.observation import WANTS, Observation, Want
from compilegate.records.request import Request
from compilegate.runs.packed import PackedObservations
from compilegate.session.next_to_others import NextToOthers
from compilegate.session.plan import Plan
from compilegate.upgrade.paired_baseline import CaseRequest
from compilegate.zoo import tiers

#: Seconds that the rounds of one case may take. On CPU a call is slow, and many cases must fit.
TIMING_BUDGET_S = {"smoke": 4.0, "standard": 15.0, "full": 15.0}

#: The fields of an observation that hold measurements, and the want that asks for each.
_MEASURED: dict[str, Want] = {
    "timing": "time",
    "memory": "memory",
    "energy": "energy",
    "compile_work": "compile_work",
}

#: Where the session keeps its observations.
OBSERVATIONS = pytest.StashKey["Observations"]()


class Observations:
    """Observes the cases of a plan, or takes them from the stored run.

    Args:
        plan: The plan of the session.
        progress: Called while a case is observed.
        ends_at: When no case is begun any more, in seconds since the epoch; 0 for never.

    Attributes:
        wants: What the selected tests need, by case id.
        ends_at: As given.
    """

    def __init__(self, plan: Plan, progress: Progress, ends_at: float = 0.0) -> None:
        self.wants: dict[str, tuple[Want, ...]] = {}
        self.ends_at = ends_at
        self._plan = plan
        self._observed = PackedObservations()
        #: What other workers have observed.
        self._others = PackedObservations()
        #: Why a kind of device cannot be used any more, in this session.
        self._lost: dict[str, str] = {}
        plan.observer.progress = progress
        self._observe = self._alone
        if plan.observer.turns:
            self._observe = NextToOthers(plan, progress, self._alone).observe
        if plan.paired is not None:
            plan.paired.report_progress(progress)

    def want(self, wanted: Mapping[str, Iterable[Want]]) -> None:
        """Set what the collected tests need of each case: the union, in the order of observing."""
        self.wants = {case_id: _in_order(set(some)) for case_id, some in wanted.items()}

    def add(self, observed: Mapping[str, Observation]) -> None:
        """Keep what other workers have observed, by case id."""
        self._others.update(observed)

    @property
    def unobserved(self) -> list[Case]:
        """The cases of collected tests that can and may be observed, and are not yet."""
        plan = self._plan
        if self._is_late:
            return []
        return [
            case
            for case in plan.cases
            if case.id in self.wants and case.id not in self._observed and not plan.lacks(case)
        ]

    def why_unobservable(self, case: Case) -> str:
        """Return why a case that is not observed yet cannot be; empty if nothing is known."""
        return "" if case.id in self._observed else self._lost.get(case.device, "")

    @property
    def _is_late(self) -> bool:
        return bool(self.ends_at) and time.time() >= self.ends_at

    def is_too_late(self, case: Case) -> bool:
        """Whether the case would have to be observed, and no case is begun any more."""
        return self._is_late and case.id not in self._observed and not self._suffices(case)

    def observe(self, case: Case) -> tuple[Observation, bool]:
        """Return the observation of a case, and whether this call made it."""
        if case.id in self._observed:
            return self._observed[case.id], False
        observation, new = self._stored(case), False
        if observation is None or not self._suffices(case):
            wants = self.wants.get(case.id, WANTS)
            observation, new = self._complete(case, observation, wants), True
        self._observed[case.id] = observation
        return observation, new

    def _stored(self, case: Case) -> Observation | None:
        """Return the observation by another worker, or by the stored run."""
        if case.id in self._others or self._plan.stored is None:
            return self._others.get(case.id)
        return self._plan.stored.observations.get(case.id)

    def _suffices(self, case: Case) -> bool:
        """Whether the observation by another worker, or by the stored run, is all that is asked."""
        stored, wants = self._stored(case), self.wants.get(case.id, WANTS)
        return stored is not None and (self._plan.replays or self._is_whole(stored, wants))

    def ask(self, case: Case, wants: tuple[Want, ...] = ("capture", "time")) -> CaseRequest:
        """Return the request that a child gets for a case."""
        plan = self._plan
        tier = plan.tier[case.device]
        request = Request(
            case=case.id,
            wants=wants,
            cold=plan.is_cold(case),
            seed=plan.options.seed,
            backend=plan.options.backend,
            tf32=plan.options.tf32,
            speedup_threshold=plan.budget(case).min_speedup or 1.0,
            timing_budget_s=TIMING_BUDGET_S[tier],
            shares_gpu=plan.share.shares_gpu and case.device == "cuda",
            gpus=plan.share.gpus if case.device == "cuda" else (),
            account=str(turns.account) if (turns := plan.observer.turns) else "",
            processors=plan.share.part,
        )
        return CaseRequest(case, request, plan.options.case_timeout or tiers.timeout_s(case, tier))

    def _is_whole(self, stored: Observation, wants: tuple[Want, ...]) -> bool:
        """Whether a resumed run has all wanted measurements of a case, also of the baseline."""
        if not set(wants) <= set(stored.wants):
            return False
        paired = self._plan.paired
        return paired is None or paired.has(stored)

    def _complete(
        self, case: Case, stored: Observation | None, wants: tuple[Want, ...]
    ) -> Observation:
        """Observe the wanted measurements, and keep those of a resumed run."""
        if stored is None:
            return self._make(case, wants)
        both = {*wants, *stored.wants}
        if stored.status != "completed" or self._plan.paired is not None:
            return self._make(case, _in_order(both))
        # Earlier measurements stay: the machine may be busier now.
        kept = {name: want for name, want in _MEASURED.items() if want in stored.wants}
        made = self._make(case, _in_order(both.difference(kept.values())))
        if made.status != "completed":
            return made
        return replace(
            made, wants=_in_order(both), **{name: getattr(stored, name) for name in kept}
        )

    def _alone(self, asked: CaseRequest) -> Observation:
        case, plan = asked.case, self._plan
        if plan.paired is not None:
            return plan.paired.observe(asked, plan.observer)
        return plan.observer.observe(
            asked.request, model=case.model, device=case.device, timeout_s=asked.timeout_s
        )

    def _make(self, case: Case, wants: tuple[Want, ...]) -> Observation:
        plan, made = self._plan, self._observe(self.ask(case, wants))
        if lost_device.is_suspected(made) and (
            why := lost_device.why_gone(plan.observer, case.device)
        ):
            self._lost[case.device] = (
                f"the device {case.device} is gone since {case.id}; a new process that looked for "
                f"it: {why}"
            )
        return made


def _in_order(wants: Collection[Want]) -> tuple[Want, ...]:
    return tuple(want for want in WANTS if want in wants)
