"""One pytest session's plan: which cases, observed how, under which budgets, against which run.

:mod:`compilegate.session.planning` makes it. Nothing here imports torch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pytest

from compilegate.judging.aspects import Aspect, Budget
from compilegate.judging.budgets import Budgets
from compilegate.judging.judge import Rule, judge
from compilegate.processes.observer import Observer
from compilegate.records.case import Case
from compilegate.records.environment import Environment
from compilegate.records.observation import WANTS, Observation, Want
from compilegate.records.request import Request
from compilegate.records.verdict import Verdict
from compilegate.runs import files
from compilegate.runs.reproduction import command, zoos_in
from compilegate.session.markers import DEVICE_MARKERS
from compilegate.session.options import Options
from compilegate.session.workers import ALONE, Share
from compilegate.upgrade.baseline import Before
from compilegate.upgrade.paired_baseline import Asked, PairedBaseline
from compilegate.zoo import tiers
from compilegate.zoo.registry import Model

#: Rounds of one case may take this long. On CPU a call takes long, and many cases must fit.
TIMING_BUDGET_S = {"smoke": 4.0, "standard": 15.0, "full": 15.0}

#: Fields of an observation that hold measurements, and what each is wanted as.
_MEASURED: dict[str, Want] = {"timing": "time", "memory": "memory", "energy": "energy"}


#: Where the session keeps its plan.
GATE = pytest.StashKey["Gate"]()


def _in_order(wants: Collection[Want]) -> tuple[Want, ...]:
    return tuple(want for want in WANTS if want in wants)


@dataclass
class Gate:
    """The plan. See :func:`compilegate.session.planning.open_gate`."""

    options: Options
    models: dict[str, Model]
    tier: dict[str, str]
    cases: list[Case]
    budgets: Budgets
    observer: Observer
    stored: files.Run | None = None
    environment: Environment | None = None
    share: Share = ALONE
    #: The PyTorch in use, where every case is observed under it, too.
    paired: PairedBaseline | None = None
    #: What the candidate is held against, case by case: a stored run, or the other half of pairs.
    before: Before | None = None
    #: Cases of a replayed run that were planned and not observed: nothing is judged of them.
    unobserved: Sequence[str] = ()
    #: What the selected tests want to know, by case id.
    wants: dict[str, tuple[Want, ...]] = field(default_factory=dict)
    #: Cases whose failure to run was already explained; the rest of their tests are brief.
    explained: set[str] = field(default_factory=set)
    #: What was started, and files that are open: given back in the end.
    resources: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _observed: dict[str, Observation] = field(default_factory=dict)

    def close(self) -> None:
        """End what was started; nothing of it is left."""
        self.resources.close()

    @property
    def replays(self) -> bool:
        """Whether a stored run is judged again."""
        return self.options.replay is not None

    def marks(self, case: Case) -> tuple[str, ...]:
        """The markers that a case carries."""
        model = self.models.get(case.model)
        slow = case.autotunes or (model is not None and model.slow)
        return (DEVICE_MARKERS[case.device], *(["slow"] if slow else []))

    def is_cold(self, case: Case) -> bool:
        """Whether a case compiles in an empty cache."""
        if self.replays and self.stored is not None:
            return self.stored.observations[case.id].cold
        shipped = self.models[case.model].build is not None
        return tiers.is_cold(case, self.tier[case.device], shipped=shipped)

    def cases_of(self, aspect: Aspect) -> Sequence[Case]:
        """The cases that a suite judges, before markers select among them."""
        if aspect.gone:
            return self.before.gone if self.before else ()
        if self._lacks_what_it_needs(aspect):
            return ()
        return [
            case
            for case in self.cases
            if aspect.applies(case) and (not aspect.cold or self.is_cold(case))
        ]

    def _lacks_what_it_needs(self, aspect: Aspect) -> bool:
        given = {"": True, "baseline": self.before is not None, "pairs": self.paired is not None}
        return not given[aspect.needs]

    def waits(self, aspect: Aspect) -> bool:
        """Whether an aspect is judged from pairs, when all cases have been screened.

        What is held against an earlier run in a file can be judged at once.
        """
        return aspect.needs == "pairs" or (aspect.needs == "baseline" and self.paired is not None)

    def want(self, wanted: Mapping[str, Iterable[Want]]) -> None:
        """Set what the collected tests want to know of each case: the union, in order."""
        self.wants = {case_id: _in_order(set(some)) for case_id, some in wanted.items()}

    def observe(self, case: Case) -> tuple[Observation, bool]:
        """The observation of a case, and whether it was made just now."""
        if case.id in self._observed:
            return self._observed[case.id], False
        stored = self.stored.observations.get(case.id) if self.stored else None
        wants = self.wants.get(case.id, WANTS)
        if stored is not None and (self.replays or self._is_whole(stored, wants)):
            observation, new = stored, False
        else:
            observation, new = self._complete(case, stored, wants), True
        self._observed[case.id] = observation
        return observation, new

    def _is_whole(self, stored: Observation, wants: tuple[Want, ...]) -> bool:
        """Whether a resumed run holds all that is wanted of a case, of the baseline too."""
        if not set(wants) <= set(stored.wants):
            return False
        return self.paired is None or self.paired.has(stored, timed="time" in wants)

    def _complete(
        self, case: Case, stored: Observation | None, wants: tuple[Want, ...]
    ) -> Observation:
        """Observe what is wanted; nothing that a resumed run holds of the case is lost."""
        if stored is None:
            return self._make(case, wants)
        both = {*wants, *stored.wants}
        if stored.status != "completed" or self.paired is not None:
            return self._make(case, _in_order(both))
        # What was measured stays as it was: another session may be a busier one.
        kept = {name: want for name, want in _MEASURED.items() if want in stored.wants}
        made = self._make(case, _in_order(both.difference(kept.values())))
        if made.status != "completed":
            return made
        return replace(
            made, wants=_in_order(both), **{name: getattr(stored, name) for name in kept}
        )

    def _make(self, case: Case, wants: tuple[Want, ...]) -> Observation:
        asked = self.ask(case, wants)
        if self.paired is not None:
            return self.paired.observe(asked, self.observer)
        return self.observer.observe(
            asked.request, model=case.model, device=case.device, timeout_s=asked.timeout_s
        )

    def ask(self, case: Case, wants: tuple[Want, ...] = ("capture", "time")) -> Asked:
        """What is asked of a child for a case."""
        tier = self.tier[case.device]
        request = Request(
            case=case.id,
            wants=wants,
            cold=self.is_cold(case),
            seed=self.options.seed,
            backend=self.options.backend,
            tf32=self.options.tf32,
            speedup_threshold=self.budget(case).min_speedup or 1.0,
            timing_budget_s=TIMING_BUDGET_S[tier],
            shares_gpu=self.share.shares_gpu and case.device == "cuda",
        )
        return Asked(case, request, self.options.case_timeout or tiers.timeout_s(case, tier))

    def budget(self, case: Case) -> Budget:
        """The budget of a case in the observed environment."""
        return self.budgets.budget(case, self.hardware(case.device), self.torch_version)

    def budget_before(self, case: Case) -> Budget:
        """The budget of a case under the PyTorch in use, which has its own expected failures."""
        version = self.paired.torch_version if self.paired else self.torch_version
        return self.budgets.budget(case, self.hardware(case.device), version)

    def judge_baseline(
        self, case: Case, aspect: str, rule: Rule, wants: Sequence[Want]
    ) -> Verdict | None:
        """The verdict on the baseline's observation of a case; None where there is none."""
        if self.paired is None or case.id not in self.paired.observed:
            return None
        seen = self.paired.observed[case.id]
        verdict = judge(seen, self.budget_before(case), aspect, rule, wants).verdict
        self.paired.verdicts[case.id, aspect] = verdict
        return verdict

    def check_budgets(self) -> None:
        """Resolve the budgets of all cases, so that entries that tie are found at once.

        Raises:
            BudgetError: Two entries tie.
        """
        for case in self.cases:
            self.budget(case)

    def hardware(self, device: str) -> str:
        """Name of the processor or GPU that cases of a device run on."""
        found = self.environment.device(device) if self.environment else None
        return found.name if found else ""

    @property
    def torch_version(self) -> str:
        """Of the observed interpreter; ``0`` where it was not asked."""
        return self.environment.versions.get("torch", "0") if self.environment else "0"

    def describe(self) -> list[str]:
        """The plan in a few lines."""
        tier = " and ".join(f"{tier} on {device}" for device, tier in self.tier.items())
        lines = [f"compilegate: tier {tier}, {len(self.cases)} cases, seed {self.options.seed}"]
        if self.environment is not None:
            names = (f"{device.kind} {device.name}" for device in self.environment.devices)
            lines.append(f"observed: torch {self.torch_version}, {', '.join(names)}")
        if self.before is not None:
            lines.append(self.before.describe())
        if self.stored is not None:
            what = "replayed" if self.replays else "resumed"
            there = f"{len(self.stored.observations)} of {len(self.stored.header.planned)} cases"
            cut = "; its last line was cut short and is dropped" if self.stored.truncated else ""
            lines.append(f"{what}: {self.stored.path}, {there} observed{cut}")
        return lines

    def reproduction(self, observation: Observation) -> str:
        """The command that observes one case in the foreground, from the checkout."""
        zoos = self.options.zoo
        if self.stored is not None and not zoos:
            zoos = tuple(zoos_in(self.stored.header.arguments))
        return command(observation, zoos)

    def lacks(self, case: Case) -> str:
        """Why the environment cannot run a case; empty if it can."""
        if self.replays or self.environment is None or self.environment.device(case.device):
            return ""
        torch = f"torch {self.torch_version}"
        return f"no {DEVICE_MARKERS[case.device].upper()} that {torch} can use on this machine"

    def check_devices(self, cases: Iterable[Case]) -> None:
        """Refuse a selection of which not one case can run here.

        Raises:
            pytest.UsageError: With the reason.
        """
        by_device = {case.device: case for case in cases}
        reasons = [self.lacks(case) for case in by_device.values()]
        if reasons and all(reasons):
            cpu = "" if "cpu" in by_device else "; -m cpu runs on the processor"
            raise pytest.UsageError(f"{reasons[0]}: every selected case needs one{cpu}")

    @cached_property
    def unmatched_budgets(self) -> list[str]:
        """Budget entries that match no case that the zoo has on the selected devices."""
        if self.options.filtered or self.replays:
            return []
        possible = [
            c for m in self.models.values() for d in self.tier for c in tiers.cases_of(m, d)
        ]
        return [
            f"{entry.where}: matches no case: {dict(entry.selectors)}"
            for entry in self.budgets.unmatched(possible)
            if entry.selectors.get("device", "*") in (*self.tier, "*")
        ]
