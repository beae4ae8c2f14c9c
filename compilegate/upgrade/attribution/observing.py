"""Observes cases in an environment between two, and judges whether they are worse there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from compilegate.judging.aspects import ASPECTS
from compilegate.judging.budget import Budget
from compilegate.judging.rules import verdicts
from compilegate.processes.child_process import ObserverError
from compilegate.processes.observer import Observer
from compilegate.processes.paired_observer import PairedObserver
from compilegate.processes.server_process import Launch
from compilegate.records.case import Case
from compilegate.records.observation import WANTS, Observation, Want
from compilegate.runs.archive import CaseRecord
from compilegate.upgrade.attribution.attribute import Tried
from compilegate.upgrade.attribution.environments import Environments
from compilegate.upgrade.attribution.search import Shown
from compilegate.upgrade.attribution.symptoms import Symptom
from compilegate.upgrade.case_comparison import compare_case
from compilegate.upgrade.cost_change import CostChange
from compilegate.upgrade.paired_baseline import CaseRequest, PairedBaseline
from compilegate.zoo.registry import Model

#: Measurements that only a case whose cost is worse needs.
_COSTS: frozenset[Want] = frozenset({"time", "memory", "energy", "start", "compile_work"})


@dataclass(frozen=True)
class RedCase:
    """A case that is worse under the candidate.

    Attributes:
        case: The case.
        symptom: What makes it worse.
        before: What the version in use showed.
        wants: What was observed of it.
    """

    case: Case
    symptom: Symptom
    before: CaseRecord
    wants: tuple[Want, ...]

    @property
    def needed(self) -> tuple[Want, ...]:
        """What must be observed to see the symptom."""
        needed = {
            want
            for aspect in ASPECTS.values()
            if aspect.name in self.symptom.aspects
            for want in aspect.wants
        }
        stages = {name.removeprefix("stage ") for name in self.symptom.aspects}
        left_out = _COSTS - needed - stages if not self.symptom.is_cost else frozenset[Want]()
        return tuple(want for want in WANTS if want in {*self.wants, *needed} - left_out)


@dataclass(frozen=True)
class Trials:
    """Tries environments between two on cases that are worse.

    Attributes:
        environments: Makes the environments.
        red: The cases, by id.
        launch: How to start children; the interpreter is replaced.
        paired: The version in use, in its own environment.
        models: The models of the cases.
        ask: Returns the request for a case, with what to observe.
        budget_of: Returns the budget of a case.
        writes_cpp: Whether Inductor compiles some of the cases to C++.
    """

    environments: Environments
    red: Mapping[str, RedCase]
    launch: Launch
    paired: PairedBaseline
    models: Sequence[Model]
    ask: Callable[[Case, tuple[Want, ...]], CaseRequest]
    budget_of: Callable[[str], Budget]
    writes_cpp: bool

    def __call__(self, names: frozenset[str], cases: Sequence[str]) -> Tried:
        """Try the version in use with some changes on some cases."""
        try:
            python = self.environments.python_with(names)
        except ObserverError as error:
            return Tried({}, trouble=str(error))
        observer = Observer(replace(self.launch, python=python), self._progress)
        observer.preload(self.models, cpp=self.writes_cpp)
        try:
            observer.environment()
            red = [self.red[case] for case in cases]
            exact = [case for case in red if not case.symptom.is_cost]
            costly = [case for case in red if case.symptom.is_cost]
            shown = {case.case.id: self._exact(case, observer) for case in exact}
            observer.end_child()
            shown |= self._costly(costly, observer)
        except ObserverError as error:
            return Tried({}, python, str(error))
        finally:
            observer.close()
        return Tried(shown, python)

    @property
    def _progress(self) -> Callable[..., None]:
        assert self.paired.live is not None
        return self.paired.live.baseline.progress

    def _exact(self, red: RedCase, observer: Observer) -> Shown:
        """Observe a case once: what it shows does not depend on the machine's load."""
        asked = self.ask(red.case, red.needed)
        made = observer.observe(
            asked.request,
            model=red.case.model,
            device=red.case.device,
            timeout_s=asked.timeout_s,
        )
        return self._judge(red, red.before, made)

    def _costly(self, red: Sequence[RedCase], observer: Observer) -> dict[str, Shown]:
        """Observe cases in pairs with the version in use, as the session did."""
        if not red:
            return {}
        assert self.paired.live is not None
        pairs = PairedBaseline(
            self.paired.environment,
            live=PairedObserver(self.paired.live.baseline, observer),
            fresh_pairs=self.paired.fresh_pairs,
        )
        wants = {case.case.id: case.needed for case in red}
        made = {
            case.case.id: pairs.observe(self.ask(case.case, case.needed), observer) for case in red
        }

        def ask(case: Case) -> CaseRequest:
            return self.ask(case, wants[case.id])

        for _ in pairs.settle(ask, self.budget_of):
            pass  # each is kept, and judged with the others
        costs = pairs.cost_changes(self.budget_of)
        shown: dict[str, Shown] = {}
        for case in red:
            name = case.case.id
            before = self._record(pairs.observed[name])
            shown[name] = self._judge(case, before, made[name], costs.get(name, ()))
        return shown

    def _judge(
        self,
        red: RedCase,
        before: CaseRecord,
        made: Observation,
        costs: Iterable[CostChange] = (),
    ) -> Shown:
        budget = self.budget_of(made.case)
        now = self._record(made)
        found = compare_case(
            made.case,
            before,
            now,
            paired=True,
            costs=tuple(costs),
            work_growth=budget.max_compile_calls_growth,
        )
        return red.symptom.shown_by(found, now)

    def _record(self, made: Observation) -> CaseRecord:
        return CaseRecord.of(made, verdicts(made, self.budget_of(made.case)))
