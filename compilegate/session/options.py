"""The command line: its options, as given, checked for what is wrong in itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

from compilegate.entry import names_suites
from compilegate.records.case import UnknownNameError
from compilegate.upgrade.paired_speed import FEWEST_PAIRS, PAIRS
from compilegate.zoo import tiers


@dataclass(frozen=True)
class Options:
    """The command line, as given."""

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

    @classmethod
    def of(cls, config: pytest.Config) -> Self:
        """The command line and the ini settings."""
        option = config.getoption
        return cls(
            tier=option("tier"),
            models=tuple(option("models")),
            cases=tuple(option("cases")),
            zoo=(*map(str, config.getini("zoo")), *option("zoo")),
            budgets=(*map(str, config.getini("budgets")), *option("budgets")),
            seed=option("seed"),
            backend=option("backend"),
            tf32=option("tf32"),
            case_timeout=option("case_timeout"),
            save=option("save"),
            resume=option("resume"),
            replay=option("replay"),
            runs=config.rootpath / str(config.getini("runs_dir")),
            markers=option("markexpr"),
            filtered=bool(option("models") or option("cases") or option("keyword")),
            baseline_python=option("baseline_python"),
            pairs=option("pairs"),
            arguments=tuple(
                config.invocation_params.args and map(str, config.invocation_params.args)
            ),
            baseline_run=option("baseline_run"),
        )


def add_options(parser: pytest.Parser) -> None:
    """Adds the options, and the settings of the ini file."""
    group = parser.getgroup("compilegate", "compilegate: is torch.compile right, and worth it?")
    group.addoption(
        "--tier",
        metavar="TIER",
        help="smoke, standard or full (default: smoke on CPU, standard on GPU)",
    )
    group.addoption(
        "--models",
        action="append",
        default=[],
        metavar="GLOB",
        help="only models whose name matches (repeatable; default: all)",
    )
    group.addoption(
        "--cases",
        action="append",
        default=[],
        metavar="GLOB",
        help="only cases whose id matches; an id in full is taken from any tier (repeatable)",
    )
    group.addoption(
        "--zoo",
        action="append",
        default=[],
        metavar="FILE",
        help="add the models of a Python file (repeatable; ini: zoo)",
    )
    group.addoption(
        "--budgets",
        action="append",
        default=[],
        metavar="FILE",
        help="layer a TOML file over the shipped budgets (repeatable; ini: budgets)",
    )
    group.addoption(
        "--budgets-update",
        action="store_true",
        help="add exact entries for failed counts, speed, memory and compile time",
    )
    group.addoption(
        "--seed", type=int, default=0, metavar="N", help="of weights and inputs (default: 0)"
    )
    group.addoption(
        "--backend",
        default="inductor",
        choices=("inductor", "aot_eager_decomp_partition", "aot_eager", "eager"),
        help="the compiler backend; others stop earlier, for triage (default: inductor)",
    )
    group.addoption(
        "--tf32",
        action="store_true",
        help="let f32 products round to TF32 on a GPU, in eager and compiled code alike",
    )
    group.addoption(
        "--case-timeout",
        type=float,
        metavar="SECONDS",
        help="kill a case after this long (default: 300, 900 or 1800 by tier; tuning: thrice)",
    )
    group.addoption(
        "--baseline-python",
        metavar="PATH",
        help="observe under this interpreter, too: its PyTorch is in use, ours is the candidate",
    )
    group.addoption(
        "--pairs",
        type=int,
        default=PAIRS,
        metavar="K",
        help="fresh pairs of processes for what one pair shows slower (default: %(default)s); "
        "as many again where these find it slower by little",
    )
    group.addoption("--save", metavar="NAME", help="name the run (default: its time)")
    group.addoption("--resume", metavar="RUN", help="observe what is missing in a run")
    group.addoption("--replay", metavar="RUN", help="judge a stored run again; compiles nothing")
    group.addoption(
        "--baseline-run",
        metavar="RUN",
        help="hold every case against a stored run of the PyTorch in use",
    )
    group.addoption(
        "--fail-inconclusive", action="store_true", help="inconclusive verdicts are failures"
    )
    parser.addini("zoo", "files whose models are added to the zoo", type="paths", default=[])
    parser.addini("budgets", "budgets files layered over the shipped", type="paths", default=[])
    parser.addini("runs_dir", "where run files are kept", default=".runs")


def check(options: Options) -> None:
    """Refuse options that exclude each other, and values that cannot be.

    Raises:
        ValueError: With the way out.
    """
    if options.tier is not None and options.tier not in tiers.TIERS:
        raise UnknownNameError("tier", options.tier, tiers.TIERS)
    if options.replay and options.resume:
        raise ValueError("--replay and --resume exclude each other: one judges, one goes on")
    if options.baseline_run and options.baseline_python:
        raise ValueError(
            "--baseline-run and --baseline-python exclude each other: one is stored, one is live"
        )
    if options.replay and options.baseline_python:
        raise ValueError("--replay and --baseline-python exclude each other: one starts nothing")
    if options.pairs < FEWEST_PAIRS:
        raise ValueError(f"--pairs {options.pairs}: at least {FEWEST_PAIRS} are needed to judge")
    if options.save and options.resume:
        raise ValueError("--save and --resume exclude each other: a resumed run keeps its file")
    if options.save:
        _refuse_taken(options.save, options.runs)
    if options.case_timeout is not None and not 0 < options.case_timeout < math.inf:
        raise ValueError(f"--case-timeout {options.case_timeout:g}: expected seconds above 0")
    for file in options.zoo:
        if not Path(file).is_file():
            raise ValueError(f"no zoo file {file}")


def _refuse_taken(name: str, runs: Path) -> None:
    """Refuse the name of a run, or of a baseline's beside it, that there is already."""
    if Path(name).name != name:
        raise ValueError(f"--save {name!r}: expected a name, not a path")
    for file in (f"{name}.jsonl", f"{name}.jsonl.gz", f"{name}.baseline.jsonl"):
        if (runs / file).exists():
            way = "save under another name"
            way += f", or go on with --resume {name}" if file == f"{name}.jsonl" else ""
            raise ValueError(f"--save {name}: {runs / file} exists; {way}")


def judges_suites(config: pytest.Config) -> bool:
    """Whether the session collects from the suites, and not only other tests of the checkout."""
    folder = config.invocation_params.dir
    return names_suites(config.args, folder, pyargs=config.getoption("pyargs"))
