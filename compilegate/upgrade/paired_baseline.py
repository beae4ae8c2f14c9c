"""The PyTorch in use, beside the candidate: what is observed under it, and pairs of processes.

Live, it is another interpreter (``--baseline-python``); in a replayed run, the run file beside it.
"""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from compilegate.processes.child_process import ObserverError
from compilegate.processes.observer import Launch, Observer
from compilegate.processes.paired_observer import PairedObserver
from compilegate.records.case import Case
from compilegate.records.environment import Environment
from compilegate.records.observation import Failure, Observation
from compilegate.records.pair import Pair
from compilegate.records.request import Request
from compilegate.records.verdict import Verdict
from compilegate.runs import files
from compilegate.upgrade import paired_speed
from compilegate.upgrade.paired_speed import SpeedChange
from compilegate.zoo.registry import Model

#: What a child needs of its interpreter.
_OLDEST_PYTHON = (3, 11)
_PROBE = (
    "import importlib.util as u, sys; "
    "print(*sys.version_info[:2], int(u.find_spec('torch') is not None))"
)


def check_interpreter(python: str) -> None:
    """Refuse an interpreter that cannot observe, before anything is started.

    Raises:
        ObserverError: It is none, is too old, or has no torch.
    """
    given = f"--baseline-python {python}"
    if Path(python).is_dir():
        raise ObserverError(f"{given}: a directory; give its interpreter, DIRECTORY/bin/python")
    try:
        done = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True, check=False)
    except OSError as error:
        raise ObserverError(f"{given}: cannot be run: {error.strerror}") from error
    try:
        major, minor, has_torch = map(int, done.stdout.split())
    except ValueError:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise ObserverError(f"{given}: not a Python: {''.join(said) or 'no answer'}") from None
    if (major, minor) < _OLDEST_PYTHON:
        oldest = ".".join(map(str, _OLDEST_PYTHON))
        raise ObserverError(f"{given}: Python {major}.{minor}, at least {oldest} is needed")
    if not has_torch:
        raise ObserverError(
            f"{given}: has no torch; install one there, or name another interpreter"
        )


