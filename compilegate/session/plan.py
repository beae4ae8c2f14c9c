"""The plan of one session: which cases, under which budgets, compared with which run.

:mod:`compilegate.session.planning` makes it. Nothing here imports torch.
"""

from __future__ import annotations

import contextlib
import difflib
import shlex
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from compilegate.culprits.known import Known
from compilegate.judging.aspects import Aspect
from compilegate.judging.budget import Budget
from compilegate.judging.budgets import Budgets, Machine
from compilegate.processes.interrupts import Interrupts
from compilegate.processes.observer import Observer
from compilegate.records.case import Case, model_of
from compilegate.records.environment import Environment
from compilegate.records.observation import Observation, Want
from compilegate.records.practice import PRACTICES, PracticeName
from compilegate.runs import files, reproduction
from compilegate.runs.reproduction import as_seen
from compilegate.session.earlier import NOTHING_EARLIER, Earlier
from compilegate.session.markers import DEVICE_MARKERS
from compilegate.session.options import Options
from compilegate.session.run_files import RunFiles
from compilegate.session.shards import Shard
from compilegate.session.workers import ALONE, Share
from compilegate.upgrade.baseline import Baseline
from compilegate.upgrade.paired_baseline import PairedBaseline
from compilegate.zoo import practices, tiers
from compilegate.zoo.compiling_again import compiling_again
from compilegate.zoo.registry import Model

#: Where the session keeps its plan.
PLAN = pytest.StashKey["Plan"]()
#: Where it keeps what handles SIGINT and SIGTERM.
INTERRUPTS = pytest.StashKey[Interrupts]()


