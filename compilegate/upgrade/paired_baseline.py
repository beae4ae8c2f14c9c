"""The PyTorch in use, for sessions that observe every case under both versions.

In a live session it is another interpreter (``--baseline-python``). In a replay it is the run file
next to the candidate's.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace

from compilegate.processes.attempt import Progress
from compilegate.processes.child_process import ObserverError
from compilegate.processes.interpreter import check_interpreter
from compilegate.processes.observer import Observer
from compilegate.processes.paired_observer import PairedObserver
from compilegate.processes.server_process import Launch
from compilegate.records import environment_changes
from compilegate.records.case import Case
from compilegate.records.environment import Environment
from compilegate.records.environment_changes import EnvironmentChange, headline
from compilegate.records.observation import WANTS, Failure, Observation, Want
from compilegate.records.pair import Pair
from compilegate.records.request import Request
from compilegate.records.run import encode
from compilegate.records.verdict import Verdict
from compilegate.runs import files
from compilegate.runs.packed import PackedObservations
from compilegate.runs.reader import decode
from compilegate.upgrade import paired_costs
from compilegate.upgrade.cost_change import CostChange
from compilegate.upgrade.costs import Cost
from compilegate.upgrade.paired_costs import BudgetOf
from compilegate.zoo.registry import Model


@dataclass(frozen=True)
class CaseRequest:
    """The request that a child gets for a case.

    Attributes:
        case: The case.
        request: What to observe.
        timeout_s: Seconds after which a child is killed.
    """

    case: Case
    request: Request
    timeout_s: float


@dataclass
class PairedBaseline:
    """The PyTorch in use: its observations, verdicts and pairs.

    Attributes:
        environment: Its environment.
        changes: How the candidate's environment differs from its own, in what decides.
        is_unknown: Whether one of the two does not record everything that decides.
        observed: Its observations, by case id.
        verdicts: The verdicts on its observations, by case id and aspect.
        pairs: The pairs of processes, by case id and number.
        run: Its stored run, if the session resumes or replays one.
        live: Observes under both versions; None in a replay.
        fresh_pairs: The number of fresh pairs that a suspect gets at first.
    """

    environment: Environment
    changes: Sequence[EnvironmentChange] | None = None
    is_unknown: bool = False
    observed: MutableMapping[str, Observation] = field(default_factory=PackedObservations)
    verdicts: dict[tuple[str, str], Verdict] = field(default_factory=dict)
    pairs: dict[tuple[str, int], Pair] = field(default_factory=dict)
    run: files.Run | None = None
    live: PairedObserver | None = None
    fresh_pairs: int = paired_costs.PAIRS

    @property
    def torch_version(self) -> str:
        """The version of torch in use."""
        return self.environment.versions.get("torch", "0")

    def describe(self) -> str:
        """Return a line for the header of pytest's output."""
        if self.is_candidate:
            known = " in what the runs record" * self.is_unknown
            how = f", the same as the candidate{known} (A/A: nothing should differ)"
        elif self.changes and not any(change.name == "torch" for change in self.changes):
            how = f", in another environment than the candidate's: {headline(self.changes)}"
        else:
            how = ""
        return f"baseline: torch {self.torch_version}{how}"

    @property
    def is_candidate(self) -> bool:
        """Whether the candidate has the same environment (A/A)."""
        return self.changes is not None and not self.changes

    def compare_with(self, candidate: Environment) -> None:
        """Note how the candidate's environment differs."""
        self.changes = environment_changes.deciding(self.environment, candidate)
        self.is_unknown = environment_changes.is_unknown(self.environment, candidate)

    def has(self, candidate: Observation) -> bool:
        """Whether the stored run holds everything of a case that the candidate's run holds."""
        made = self.observed.get(candidate.case)
        if made is None or not set(candidate.wants) <= set(made.wants):
            return False
        return (candidate.case, 0) in self.pairs

    def preload(self, models: Sequence[Model], *, cpp: bool) -> None:
        """Import what children of these models need. See :meth:`Observer.preload`."""
        if self.live is not None:
            self.live.baseline.preload(models, cpp=cpp)

    def report_progress(self, progress: Progress) -> None:
        """Call this while a case is observed under the PyTorch in use."""
        if self.live is not None:
            self.live.baseline.progress = progress

    def observe(self, asked: CaseRequest, candidate: Observer) -> Observation:
        """Observe a case under both versions, and keep the baseline's observation.

        If the baseline cannot use the device, only the candidate is observed.

        Returns:
            The candidate's observation.
        """
        assert self.live is not None
        case = asked.case
        self._forget(case.id)
        if self.environment.device(case.device) is None:
            self._note_unavailable(asked)
            return candidate.observe(
                asked.request, model=case.model, device=case.device, timeout_s=asked.timeout_s
            )
        both = self.live.observe(
            asked.request, model=case.model, device=case.device, timeout_s=asked.timeout_s
        )
        self.observed[case.id] = both.baseline
        self._keep(both.pair)
        return both.candidate

    def _keep(self, pair: Pair) -> Pair:
        """Keep a pair as the run file holds it, so that a replay judges the same figures."""
        recorded = decode(encode(pair))
        assert isinstance(recorded, Pair)
        self.pairs[pair.case, pair.number] = recorded
        return recorded

    def _note_unavailable(self, asked: CaseRequest) -> None:
        case_id, wants = asked.case.id, asked.request.wants
        why = f"no {asked.case.device} device that torch {self.torch_version} can use here"
        failure = Failure(stage="start", kind="UnavailableError", message=why)
        self.observed[case_id] = Observation(
            case=case_id, status="unavailable", failure=failure, wants=wants
        )
        self.pairs[case_id, 0] = Pair(case=case_id, number=0, first="baseline", failure=why)

    def _forget(self, case_id: str) -> None:
        """Drop the pairs of a case that is observed again: they belong to an earlier session."""
        for key in [key for key in self.pairs if key[0] == case_id]:
            del self.pairs[key]

    def suspects(self, budget_of: BudgetOf) -> dict[str, list[Cost]]:
        """Return the costs that the first pair of a case shows grown, by case id."""
        found = {
            case_id: paired_costs.suspects(pair, budget_of)
            for (case_id, number), pair in self.pairs.items()
            if number == 0
        }
        return {case_id: costs for case_id, costs in found.items() if costs}

    def settle(self, ask: Callable[[Case], CaseRequest], budget_of: BudgetOf) -> Iterator[Pair]:
        """Measure the suspects in fresh pairs of processes, and yield each pair.

        Every suspect gets its first pair before any gets its second, so that a busy hour of the
        machine affects all of them. A suspect whose result is close gets the same number again.

        Args:
            ask: Returns the request for a case.
            budget_of: Returns the budget of a case, with the growth that passes.
        """
        if self.live is None:
            return
        count = self.fresh_pairs
        suspects = self.suspects(budget_of)
        yield from self._fresh(self.live, suspects, range(1, count + 1), ask)
        doubtful = {
            case_id: [change.of for change in changes if change.wants_more]
            for case_id, changes in self.cost_changes(budget_of, up_to=count).items()
        }
        yield from self._fresh(self.live, doubtful, range(count + 1, 2 * count + 1), ask)

    def _fresh(
        self,
        live: PairedObserver,
        suspects: Mapping[str, Sequence[Cost]],
        numbers: Iterable[int],
        ask: Callable[[Case], CaseRequest],
    ) -> Iterator[Pair]:
        """Make the fresh pairs of these numbers that do not exist yet."""
        for number in numbers:
            missing = {
                case_id: wants
                for case_id, costs in suspects.items()
                if (wants := wants_of(costs, number)) and (case_id, number) not in self.pairs
            }
            # New servers fork the next pairs. Children of one server share what chance gave it,
            # such as the addresses of its libraries and the hashes of its strings. That alone can
            # make one version slower than the other by the same 10% each time.
            if missing:
                live.close()
            for case_id, wants in missing.items():
                asked = ask(Case.parse(case_id))
                # A cache would hold what autotuning chose in another process.
                cold = asked.request.cold or asked.case.autotunes
                pair = live.fresh_pair(
                    replace(asked.request, wants=wants, cold=cold),
                    model=asked.case.model,
                    device=asked.case.device,
                    timeout_s=asked.timeout_s,
                    number=number,
                )
                yield self._keep(pair)

    def cost_changes(
        self, budget_of: BudgetOf, *, up_to: float = math.inf
    ) -> dict[str, tuple[CostChange, ...]]:
        """Return the changes of costs that pairs show, by case id.

        Args:
            budget_of: Returns the budget of a case.
            up_to: The number of the last pair.
        """
        pairs = [pair for pair in self.pairs.values() if pair.number <= up_to]
        return paired_costs.judge(pairs, one_version=self.is_candidate, budget_of=budget_of)

    def close(self) -> None:
        """End all processes that were started."""
        if self.live is not None:
            self.live.close()


