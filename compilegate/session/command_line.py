"""The definitions of the options."""

from __future__ import annotations

import argparse

import pytest

from compilegate.processes.observer import BACKENDS
from compilegate.upgrade.paired_costs import PAIRS


def add_options(parser: pytest.Parser) -> None:
    """Add the options to pytest's command line."""
    group = parser.getgroup("compilegate", "compilegate: the results and costs of torch.compile")
    _add_selection(group)
    _add_shards(group)
    _add_settings(group)
    _add_runs(group)


def _add_selection(group: pytest.OptionGroup) -> None:
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
        help="select models by name (repeatable; default: all)",
    )
    group.addoption(
        "--cases",
        action="append",
        default=[],
        metavar="GLOB",
        help="select cases by id; a full id selects from any tier (repeatable)",
    )
    group.addoption(
        "--zoo",
        action="append",
        default=[],
        metavar="FILE",
        help="add the models of a Python file (repeatable; ini: zoo)",
    )


def _add_shards(group: pytest.OptionGroup) -> None:
    group.addoption(
        "--shard",
        metavar="I/N",
        help="select the I-th of N parts of about equal duration, by the seconds of an earlier "
        "run; compilegate merge combines the runs",
    )
    group.addoption(
        "--shard-by",
        metavar="RUN",
        help="the earlier run (default: the newest run of the same cases). Give all shards the "
        "same run, or give none of them one",
    )


def _add_settings(group: pytest.OptionGroup) -> None:
    group.addoption(
        "--budgets",
        action="append",
        default=[],
        metavar="FILE",
        help="layer a TOML file over the shipped budgets (repeatable; ini: budgets)",
    )
    group.addoption(
        "--known",
        action="append",
        default=[],
        metavar="FILE",
        help="a TOML file with the issues of known culprits (repeatable; ini: known)",
    )
    group.addoption(
        "--budgets-update",
        action="store_true",
        help="write exact budgets for failed counts, speed, memory and compile time",
    )
    group.addoption(
        "--seed", type=int, metavar="N", help="the seed of weights and inputs (default: 0)"
    )
    group.addoption(
        "--backend",
        choices=BACKENDS,
        help="the backend of torch.compile; to find the stage that fails, choose one that stops "
        f"earlier (default: {BACKENDS[0]})",
    )
    group.addoption(
        "--tf32",
        action="store_true",
        default=None,
        help="use TF32 for f32 products on a GPU, in eager and in compiled code",
    )
    group.addoption(
        "--case-timeout",
        type=float,
        metavar="SECONDS",
        help="kill a case that makes no progress for this long. Time in which its processes wait "
        "for the processor does not count. A case that makes progress ends after three times this "
        "limit, or six times in wall-clock time (default: 300, 900 or 1800 by tier; three times "
        "that for autotuning modes)",
    )
    group.addoption(
        "--stop-after",
        type=float,
        metavar="MINUTES",
        help="begin no case after this many minutes, and finish those in progress. --resume "
        "observes the others",
    )
    group.addoption(
        "--fail-inconclusive", action="store_true", help="treat inconclusive verdicts as failures"
    )


def _add_runs(group: pytest.OptionGroup) -> None:
    group.addoption("--save", metavar="NAME", help="name the run (default: its start time)")
    group.addoption("--resume", metavar="RUN", help="continue a run: observe its missing cases")
    group.addoption(
        "--replay", metavar="RUN", help="judge a stored run again, without compiling anything"
    )
    group.addoption(
        "--baseline-run",
        metavar="RUN",
        help="compare each case with a stored run of the PyTorch in use",
    )
    group.addoption(
        "--baseline-python",
        metavar="PATH",
        help="compare each case with the PyTorch of this interpreter, observed in this session",
    )
    group.addoption(
        "--candidate",
        action="append",
        default=[],
        dest="candidates",
        metavar="PATH",
        help="observe the PyTorch of this interpreter (default: the interpreter that runs pytest). "
        "Repeat it, with --baseline-python or --baseline-run, to run one session for each; one "
        "table then names the newest safe PyTorch",
    )
    # A session of several candidates reads the comparison of each from a file.
    group.addoption("--comparison-file", metavar="FILE", help=argparse.SUPPRESS)
    group.addoption(
        "--attribute",
        action="store_true",
        help="with --baseline-python: find the distributions that make cases worse, by observing "
        "these cases in environments between the two. They stay in .environments, next to the "
        "folder of runs",
    )
    group.addoption(
        "--pairs",
        type=int,
        default=PAIRS,
        metavar="K",
        help="measure a case again in K fresh pairs of processes if it costs more in its first "
        "pair, and in K more if the result is close (default: %(default)s)",
    )