@dataclass(frozen=True)
class Asked:
    """What is asked of children for a case.

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
        environment: What it is and has.
        is_candidate: Whether it is the same PyTorch as the candidate: A against A.
        observed: What was observed under it, by case id.
        verdicts: How its observations were judged, by case id and aspect.
        pairs: Pairs of processes, by case id and number.
        run: Its stored run, of a session that goes on or is judged again.
        live: Observes under both; None where all is stored.
        fresh_pairs: How many a suspect gets, at first.
    """

    environment: Environment
    is_candidate: bool = False
    observed: dict[str, Observation] = field(default_factory=dict)
    verdicts: dict[tuple[str, str], Verdict] = field(default_factory=dict)
    pairs: dict[tuple[str, int], Pair] = field(default_factory=dict)
    run: files.Run | None = None
    live: PairedObserver | None = None
    fresh_pairs: int = paired_speed.PAIRS

    @property
    def torch_version(self) -> str:
        """Of the interpreter in use."""
        return self.environment.versions.get("torch", "0")

    def describe(self) -> str:
        """A line for the report's header."""
        same = ", the same as the candidate's (A/A: nothing should differ)" * self.is_candidate
        return f"baseline: torch {self.torch_version}{same}"

    def has(self, candidate: Observation, *, timed: bool) -> bool:
        """Whether nothing of a case that the candidate's run holds needs observing again."""
        made = self.observed.get(candidate.case)
        if made is None or not set(candidate.wants) <= set(made.wants):
            return False
        return not timed or (candidate.case, 0) in self.pairs

    def preload(self, models: Sequence[Model], *, cpp: bool) -> None:
        """Do once what children of these models need. See :meth:`Observer.preload`."""
        if self.live is not None:
            self.live.baseline.preload(models, cpp=cpp)

    def observe(self, asked: Asked, candidate: Observer) -> Observation:
        """Observe a case under both, and keep what is the baseline's; the candidate's observation.

        Where the baseline lacks the device, the candidate is observed alone.
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
        if both.pair is not None:
            self.pairs[case.id, 0] = both.pair
        return both.candidate

    def _note_unavailable(self, asked: Asked) -> None:
        case_id, wants = asked.case.id, asked.request.wants
        why = f"no {asked.case.device} device that torch {self.torch_version} can use here"
        failure = Failure(stage="start", kind="UnavailableError", message=why)
        self.observed[case_id] = Observation(
            case=case_id, status="unavailable", failure=failure, wants=wants
        )
        if "time" in wants:
            self.pairs[case_id, 0] = Pair(case=case_id, number=0, first="baseline", failure=why)

    def _forget(self, case_id: str) -> None:
        """Drop the pairs of an observation that is made anew: they are not of one session."""
        for key in [key for key in self.pairs if key[0] == case_id]:
            del self.pairs[key]

    @property
    def suspects(self) -> list[str]:
        """Cases that their first pair shows slower."""
        return [
            case_id
            for (case_id, number), pair in self.pairs.items()
            if number == 0 and paired_speed.is_suspect(pair)
        ]

    def settle(self, ask: Callable[[Case], Asked]) -> Iterator[Pair]:
        """Give the suspects their fresh pairs, each as it is made.

        All get their first before any gets its second, so that a bad hour of the machine is not
        one case's alone. What they find slower, but not by far, gets as many again.

        Args:
            ask: How a case is observed.
        """
        if self.live is None:
            return
        count = self.fresh_pairs
        yield from self._fresh(self.live, self.suspects, range(1, count + 1), ask)
        doubtful = [case_id for case_id, seen in self.speeds(count).items() if seen.wants_more]
        yield from self._fresh(self.live, doubtful, range(count + 1, 2 * count + 1), ask)

    def _fresh(
        self,
        live: PairedObserver,
        case_ids: Sequence[str],
        numbers: Iterable[int],
        ask: Callable[[Case], Asked],
    ) -> Iterator[Pair]:
        """Those of these fresh pairs that there are not yet."""
        for number in numbers:
            missing = [case_id for case_id in case_ids if (case_id, number) not in self.pairs]
            # The next are forked from new processes. Children of one share what chance gave it, as
            # where its libraries lie and how its strings hash: one version's would be slower than
            # the other's by the same 10% each time.
            if missing:
                live.close()
            for case_id in missing:
                asked = ask(Case.parse(case_id))
                # What autotuning chose in another process is not to be found in a cache.
                cold = asked.request.cold or asked.case.autotunes
                pair = live.fresh_pair(
                    replace(asked.request, cold=cold),
                    model=asked.case.model,
                    device=asked.case.device,
                    timeout_s=asked.timeout_s,
                    number=number,
                )
                self.pairs[case_id, number] = pair
                yield pair

    def speeds(self, up_to: float = math.inf) -> dict[str, SpeedChange]:
        """What pairs come to, by case.

        Args:
            up_to: The last pair's number.
        """
        pairs = [pair for pair in self.pairs.values() if pair.number <= up_to]
        return paired_speed.judge(pairs, one_version=self.is_candidate)

    def close(self) -> None:
        """End what was started."""
        if self.live is not None:
            self.live.close()


def stored(run: files.Run) -> PairedBaseline | None:
    """The baseline of a paired run that is stored; None for a run that was not paired.

    Raises:
        RunError: The run file of its baseline is not beside it.
    """
    if not run.header.baseline:
        return None
    beside = files.read(files.find(run.header.baseline, run.path.parent))
    return PairedBaseline(
        environment=beside.header.environment,
        is_candidate=beside.header.environment.versions == run.header.environment.versions,
        observed=dict(beside.observations),
        verdicts=dict(beside.verdicts),
        pairs=dict(run.pairs),
        run=beside,
    )


def started(
    launch: Launch, candidate: Observer, known: PairedBaseline | None, fresh_pairs: int
) -> PairedBaseline:
    """The baseline of a live session.

    Args:
        launch: How its children are started.
        candidate: The observer of the candidate.
        known: What a resumed run holds of it.
        fresh_pairs: How many a suspect gets.

    Raises:
        ObserverError: Its interpreter cannot observe.
    """
    check_interpreter(launch.python)
    observer = Observer(launch)
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