@dataclass
class Plan:
    """The plan of a session.

    Attributes:
        options: The options of the command line and of the ini file.
        models: The zoo, by name.
        tier: The tier of each selected device.
        cases: The selected cases.
        budgets: The budgets of all cases.
        observer: Observes under the candidate.
        stored: The run that is replayed or resumed.
        environment: The environment that cases are observed in.
        share: The part of the machine that this process may use.
        earlier: What cases took in an earlier run.
        earlier_run: The file of that run; None if there is none.
        shard: The part of the cases that this session observes; None for all.
        elsewhere: The ids of cases that other shards observe.
        paired: The PyTorch in use, if every case is observed under it, too.
        before: The earlier results to compare with: a stored run, or the other half of the pairs.
        unobserved: Cases of a replayed run that were planned and not observed.
        run_files: The run files that this process writes; None if it writes none.
        known: What the team knows of culprits.
        resources: Started processes and open files. :meth:`close` ends them.
    """

    options: Options
    models: dict[str, Model]
    tier: dict[str, str]
    cases: list[Case]
    budgets: Budgets
    observer: Observer
    stored: files.Run | None = None
    environment: Environment | None = None
    share: Share = ALONE
    earlier: Earlier = NOTHING_EARLIER
    earlier_run: Path | None = None
    shard: Shard | None = None
    elsewhere: Container[str] = ()
    paired: PairedBaseline | None = None
    before: Baseline | None = None
    unobserved: Sequence[str] = ()
    run_files: RunFiles | None = None
    known: Sequence[Known] = ()
    resources: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def close(self) -> None:
        """End every process that the plan started, and close its files."""
        self.resources.close()

    @property
    def replays(self) -> bool:
        """Whether the session judges a stored run again."""
        return self.options.replay is not None

    def marks(self, case: Case) -> tuple[str, ...]:
        """Return the markers that a case carries."""
        model = self.models.get(case.model)
        slow = case.autotunes or (model is not None and model.slow)
        return (DEVICE_MARKERS[case.device], *(["slow"] if slow else []))

    def is_cold(self, case: Case) -> bool:
        """Whether a case compiles in an empty cache."""
        if self.replays and self.stored is not None:
            return self.stored.observations[case.id].cold
        shipped = self.models[case.model].build is not None
        return tiers.is_cold(case, self.tier[case.device], shipped=shipped)

    def counts_work(self, case: Case) -> bool:
        """Whether the compile work of a case is counted."""
        if self.replays and self.stored is not None:
            return "compile_work" in self.stored.observations[case.id].wants
        model = self.models[case.model]
        return tiers.counts_work(case, model, shipped=model.build is not None)

    def practices_of(self, case: Case) -> Sequence[PracticeName]:
        """Return the practices that are observed on a case."""
        if self.replays and self.stored is not None:
            wants = self.stored.observations[case.id].wants
            return [name for name in PRACTICES if name in wants]
        return practices.practices_of(case, self.models[case.model], self.tier[case.device])

    def wants_of(self, aspect: Aspect, case: Case) -> set[Want]:
        """Return what has to be observed of a case for an aspect."""
        spared: set[Want] = set() if self.counts_work(case) else {"compile_work"}
        wants = {*aspect.wants} - spared - {*PRACTICES}.difference(self.practices_of(case))
        if "vary" in wants and not self.replays:
            model, tier = self.models[case.model], self.tier[case.device]
            place = (case.model, case.device)
            others = [one for one in self.cases if (one.model, one.device) == place]
            wants |= {"reuse", *compiling_again(case, model, tier, others)}
        return wants

    def cases_of(self, aspect: Aspect) -> Sequence[Case]:
        """Return the cases that a suite judges, before markers select among them."""
        if aspect.gone:
            return self.before.gone if self.before else ()
        given = {"": True, "baseline": self.before is not None, "pairs": self.paired is not None}
        if not given[aspect.needs]:
            return ()
        return [
            case
            for case in self.cases
            if aspect.applies(case)
            and (not aspect.cold or self.is_cold(case))
            and (not aspect.sampled or self.counts_work(case))
            and (not aspect.practice or aspect.practice in self.practices_of(case))
        ]

    def waits(self, aspect: Aspect) -> bool:
        """Whether the tests of an aspect run last, when all cases have been observed once.

        Pairs of processes decide about these tests. A stored run can be compared with at once.
        """
        return aspect.needs == "pairs" or (aspect.needs == "baseline" and self.paired is not None)

    def budget(self, case: Case) -> Budget:
        """Return the budget of a case in the observed environment."""
        return self.budgets.budget(case, self.machine(case.device), self.torch_version)

    def budget_of(self, case_id: str) -> Budget:
        """Return the budget of a case, given its id."""
        return self.budget(Case.parse(case_id))

    def budget_before(self, case: Case) -> Budget:
        """Return the budget of a case under the PyTorch in use: its expected failures differ."""
        version = self.paired.torch_version if self.paired else self.torch_version
        return self.budgets.budget(case, self.machine(case.device), version)

    def check_budgets(self) -> None:
        """Resolve the budgets of all cases, so that ties between entries are found early.

        Raises:
            BudgetError: Two entries tie.
        """
        for case in self.cases:
            self.budget(case)

    def machine(self, device: str) -> Machine:
        """Return what cases of a device run on."""
        return Machine.of(self.environment, device)

    @property
    def torch_version(self) -> str:
        """The version of the candidate's torch; ``0`` if the interpreter was not asked."""
        return self.environment.versions.get("torch", "0") if self.environment else "0"

    def reproduction(self, observation: Observation, practice: PracticeName | None = None) -> str:
        """Return the command that observes one case, or a practice of it, in the foreground."""
        zoo = [word for file in self.options.zoo for word in ("--zoo", as_seen(file))]
        if self.stored is not None and not zoo:
            zoo = reproduction.files_of(self.stored.header, "--zoo")
        budgets = [word for file in self.options.budgets for word in ("--budgets", as_seen(file))]
        python = reproduction.python()
        theirs = [word for path in self.options.candidates for word in ("--python", as_seen(path))]
        wants = _words_for(practice, observation.case, self.models)
        words = [*zoo, *budgets, *theirs, *wants]
        folders = self.options.import_folders if zoo else ()
        return reproduction.command(observation, words, python, folders)

    @property
    def session_command(self) -> str:
        """The command of a session of all suites, with this one's files, settings and baseline.

        It reads the same configuration of pytest.
        """
        options = self.options
        given = options.files or (self.stored.header.files if self.stored else ())
        files = [as_seen(word) if index % 2 else word for index, word in enumerate(given)]
        words = [*reproduction.pytest_words(), *reproduction.suites_words()]
        words += [*reproduction.config_options(options.arguments), *files]
        words += reproduction.setting_words(options.seed, options.backend, tf32=options.tf32)
        return shlex.join([*words, *options.compared])

    def lacks(self, case: Case) -> str:
        """Return why the environment cannot run a case; empty if it can."""
        if self.replays or self.environment is None or self.environment.device(case.device):
            return ""
        torch = f"torch {self.torch_version}"
        return f"no {DEVICE_MARKERS[case.device].upper()} that {torch} can use on this machine"

    def check_devices(self, cases: Iterable[Case]) -> None:
        """Refuse a selection if this machine can run none of its cases.

        Raises:
            pytest.UsageError: The message gives the reason.
        """
        by_device = {case.device: case for case in cases}
        reasons = [self.lacks(case) for case in by_device.values()]
        if reasons and all(reasons):
            cpu = "" if "cpu" in by_device else "; -m cpu runs on the processor"
            raise pytest.UsageError(f"{reasons[0]}: every selected case needs one{cpu}")

    @property
    def writes_cpp(self) -> bool:
        """Whether Inductor compiles some of the cases to C++."""
        on_cpu = any(case.device == "cpu" for case in self.cases)
        return self.options.backend == "inductor" and on_cpu


