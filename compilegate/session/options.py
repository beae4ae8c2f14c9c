"""The options of a session: their values, and what is wrong with them."""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

from compilegate.entry import names_suites
from compilegate.processes import zoo_listing
from compilegate.processes.observer import BACKENDS
from compilegate.records.case import UnknownNameError
from compilegate.runs import lock
from compilegate.runs.reader import Reader, RunError
from compilegate.runs.writer import taken
from compilegate.session.shards import Shard
from compilegate.upgrade.paired_costs import FEWEST_PAIRS, PAIRS
from compilegate.zoo import tiers


@dataclass(frozen=True)
class Options:
    """The options of the command line and of the ini file.

    Attributes:
        explicit: Those of seed, backend and tf32 that the command line names.
        ini_files: The words ``--zoo FILE`` and ``--budgets FILE`` for files that the ini names.
        import_folders: The folders of pytest's setting ``pythonpath``, by absolute path.
        root: The root of the user's project: pytest's rootdir.
    """

    tier: str | None
    models: tuple[str, ...]
    cases: tuple[str, ...]
    zoo: tuple[str, ...]
    budgets: tuple[str, ...]
    seed: int
    backend: str
    tf32: bool
    case_timeout: float | None
    save: str | None
    resume: str | None
    replay: str | None
    runs: Path
    markers: str
    filtered: bool
    arguments: tuple[str, ...]
    baseline_python: str | None = None
    pairs: int = PAIRS
    baseline_run: str | None = None
    attribute: bool = False
    candidates: tuple[str, ...] = ()
    shard: str | None = None
    shard_by: str | None = None
    stop_after: float | None = None
    triage_minutes: float = 10.0
    known: tuple[str, ...] = ()
    explicit: tuple[str, ...] = ()
    ini_files: tuple[str, ...] = ()
    import_folders: tuple[str, ...] = ()
    root: Path = Path()

    @property
    def python(self) -> str:
        """The interpreter of the candidate."""
        return self.candidates[0] if self.candidates else sys.executable

    @property
    def compared(self) -> tuple[str, ...]:
        """The words that name what is compared with what."""
        named = [("--candidate", name) for name in self.candidates[:1]]
        named += [("--baseline-python", name) for name in (self.baseline_python,) if name]
        named += [("--baseline-run", name) for name in (self.baseline_run,) if name]
        return tuple(word for pair in named for word in pair)

    @property
    def files(self) -> tuple[str, ...]:
        """The words ``--zoo FILE`` and ``--budgets FILE`` for all files, by absolute path."""
        named = [*(("--zoo", file) for file in self.zoo), *(("--budgets", f) for f in self.budgets)]
        return tuple(word for name, file in named for word in (name, os.path.abspath(file)))

    @classmethod
    def of(cls, config: pytest.Config) -> Self:
        """Return the options of a session."""
        option = config.getoption
        zoo, budgets, known = (
            [*map(str, config.getini(name))] for name in ("zoo", "budgets", "known")
        )
        named = (*(("--zoo", file) for file in zoo), *(("--budgets", file) for file in budgets))
        return cls(
            tier=option("tier"),
            models=tuple(option("models")),
            cases=tuple(option("cases")),
            zoo=(*zoo, *option("zoo")),
            budgets=(*budgets, *option("budgets")),
            known=(*known, *option("known")),
            seed=option("seed") or 0,
            backend=option("backend") or BACKENDS[0],
            tf32=bool(option("tf32")),
            case_timeout=option("case_timeout"),
            triage_minutes=option("triage_minutes"),
            save=option("save"),
            resume=option("resume"),
            replay=option("replay"),
            runs=_runs_folder(config),
            markers=option("markexpr"),
            filtered=bool(option("models") or option("cases") or option("keyword")),
            baseline_python=option("baseline_python"),
            pairs=option("pairs"),
            arguments=tuple(map(str, config.invocation_params.args)),
            baseline_run=option("baseline_run"),
            attribute=bool(option("attribute")),
            candidates=tuple(option("candidates")),
            shard=option("shard"),
            shard_by=option("shard_by"),
            stop_after=option("stop_after"),
            explicit=tuple(n for n in ("seed", "backend", "tf32") if option(n) is not None),
            ini_files=tuple(word for words in named for word in words),
            import_folders=tuple(map(str, config.getini("pythonpath"))),
            root=config.rootpath,
        )


