"""``compilegate observe CASE_ID``: observe one case in the foreground, and judge it.

Every failure prints this command.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from compilegate.judging import budgets_toml
from compilegate.judging.aspects import ASPECTS
from compilegate.judging.budgets import Budgets, Machine
from compilegate.judging.completeness import is_judged
from compilegate.layout import SHIPPED_BUDGETS
from compilegate.output.visible import visible
from compilegate.processes import cpp_compiler, foreground, zoo_listing
from compilegate.processes.interpreter import check_interpreter
from compilegate.processes.observer import BACKENDS
from compilegate.records.case import Case, UnknownNameError
from compilegate.records.environment import Environment
from compilegate.records.observation import WANTS, Observation
from compilegate.records.run import encode
from compilegate.records.verdict import Verdict
from compilegate.zoo import registry

#: What to do about a model of the user's own.
_OWN_MODELS = "a model of your own needs --zoo FILE: the ini setting zoo counts for pytest alone"


class ArgumentError(Exception):
    """A wrong argument. The text names it and says what to do."""


def add_parser(commands: Any) -> None:
    """Add the subcommand and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "observe",
        help="observe one case in the foreground, and judge it",
        description="Observe one case in the foreground, and judge it.",
        epilog="Exit status: 0 nothing failed, 1 a verdict failed or the process died, 2 the "
        "command line is wrong or nothing could be judged.",
    )
    parser.add_argument(
        "case", metavar="CASE_ID", help="such as resnet18-cpu-infer-f32-default-static"
    )
    parser.add_argument("--pdb", action="store_true", help="stop in the debugger at the failure")
    parser.add_argument("--json", action="store_true", help="print records as JSON lines")
    parser.add_argument(
        "--zoo", action="append", default=[], metavar="FILE", help="a zoo file (repeatable)"
    )
    parser.add_argument(
        "--budgets",
        action="append",
        default=[],
        metavar="FILE",
        help="a budgets file over the shipped budgets (repeatable)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="the seed of weights and inputs (default: 0)",
    )
    parser.add_argument(
        "--backend", choices=BACKENDS, default=BACKENDS[0], help=f"default: {BACKENDS[0]}"
    )
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="observe the PyTorch of this interpreter (default: that of compilegate)",
    )
    parser.add_argument("--tf32", action="store_true", help="use TF32 for f32 products on a GPU")
    parser.add_argument("--cold", action="store_true", help="compile in an empty cache")
    parser.add_argument(
        "--want",
        action="append",
        choices=WANTS,
        help="what to observe (repeatable; default: as in a session of one version)",
    )
    parser.set_defaults(do=run)


def run(options: argparse.Namespace) -> int:
    """Observe the case, judge it and print the verdicts.

    Returns:
        The exit status: 0 nothing failed, 1 something failed, 2 the command line is wrong or
        nothing could be judged.

    Raises:
        ArgumentError: The case, a zoo file or a budgets file is wrong, or there is no compiler.
        BudgetError: Two budget entries tie for the case.
    """
    try:
        case, budgets = _read(options)
    except ValueError as error:
        raise ArgumentError(str(error)) from error
    python = options.python or sys.executable
    check_interpreter(python, "--python" if options.python else "the interpreter")
    made = foreground.observe(_words(options), python)
    if made.observation is None or made.environment is None:
        if not made.refused:
            print(f"compilegate: the observing process {made.end}", file=sys.stderr)
        return 2 if made.refused else 1
    verdicts = _judge(case, made.observation, made.environment, budgets)
    lines = _json if options.json else _text
    for line in lines(made.observation, made.environment, verdicts):
        print(line)
    if any(verdict.outcome == "failed" for verdict in verdicts):
        return 1
    return 0 if is_judged(verdicts) else 2


def _read(options: argparse.Namespace) -> tuple[Case, Budgets]:
    """Check the arguments as far as this process can, and return the case and the budgets."""
    case = Case.parse(options.case)
    cpp_compiler.require(case.device, options.backend)
    if not options.zoo and case.model not in (shipped := registry.load()):
        unknown = UnknownNameError("model", case.model, shipped)
        raise ValueError(f"{unknown} ({_OWN_MODELS})")
    zoo_listing.check_files(options.zoo)
    shipped_budgets = sorted(SHIPPED_BUDGETS.glob("*.toml"))
    return case, budgets_toml.read([Path(file) for file in options.budgets], shipped_budgets)


def _words(options: argparse.Namespace) -> list[str]:
    """Return the arguments of the observing process."""
    words = [options.case, "--seed", str(options.seed), "--backend", options.backend]
    words += ["--root", str(Path.cwd())]
    words += [f"--{name}" for name in ("pdb", "tf32", "cold") if getattr(options, name)]
    for file in options.zoo:
        words += ["--zoo", file]
    for want in _wants(options):
        words += ["--want", want]
    return words


def _wants(options: argparse.Namespace) -> list[str]:
    """Return what to observe: what was asked for, and what the suites of its practices need."""
    asked = options.want or []
    aspects = [aspect for aspect in ASPECTS.values() if aspect.practice in asked]
    needed = [want for aspect in aspects for want in aspect.wants]
    return [*dict.fromkeys([*asked, *needed])]


def _judge(
    case: Case, observation: Observation, environment: Environment, budgets: Budgets
) -> list[Verdict]:
    from compilegate.judging.rules import verdicts  # noqa: PLC0415 (the suites import pytest)

    torch = environment.versions.get("torch", "0")
    machine = Machine.of(environment, case.device)
    return list(verdicts(observation, budgets.budget(case, machine, torch)))


def _json(
    observation: Observation, environment: Environment, verdicts: Sequence[Verdict]
) -> Iterator[str]:
    yield encode(observation)
    yield from map(encode, verdicts)


def _text(
    observation: Observation, environment: Environment, verdicts: Sequence[Verdict]
) -> Iterator[str]:
    """Yield the case, its environment, a line for each verdict, and the details of failures."""
    yield observation.case
    yield _place(observation, environment)
    width = max((len(verdict.aspect) for verdict in verdicts), default=0)
    shown: set[tuple[str, ...]] = set()
    for verdict in verdicts:
        outcome = verdict.outcome.replace("_", " ")
        yield visible(f"{outcome:<16}  {verdict.aspect:<{width}}  {verdict.summary}")
        details = tuple(line for line in verdict.details if line not in verdict.summary)
        if verdict.outcome in ("passed", "skipped") or details in shown:
            continue
        shown.add(details)  # all aspects of a case that did not run share the traceback
        yield from (visible(f"  {line}") for line in details)
    counts = Counter(verdict.outcome.replace("_", " ") for verdict in verdicts)
    yield ", ".join(f"{count} {outcome}" for outcome, count in counts.items())


def _place(observation: Observation, environment: Environment) -> str:
    device = environment.device(Case.parse(observation.case).device)
    parts = [f"torch {environment.versions.get('torch', 'unknown')}"]
    parts += [f"Python {environment.python}"]
    parts += [device.name] if device else []
    parts += [f"backend {observation.backend}", f"seed {observation.seed}"]
    parts += ["cold" if observation.cold else "warm cache"]
    return visible(", ".join(parts))