def _words_for(
    practice: PracticeName | None, case_id: str, models: Mapping[str, Model]
) -> list[str]:
    """Return the words that ask for a practice, if the tier alone asks for it of the case."""
    model = models.get(model_of(case_id))
    if practice is None or model is None:
        return []
    named = practices.practices_of(Case.parse(case_id), model)
    return [] if practice in named else ["--want", practice]


def check_compiler(plan: Plan) -> None:
    """Refuse cases that Inductor compiles to C++ if the machine has no compiler.

    Raises:
        pytest.UsageError: There is none.
    """
    environment = None if plan.replays else plan.environment
    if environment is not None and not environment.compiler and plan.writes_cpp:
        raise pytest.UsageError(
            "Inductor compiles C++ on CPU and found no compiler: install g++ or set CXX"
        )


def unmatched_budgets(plan: Plan) -> list[str]:
    """Budget entries for the selected devices that match no case of the zoo.

    An entry may name no device although its model runs on one alone, so a case on another device
    counts, too. A session that selects among models checks only the models that entries name. A
    replay does not know the user's zoo: there, only a name close to that of a model of the run is
    an error, and none if it selects among them.
    """
    if plan.options.filtered and plan.replays:
        return []
    if plan.options.filtered or plan.replays:
        return [*_budgets_of_unknown_models(plan)]
    possible = [c for m in plan.models.values() for d in m.devices for c in tiers.cases_of(m, d)]
    return [
        f"{entry.where}: matches no case: {dict(entry.selectors)}"
        for entry in plan.budgets.unmatched(possible)
        if entry.selectors.get("device", "*") in (*plan.tier, "*")
    ]


def _budgets_of_unknown_models(plan: Plan) -> Iterator[str]:
    """Yield the user's budget entries for models that do not exist."""
    planned = plan.stored.header.planned if plan.stored else ()
    known = {*plan.models, *map(model_of, planned)}
    for entry in plan.budgets.entries:
        name = entry.selectors.get("model", "")
        is_users = entry.layer > 0
        if not is_users or not name or any(fnmatchcase(model, name) for model in known):
            continue
        near = difflib.get_close_matches(name, known, n=1)
        if near or not plan.replays:
            hint = f"; did you mean {near[0]!r}?" if near else ""
            yield f"{entry.where}: matches no model: {name!r}{hint}"
