"""``compilegate first-bad CASE_ID``: find the release of torch that broke a case."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.version import Version

from compilegate.commands.observe import ArgumentError
from compilegate.judging import budgets_toml
from compilegate.judging.aspects import ASPECTS
from compilegate.judging.budgets import Budgets, Machine
from compilegate.layout import SHIPPED_BUDGETS
from compilegate.output.visible import visible
from compilegate.processes import cpp_compiler, zoo_listing
from compilegate.processes.child_process import ObserverError
from compilegate.processes.interpreter import check_interpreter
from compilegate.processes.observer import BACKENDS, Observer
from compilegate.processes.server_process import Launch
from compilegate.records.case import Case, UnknownNameError
from compilegate.records.observation import WANTS, Want
from compilegate.records.request import Request
from compilegate.triage.releases import conclusion
from compilegate.triage.releases.bisection import bisect
from compilegate.triage.releases.environments import ReleaseEnvironments, is_range, releases
from compilegate.triage.releases.lacks import lack, unstarted
from compilegate.triage.search.seen import Seen
from compilegate.upgrade.attribution import distributions
from compilegate.upgrade.attribution.index import MakingError
from compilegate.zoo import registry
from compilegate.zoo.selection import refuse_impossible

#: Seconds without progress after which a release is given up.
_TIMEOUT_S = 300.0
#: The aspects that are judged where none is named: those whose verdict one machine's load leaves.
_EXACT = tuple(a.name for a in ASPECTS.values() if a.group in ("numerics", "state", "capture"))


def add_parser(commands: Any) -> None:
    """Add the subcommand and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "first-bad",
        help="find the release of torch that broke a case",
        description="Observe a case under releases of torch, and find the first that fails.",
        epilog="Exit status: 0 no observed release fails, 1 one fails, 2 too few were observed.",
    )
    parser.add_argument("case", metavar="CASE_ID")
    parser.add_argument(
        "--torch",
        metavar="RANGE",
        help="2.12..2.15 for the last release of each minor version, or a list: 2.12.1,2.13.0",
    )
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="PATH",
        help="an existing interpreter (repeatable); with --torch, it serves for its release",
    )
    parser.add_argument(
        "--aspect",
        choices=sorted(ASPECTS),
        help="the aspect that counts (default: any exact aspect)",
    )
    parser.add_argument(
        "--with",
        action="append",
        default=[],
        dest="libraries",
        metavar="DIST",
        help="a package to install with torch, such as timm (default: the model's requirement)",
    )
    parser.add_argument(
        "--zoo", action="append", default=[], metavar="FILE", help="a zoo file (repeatable)"
    )
    parser.add_argument(
        "--budgets", action="append", default=[], metavar="FILE", help="a budgets file (repeatable)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default: 0")
    parser.add_argument("--backend", choices=BACKENDS, default=BACKENDS[0])
    parser.add_argument(
        "--environments",
        type=Path,
        default=Path(".environments"),
        metavar="DIR",
        help="the folder that keeps environments (default: .environments)",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print the releases, their folders and their disk space; install nothing",
    )
    parser.set_defaults(do=run)


@dataclass(frozen=True)
class Looks:
    """Observes one case under interpreters, and judges whether it is bad.

    Attributes:
        options: The command line.
        case: The case.
        budgets: The budgets; expected failures are bad, too.
    """

    options: argparse.Namespace
    case: Case
    budgets: Budgets

    @property
    def _aspects(self) -> tuple[str, ...]:
        return (self.options.aspect,) if self.options.aspect else _EXACT

    @property
    def _wants(self) -> tuple[Want, ...]:
        wanted = {want for name in self._aspects for want in ASPECTS[name].wants}
        return tuple(want for want in WANTS if want in wanted)

    def __call__(self, python: str) -> Seen:
        """Observe the case under an interpreter."""
        from compilegate.judging.rules import verdicts  # noqa: PLC0415 (the suites import pytest)

        options, case = self.options, self.case
        launch = Launch(python=python, zoo=tuple(options.zoo), root=str(Path.cwd()))
        observer = Observer(launch, lambda *_: None)
        try:
            environment = observer.environment()
            wants, backend = self._wants, options.backend
            request = Request(case=case.id, wants=wants, seed=options.seed, backend=backend)
            made = observer.observe(
                request, model=case.model, device=case.device, timeout_s=_TIMEOUT_S
            )
        except ObserverError as error:
            return Seen("unobservable", unstarted(str(error)))
        finally:
            observer.close()
        if why := lack(made, environment.versions):
            return Seen("unobservable", why)
        machine = Machine.of(environment, case.device)
        version = environment.versions.get("torch", "0")
        budget = replace(self.budgets.budget(case, machine, version), expected_failures=())
        found = [v for v in verdicts(made, budget) if v.aspect in self._aspects]
        return Seen.in_verdicts(found)


