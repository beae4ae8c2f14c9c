"""Triages the culprits of a stored run: for each one folder with a report, a script and logs."""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from compilegate.culprits.evidence import has_stopped_failing
from compilegate.culprits.grouping import (
    FAILED,
    TRIAGED,
    Culprit,
    Failure,
    counted,
    culprits,
    folded,
    in_order,
)
from compilegate.culprits.known import Known
from compilegate.judging.budget import Budget
from compilegate.judging.budgets import Budgets, Machine
from compilegate.judging.rules import verdicts as judged
from compilegate.records.case import Case, model_of
from compilegate.records.observation import Observation
from compilegate.records.verdict import Verdict
from compilegate.runs import hidden_folders, reproduction
from compilegate.runs.files import Run
from compilegate.triage.findings import Files, Findings
from compilegate.triage.investigation import Investigation
from compilegate.triage.report import (
    cleaning,
    code_lines,
    environment_file,
    found_reports,
    issue,
    other_reports,
    ownership,
)
from compilegate.triage.search.suspect import Suspect
from compilegate.triage.steps.causes import cause_of, known_entries
from compilegate.triage.steps.scripting import retitle

#: The folder, in that of a culprit, of those that were joined with it.
OTHER_REPORTS = "other-reports"


@dataclass
class Triaged:
    """What became of a culprit.

    Attributes:
        suspect: The case that stood for it.
        folder: Where its report is.
        findings: What was found.
        first: The culprit that it was joined with, since both have one cause; None if with none.
    """

    suspect: Suspect
    folder: Path
    findings: Findings
    first: Triaged | None = None

    @property
    def place(self) -> str:
        """The stage, the code that is not PyTorch's, the line or the submodule, the operator."""
        found = self.findings
        line = next((line.partition(" in ")[0] for line in found.sources), "")
        operator = f"{found.named} at {line}" if line else found.named
        shown = self.suspect.evidence
        where = shown.source or shown.frame or (found.place.path and str(found.place))
        own = found.guilty and ownership.described(found.guilty)
        known = [text for text in (own, found.wrong_line, where, operator) if text]
        known = known or [str(found.place)]
        return ", ".join([found.stage.name, *known])


def suspects(
    run: Run,
    budgets: Budgets,
    patterns: Sequence[str] = (),
    known: Sequence[Known] = (),
    among: Container[str] | None = None,
) -> list[Suspect]:
    """Return a case for each culprit of a run: of those that show it, the cheapest.

    Args:
        run: The run.
        budgets: The budgets that the run is judged by.
        patterns: Globs on case ids. With some, culprits that are expected count, too.
        known: What a team knows.
        among: The ids of the cases that count; None for all of the run.
    """
    failures = [one for one in _failures(run) if among is None or one.verdict.case in among]
    found = []
    for culprit in culprits(failures, known):
        cases = [c for c in culprit.cases if _matches(c, patterns)]
        if cases and (patterns or not culprit.is_expected):
            found.append(_suspect(run, culprit, cases, failures, budgets))
    return found


def _failures(run: Run) -> Iterator[Failure]:
    for case, observation in run.observations.items():
        of_case = [verdict for (name, _), verdict in run.verdicts.items() if name == case]
        for verdict in in_order(of_case):
            if verdict.outcome in FAILED and not has_stopped_failing(verdict):
                yield Failure(observation, verdict)