def _runs_folder(config: pytest.Config) -> Path:
    """Return the folder of run files.

    A relative path starts from ``--rootdir``, else from the ini file's folder, else from the
    current one. With ``-c /dev/null`` there is no ini file, so the
    current folder counts.
    """
    base, ini = config.invocation_params.dir, config.inipath
    if config.getoption("rootdir"):
        base = config.rootpath
    elif ini is not None and ini.is_file():
        base = ini.parent
    return base / str(config.getini("runs_dir"))


def check(options: Options) -> None:
    """Refuse options that exclude each other, and values out of range.

    Raises:
        ValueError: The message says what to do.
    """
    if options.tier is not None and options.tier not in tiers.TIERS:
        raise UnknownNameError("tier", options.tier, tiers.TIERS)
    if options.replay and options.resume:
        raise ValueError(
            "--replay and --resume exclude each other: --replay judges a run, --resume continues it"
        )
    _check_shard(options)
    if options.baseline_run and options.baseline_python:
        raise ValueError(
            "--baseline-run and --baseline-python exclude each other: "
            "choose a stored run or an interpreter"
        )
    if options.replay and options.candidates:
        raise ValueError("--replay and --candidate exclude each other: a replay observes nothing")
    if options.replay and options.baseline_python:
        raise ValueError(
            "--replay and --baseline-python exclude each other: a replay observes nothing"
        )
    if options.attribute and not options.baseline_python:
        raise ValueError(
            "--attribute makes environments between two interpreters: name the interpreter of the "
            "version in use with --baseline-python; to attribute the cases of a stored run, "
            "add --resume RUN"
        )
    if options.pairs < FEWEST_PAIRS:
        raise ValueError(f"--pairs {options.pairs}: at least {FEWEST_PAIRS} are needed to judge")
    if options.save and options.resume:
        raise ValueError("--save and --resume exclude each other: a resumed run keeps its file")
    if options.save:
        _refuse_taken(options.save, options.runs)
    _check_duration("--case-timeout", options.case_timeout, "seconds")
    _check_duration("--stop-after", options.stop_after, "minutes")
    _check_duration("--triage-minutes", options.triage_minutes, "minutes")
    zoo_listing.check_files(options.zoo)


def _check_duration(name: str, value: float | None, unit: str) -> None:
    if value is not None and not 0 < value < math.inf:
        raise ValueError(f"{name} {value:g}: expected {unit} above 0")


def _check_shard(options: Options) -> None:
    """Refuse a shard that does not exist, and one of cases that are chosen already."""
    if options.shard:
        Shard.parse(options.shard)
    if options.shard_by and not options.shard:
        raise ValueError("--shard-by RUN divides the cases into shards: name one with --shard I/N")
    if options.shard and (options.replay or options.resume):
        raise ValueError(
            "--shard selects cases of a new run: --replay and --resume keep their cases"
        )


def _refuse_taken(name: str, runs: Path) -> None:
    """Refuse a name that a run, or the baseline of a run, already has."""
    if Path(name).name != name:
        raise ValueError(
            f"--save {name!r}: expected a name, not a path; "
            "the ini setting runs_dir names the folder of runs"
        )
    for file in (f"{name}.jsonl", f"{name}.jsonl.gz", f"{name}.baseline.jsonl"):
        path = runs / file
        if not os.path.lexists(path):
            continue
        text = f"--save {name}: {path} {taken(path)}"
        if file == f"{name}.jsonl" and not lock.holder(path) and _is_run(path):
            text += f", or continue it with --resume {name}"
        raise ValueError(text)


def _is_run(path: Path) -> bool:
    """Whether a file can be read as a run, so that it can be resumed."""
    try:
        Reader(path).close()
    except RunError:
        return False
    return True


def judges_suites(config: pytest.Config) -> bool:
    """Whether the session collects the suites, not only other tests."""
    folder = config.invocation_params.dir
    return names_suites(config.args, folder, pyargs=config.getoption("pyargs"))
