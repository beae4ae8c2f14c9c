"""The command ``compilegate``: compares, shows and merges stored runs, and observes one case.

Exit status: 0 nothing is worse or failed, 1 something is, 2 the question cannot be answered: the
input is wrong, or runs are incomplete or cannot be compared.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from compilegate.calibration.thresholds import ThresholdsError
from compilegate.commands import (
    doctor,
    first_bad,
    fuzz,
    history,
    observe,
    stored_runs,
    thresholds,
    triage,
)
from compilegate.commands.observe import ArgumentError
from compilegate.culprits import known
from compilegate.judging.budgets import BudgetError
from compilegate.output.streams import clean_streams
from compilegate.processes import interrupts
from compilegate.processes.child_process import ObserverError
from compilegate.records.wording import counted
from compilegate.reports import candidates_text, comparison_text, issues, markdown, titles
from compilegate.reports.case_result import results_of
from compilegate.runs import files, merge
from compilegate.runs.archive import Archive
from compilegate.runs.reader import RunError
from compilegate.triage.report import found_reports
from compilegate.upgrade.comparison import CompareError, compare
from compilegate.upgrade.decision import decide
from compilegate.upgrade.paired_costs import cost_changes

#: The exit status of a command that shows one run, which is written in any case.
_OF_ONE_RUN = (
    "Exit status: 0 no verdict of the run failed, 1 a verdict failed, 2 cases are missing or were "
    "not judged, or the run cannot be read. The command writes every readable run, even with "
    "failures."
)
#: Their messages say what is wrong, and what to do.
_ERRORS = (RunError, CompareError, BudgetError, ObserverError, ArgumentError, ThresholdsError)


@clean_streams()
def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand.

    Returns:
        The exit status.
    """
    parser = _parser()
    options, words = parser.parse_known_args(arguments)
    if any(word.startswith("-") for word in words) or (words and not hasattr(options, "cases")):
        parser.error(f"unrecognized arguments: {' '.join(words)}")
    if words:  # argparse takes no globs that stand behind an option
        options.cases = [*options.cases, *words]
    try:
        with interrupts.taken_together() as came:
            status: int = options.do(options)
    except _ERRORS as error:
        print(f"compilegate: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # the reader has closed the pipe
            what = f"access {error.filename}" if error.filename else "write the output"
            print(f"compilegate: cannot {what}: {error.strerror}", file=sys.stderr)
        # What is still in the buffer must not fail again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2
    except KeyboardInterrupt:
        ended_by = "SIGTERM" if came.is_terminated else "SIGINT"
        print(f"compilegate: {ended_by} ended it", file=sys.stderr)
        return came.status(interrupts.INTERRUPTED)
    except Exception:  # Python itself would exit with 1, which means that something is worse
        traceback.print_exc()
        print("compilegate: this is a bug: report it with the lines above", file=sys.stderr)
        return 2
    return came.status(status)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="compilegate",
        description="Compare, show, merge and triage stored runs of compilegate; observe one case; "
        "check a runner; search for miscompiled programs.",
        epilog="A run is a file, or its name in --runs. Exit status: 0 nothing is worse or failed, "
        "1 something is worse or failed, 2 the question has no answer.",
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_run_commands(commands)
    observe.add_parser(commands)
    thresholds.add_parser(commands)
    history.add_parser(commands)
    doctor.add_parser(commands)
    fuzz.add_parser(commands)
    first_bad.add_parser(commands)
    triage.add_parser(commands)
    return parser


def _add_run_commands(commands: Any) -> None:
    shared = argparse.ArgumentParser(add_help=False, parents=[stored_runs.options()])
    shared.add_argument("-o", "--output", metavar="FILE", type=Path, help="write to this file")

    one = commands.add_parser(
        "compare", parents=[shared], help="compare run B with run A, and decide on the upgrade"
    )
    one.epilog = (
        "Exit status: 0 the upgrade is safe, 1 something is worse, 2 the runs cannot decide. "
        "With several runs B, one table shows the decision on each, and names the newest safe "
        "PyTorch. The exit status is then 0 if one is safe, 1 if all are worse, 2 otherwise."
    )
    one.add_argument("baseline", metavar="A", help="the run of the PyTorch in use")
    one.add_argument(
        "candidates", metavar="B", nargs="+", help="the run of the new PyTorch (repeatable)"
    )
    one.add_argument(
        "--format", choices=("text", "markdown", "html"), default="text", help="default: text"
    )
    one.add_argument("--all", action="store_true", help="show every row, proposed budget and note")
    one.set_defaults(do=_compare)

    one = commands.add_parser(
        "html",
        parents=[shared],
        help="write one page for a run, or for a run and its baseline",
        epilog=f"{_OF_ONE_RUN} With a BASELINE, the exit status is that of compare.",
    )
    one.add_argument("run", metavar="RUN", help="the run to show")
    one.add_argument(
        "baseline", metavar="BASELINE", nargs="?", help="the run of the PyTorch in use (optional)"
    )
    _add_known(one)
    one.set_defaults(do=_html)

    one = commands.add_parser(
        "markdown",
        parents=[shared],
        help="write a run as a GitHub job summary",
        epilog=_OF_ONE_RUN,
    )
    one.add_argument("run", metavar="RUN", help="the run to show")
    _add_known(one)
    one.add_argument(
        "--issues",
        metavar="FILE",
        type=Path,
        help="write an issue for each culprit to this file, for .ci/publish-issues",
    )
    one.add_argument(
        "--workflow", metavar="NAME", default="compilegate", help="the prefix of issue titles"
    )
    one.set_defaults(do=_markdown)

    one = commands.add_parser("merge", parents=[shared], help="merge the shards of one run")
    one.add_argument("shards", metavar="RUN", nargs="+", help="the shards, in any order")
    one.set_defaults(do=_merge)


def _add_known(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--known",
        metavar="FILE",
        action="append",
        default=[],
        help="a TOML file with the issues of known culprits (repeatable)",
    )


def _find(name: str, options: argparse.Namespace) -> Path:
    return files.find(name, options.runs)


def _compare(options: argparse.Namespace) -> int:
    if len(options.candidates) > 1:
        return _compare_several(options)
    with (
        Archive(_find(options.baseline, options)) as baseline,
        Archive(_find(options.candidates[0], options)) as candidate,
    ):
        comparison = compare(baseline, candidate, cost_changes(baseline, candidate))
        match options.format:
            case "text":
                lines = comparison_text.comparison_lines(comparison, everything=options.all)
                _write(options.output, (f"{line}\n" for line in lines))
            case "markdown":
                _write(options.output, [markdown.of_comparison(comparison)])
            case "html":
                from compilegate.reports import html  # noqa: PLC0415 (only pages need Jinja)

                page = html.of_comparison(comparison, baseline, candidate)
                _write_page(options, candidate.path, page)
    decision = decide(comparison)
    if options.format == "html":
        _explain(decision.exit_status, str(decision))
    return decision.exit_status


def _compare_several(options: argparse.Namespace) -> int:
    if options.format != "text":
        raise ArgumentError(
            f"--format {options.format} shows one comparison: name one run B, or leave it out"
        )
    comparisons = {}
    with Archive(_find(options.baseline, options)) as baseline:
        for name in options.candidates:
            with Archive(_find(name, options)) as candidate:
                paired = cost_changes(baseline, candidate)
                comparisons[files.name_of(candidate.path)] = compare(baseline, candidate, paired)
    width = comparison_text.Layout().columns
    lines = candidates_text.candidate_lines(comparisons, width=width, everything=options.all)
    _write(options.output, (f"{line}\n" for line in lines))
    return candidates_text.exit_status(comparisons)


def _html(options: argparse.Namespace) -> int:
    from compilegate.reports import html  # noqa: PLC0415 (only pages need Jinja)

    if options.baseline:
        options.candidates, options.format, options.all = [options.run], "html", False
        return _compare(options)
    with Archive(_find(options.run, options)) as run:
        folder = _target(options, run.path).resolve().parent
        named = [entry.linked_from(folder) for entry in _known_of(run, options)]
        _write_page(options, run.path, html.of_run(run, named))
        return _status_of(run)


def _markdown(options: argparse.Namespace) -> int:
    with Archive(_find(options.run, options)) as run:
        _write(options.output, [markdown.of_run(run, known=_known_of(run, options))])
        if options.issues:
            # What a triage calls a culprit names that night's report: it would be a new issue.
            found = issues.of_run(run, options.workflow, known.read(options.known))
            _write(options.issues, [issues.dump(found)])
        return _status_of(run)


def _known_of(run: Archive, options: argparse.Namespace) -> list[known.Known]:
    """Return the culprits that the options name, and those that triages of the run have found.

    A triage of one case must not hide one of all: what joins more cases comes first.
    """
    found = known.read(found_reports.of_run(run.path, run.header.created))
    joining = sorted(found, key=lambda one: isinstance(one.cases, list) and -len(one.cases))
    return [*known.read(options.known), *joining]


def _status_of(run: Archive) -> int:
    """Return the exit status of showing one run, and say why it is not 0."""
    status = markdown.exit_status(run)
    where = f" in shard {run.header.shard} only" if run.header.shard else ""
    _explain(status, f"{titles.of_cases(results_of(run))}{where}")
    return status


def _explain(status: int, why: str) -> None:
    """Say why the exit status is not 0, although the output was written."""
    if status:
        print(f"compilegate: exit status {status}: {why}", file=sys.stderr)


def _merge(options: argparse.Namespace) -> int:
    if options.output is None:
        raise RunError("merge needs --output FILE: the run file to write")
    paths = [_find(name, options) for name in options.shards]
    planned, missing = merge.merge(paths, options.output)
    print(f"{options.output}: {counted(planned, 'case')} of {counted(len(paths), 'run')}")
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        print(f"compilegate: incomplete: {missing[0]}{more} missing", file=sys.stderr)
    return 2 if missing else 0


def _target(options: argparse.Namespace, run: Path) -> Path:
    """Return the file of a page."""
    return options.output or Path(f"{files.name_of(run)}.html")


def _write_page(options: argparse.Namespace, run: Path, pieces: Iterable[str]) -> None:
    target = _target(options, run)
    _write(target, pieces)
    print(target)


def _write(target: Path | None, pieces: Iterable[str]) -> None:
    if target is None:
        for piece in pieces:
            sys.stdout.write(piece)
        sys.stdout.flush()
        return
    try:
        with target.open("w", encoding="utf-8") as file:
            file.writelines(pieces)
    except OSError as error:
        raise RunError(f"cannot write {target}: {error.strerror}") from error


if __name__ == "__main__":
    sys.exit(main())