def _matches(case: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(names_case(pattern, case) for pattern in patterns)


def names_case(pattern: str, case: str) -> bool:
    """Whether a word of a user names a case: its id, a glob on that, or the name of its model."""
    return fnmatchcase(case, pattern) or pattern == model_of(case)


def _suspect(
    run: Run,
    culprit: Culprit,
    cases: Sequence[str],
    failures: Sequence[Failure],
    budgets: Budgets,
) -> Suspect:
    def cost(case: str) -> tuple[bool, bool, float]:
        parsed = Case.parse(case)
        spent = sum(run.observations[case].spent_s.values())
        return parsed.computes_in_half, parsed.phase == "train", spent

    case = min(cases, key=cost)
    environment = run.header.environment
    release = environment.versions.get("torch", "0")

    def budget(of: Case) -> Budget:
        return budgets.budget(of, Machine.of(environment, of.device), release)

    own = [f for f in failures if f.verdict.case == case and f.verdict.aspect in culprit.aspects]
    own.sort(key=lambda failure: failure.verdict.aspect != culprit.aspect)  # it explains the others
    found = [_unexpected(f, budget) for f in own]
    return Suspect(culprit, run.observations[case], found, budget, release)


def _unexpected(failure: Failure, budget: Callable[[Case], Budget]) -> Verdict:
    """Return a verdict with the details that an expected failure leaves out."""
    if not failure.is_expected:
        return failure.verdict
    return _judged_again(failure.observation, failure.verdict.aspect, budget) or failure.verdict


def _judged_again(
    observation: Observation, aspect: str, budget: Callable[[Case], Budget]
) -> Verdict | None:
    plain = replace(budget(Case.parse(observation.case)), expected_failures=())
    return next((v for v in judged(observation, plain) if v.aspect == aspect), None)


def unused(target: Path) -> Path:
    """Return a folder that holds no reports: this one, or else ``TARGET-2``, and so on."""
    others = (target.with_name(f"{target.name}-{number}") for number in itertools.count(2))
    return next(one for one in itertools.chain([target], others) if not _holds_reports(one))


def _holds_reports(folder: Path) -> bool:
    return any(folder.glob("[0-9]*/report.md"))


def triage(
    run: Run,
    found: Sequence[Suspect],
    target: Path,
    *,
    minutes: float,
    say: Callable[[str], None],
    root: str = "",
) -> Iterator[Triaged]:
    """Investigate suspects one after the other, and yield each as soon as its report is written.

    A culprit whose cause is that of an earlier one is joined with it: its folder moves into the
    folder of the first, whose report then names the cases of both. The file of known culprits is
    written after each, so that it is there if a kill ends the search.

    Args:
        run: The run that they are from.
        found: The suspects.
        target: The folder that receives one folder for each.
        minutes: The most time for each.
        say: Is given a line for each thing that is done.
        root: The folder that files are named from; by default the current one.

    Raises:
        OSError: A folder cannot be written.
        KeyboardInterrupt: Ctrl-C or SIGTERM. A report says what was found by then.
    """
    zoo = [str(Path(file).resolve()) for file in zoo_files(run)]
    firsts: list[Triaged] = []
    every: list[Triaged] = []
    for number, suspect in enumerate(found, 1):
        folder = target.resolve() / f"{len(firsts) + 1}-{_slug(suspect)}"
        say(f"{number}/{len(found)}: {suspect.culprit}")
        files = Files(zoo, run.header.tf32, root)
        earlier = [cause_of(first.suspect, first.findings) for first in firsts]
        investigation = Investigation(suspect, folder, files, minutes * 60, say, earlier=earlier)
        made = investigation.findings
        above = [parent for file in zoo for parent in Path(file).parents[:3]]
        made.code = code_lines.text_of(suspect.evidence, [Path(root or Path.cwd()), *above])
        one = Triaged(suspect, folder, made)
        try:
            hidden_folders.make(folder)
            investigation.run()
        finally:  # also where Ctrl-C or SIGTERM ends it
            _write(one, run)
            _write_known(run, [*firsts, one], target)
        cause = cause_of(suspect, made)
        for first, known in zip(firsts, earlier, strict=True):
            if cause.is_that_of(known):
                _join(first, one, number)
                _write(first, run)
                break
        else:
            firsts.append(one)
        every.append(one)
        _refer(run, every)
        _write_known(run, firsts, target)
        yield one


def _join(first: Triaged, other: Triaged, number: int) -> None:
    """Move what was found of a culprit to the one that has the same cause."""
    other.first = first
    folder = first.folder / OTHER_REPORTS / f"{number}-{other.folder.name.partition('-')[2]}"
    if folder.exists():
        shutil.rmtree(folder)
    folder.parent.mkdir(exist_ok=True)
    other.folder = other.folder.rename(folder)
    culprit = other.suspect.culprit
    at = f"`{OTHER_REPORTS}/{folder.name}` has its report"
    first.findings.also.append(f"{folded(culprit.cases)}, in {other.place}: {at}.")
    first.suspect = replace(first.suspect, culprit=first.suspect.culprit.joined(culprit))


def conclude(made: Sequence[Triaged], target: Path) -> Iterator[str]:
    """Yield how many culprits there are by cause, if fewer, and which file names them.

    Args:
        made: What became of each culprit.
        target: The folder that has one folder for each.
    """
    firsts = [one for one in made if one.first is None]
    if len(firsts) < len(made):
        seen = counted([one.suspect.culprit for one in made])
        yield f"{counted([one.suspect.culprit for one in firsts])} by cause; by evidence {seen}"
    if any(map(_is_new, firsts)):
        named = _from_here(target.resolve() / found_reports.FILE)
        yield f"to see these reports named in later sessions: --known {named}"


def _is_new(one: Triaged) -> bool:
    """Whether a culprit was found, and no budget expects it."""
    return one.findings.stage.is_confirmed and not one.suspect.culprit.is_expected


def _write_known(run: Run, firsts: Sequence[Triaged], target: Path) -> None:
    """Write the file of known culprits, if there are any. A reader finds it whole."""
    file = target.resolve() / found_reports.FILE
    texts = [found_reports.head(run.header.created)]
    for one in filter(_is_new, firsts):
        culprit, report_at = one.suspect.culprit, _from_here(one.folder / "report.md")
        issue = culprit.issue or f"{TRIAGED}{one.place}: {report_at}"
        own = (one.folder / "report.md").relative_to(file.parent)
        texts += known_entries(culprit, cleaning.cleaned(issue), own.as_posix())
    if len(texts) > 1:
        unfinished = file.with_suffix(".making")
        unfinished.write_text("".join(texts), encoding="utf-8")
        unfinished.replace(file)


def _from_here(path: Path) -> Path:
    """Return a path from the current folder, if it is below."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def zoo_files(run: Run) -> list[str]:
    """Return the zoo files that the session of a run was given."""
    words = run.header.files or run.header.arguments
    return [*reproduction.file_options(words, "--zoo")][1::2]


def _slug(suspect: Suspect) -> str:
    name = f"{model_of(suspect.case.id)}-{suspect.verdict.aspect}"
    return re.sub(r"[^a-z0-9_.-]+", "-", name)[:60]


def _refer(run: Run, every: Sequence[Triaged]) -> None:
    """Have reports that name no submodule refer to those that do: one may have moved."""
    reported = [(one.folder, one.suspect, one.findings) for one in every]
    for one, own in zip(every, reported, strict=True):
        found = [*other_reports.naming(own, reported)]
        if found != one.findings.elsewhere:
            one.findings.elsewhere = found
            _write(one, run)


def _write(one: Triaged, run: Run) -> None:
    folder, suspect, made = one.folder, one.suspect, one.findings
    command = reproduction.command(
        suspect.observation,
        reproduction.files_of(run.header),
        import_folders=run.header.import_folders,
    )
    environment = run.header.environment
    retitle(suspect, made, folder)
    script = folder / "repro.py"
    source = script.read_text(encoding="utf-8") if made.script is not None else ""
    text = issue.text(suspect, made, environment, cleaning.cleaned(command), source)
    (folder / "report.md").write_text(text + "\n", encoding="utf-8")
    about = environment_file.text(environment)
    (folder / "environment.txt").write_text(about, encoding="utf-8")
    secrets = issue.secrets_of(made)
    if words := issue.last_words(suspect.observation):
        said = cleaning.cleaned(words, secrets)
        (folder / issue.CASE_LOG).write_text(said + "\n", encoding="utf-8")
    for name in ("repro.log", "bisection.log"):
        if (folder / name).exists():
            log = (folder / name).read_text(encoding="utf-8")
            (folder / name).write_text(cleaning.cleaned(log, secrets), encoding="utf-8")
    if not source:  # one that was not run to its end
        script.unlink(missing_ok=True)


def summary(triaged: Triaged) -> str:
    """Return one line: the culprit, its stage and place, and whether the script shows it."""
    made = triaged.findings
    verified = made.verified
    holds = verified is not None and verified.holds
    script = "script verified" if holds else "script not verified" if verified else "no script"
    if not made.stage.is_confirmed:
        return f"{triaged.folder}: {made.stage.doubt}"
    if triaged.first is not None:
        first = triaged.first.folder.name
        return f"{triaged.folder}: {triaged.place}: the same cause as {first}, so it is kept there"
    spent = sum(made.seconds.values())
    return f"{triaged.folder}: {triaged.place}, {script}, {spent:.0f} s"