def wants_of(costs: Iterable[Cost], number: int) -> tuple[Want, ...]:
    """Return the measurements of the fresh pair of a number; empty if no cost needs more.

    A cost that is the same in each process is observed once more.
    """
    measured = {cost.want for cost in costs if number == 1 or not cost.is_exact}
    return tuple(want for want in WANTS if want == "capture" or want in measured) * bool(measured)


def stored(run: files.Run) -> PairedBaseline | None:
    """Return the baseline of a stored paired run; None if the run was not paired.

    Raises:
        RunError: The baseline's run file is not in the same folder.
    """
    if not run.header.baseline:
        return None
    theirs = files.read(files.find(run.header.baseline, run.path.parent))
    made = PairedBaseline(
        environment=theirs.header.environment,
        observed=ChainMap(PackedObservations(), dict(theirs.observations)),
        verdicts=dict(theirs.verdicts),
        pairs=dict(run.pairs),
        run=theirs,
    )
    made.compare_with(run.header.environment)
    return made


def started(
    launch: Launch,
    candidate: Observer,
    known: PairedBaseline | None,
    fresh_pairs: int,
    environment: Environment | None = None,
) -> PairedBaseline:
    """Return the baseline of a live session.

    Args:
        launch: How to start its children.
        candidate: Observes under the candidate.
        known: The baseline of the resumed run, if there is one.
        fresh_pairs: The number of fresh pairs that a suspect gets at first.
        environment: What its children find, where another process has asked one.

    Raises:
        ObserverError: The interpreter cannot observe.
    """
    observer = Observer(launch, candidate.progress, candidate.turns)
    if environment is None:
        check_interpreter(launch.python)
        try:
            environment = observer.environment()
        except ObserverError:
            observer.close()
            raise
    baseline = known or PairedBaseline(environment)
    baseline.environment = environment
    baseline.live = PairedObserver(observer, candidate)
    baseline.fresh_pairs = fresh_pairs
    return baseline