def run(options: argparse.Namespace) -> int:
    """Search, and print what each release showed.

    Returns:
        The exit status.

    Raises:
        ArgumentError: The case, a file or the releases are wrong.
        MakingError: There is too little disk, or the index has no such release.
    """
    try:
        case = Case.parse(options.case)
        cpp_compiler.require(case.device, options.backend)
        zoo_listing.check_files(options.zoo)
        model = _model(case, options.zoo)
        if model is not None:
            refuse_impossible(case, model)
    except ValueError as error:
        raise ArgumentError(str(error)) from error
    files = [Path(file) for file in options.budgets]
    budgets = budgets_toml.read(files, sorted(SHIPPED_BUDGETS.glob("*.toml")))
    needed = [model.requires] if model is not None and model.requires else []
    folder = options.environments.resolve()
    own = _own(options)
    environments = ReleaseEnvironments(folder, tuple(options.libraries or needed), _say, own)
    names = releases_of(options.torch, own)
    if options.torch and not is_range(options.torch):  # a range is of what the index has
        environments.check_index(names)
    if options.dry_run:
        for line in environments.places(names):
            _say(line)
    else:
        environments.remove_unfinished()
    if options.torch:
        _say(environments.check_disk(names))
    if options.dry_run:
        return 0
    looks = Looks(options, case, budgets)

    def look(index: int) -> Seen:
        try:
            seen = looks(environments.python(names[index]))
        except MakingError as error:
            seen = Seen("unobservable", "; ".join(str(error).splitlines()))
        _say(f"{names[index]}: {seen}")
        return seen

    found = bisect(len(names), look)
    causes = conclusion.causes(case, environments, names, found, looks)
    for line in itertools.chain(conclusion.conclusion(found, names), causes):
        _say(line)
    states = {seen.state for seen in found.seen.values()}
    return 1 if "bad" in states else 0 if "good" in states else 2


def _model(case: Case, zoo: Sequence[str]) -> registry.Model | None:
    """Return the model of a case, so that a mistake shows before anything is installed.

    None where this interpreter cannot load the zoo: that of a release may have what it imports.

    Raises:
        UnknownNameError: There is no such model.
    """
    models = dict(registry.load())
    try:
        listed = zoo_listing.list_models(sys.executable, [os.path.abspath(file) for file in zoo])
    except registry.ZooError as error:
        if case.model not in models:
            _say(f"whether there is a model {case.model} is not known yet: {error}")
        return models.get(case.model)
    models |= {model.name: model for model in listed}
    if case.model not in models:
        raise UnknownNameError("model", case.model, models)
    return models[case.model]


def _own(options: argparse.Namespace) -> dict[str, str]:
    """Return the interpreters that the user names, by their release of torch."""
    if not options.torch and not options.python:
        raise ArgumentError("name the releases with --torch, or interpreters with --python")
    for python in options.python:
        check_interpreter(python, "--python")
    return {_torch_of(python): python for python in options.python}


def releases_of(wanted: str | None, own: Mapping[str, str]) -> list[str]:
    """Return the names of what to search, from old to new.

    Args:
        wanted: The releases that ``--torch`` names.
        own: The interpreters of the user. A build such as 2.13.0+cpu is that of 2.13.0.
    """
    public = {Version(name).public for name in own}
    named = releases(wanted) if wanted else []
    others = [name for name in named if Version(name).public not in public]
    return sorted([*own, *others], key=Version)


def _torch_of(python: str) -> str:
    found = distributions.installed(python).distributions.get("torch")
    if found is None:
        raise ArgumentError(f"--python {python} has no distribution torch")
    return found.version


def _say(text: str) -> None:
    print(visible(text), flush=True)
