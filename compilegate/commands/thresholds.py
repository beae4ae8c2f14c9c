"""``compilegate thresholds RUN RUN…``: print a budgets file from healthy runs of one machine."""

from __future__ import annotations

import argparse
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from compilegate.calibration import thresholds
from compilegate.calibration.thresholds import CaseThresholds, ThresholdsError
from compilegate.commands import stored_runs
from compilegate.runs import files
from compilegate.runs.files import Run
from compilegate.zoo import registry

_DESCRIPTION = f"""\
Print a budgets file from healthy runs of one machine. Give two or more runs, observed separately
(--save) with the same PyTorch. Use the file with --budgets.

Each case that two runs compiled and measured gets an entry, which holds only on the same processor
or GPU in the same host. The median of the runs and their spread give a threshold. The spread is the
highest value minus the lowest, divided by the median:

  min_speedup, min_kernel_speedup   median x (1 - margin)
  max_memory_ratio                  median x (1 + margin), on CPU with memory_slack_bytes = \
{thresholds.CPU_SLACK_BYTES}
  max_compile_s                     median x (1 + margin) + the smaller of the median and \
{thresholds.COMPILE_SLACK_S:g} s; only if it was cold
  max_compile_calls                 median x (1 + margin), where the calls were counted
  margin                            the larger of {thresholds.SPREADS:g} x spread and --margin, \
for compile time at least {thresholds.COMPILE_MARGIN:g}; calls have {thresholds.CALLS_MARGIN:g} \
for --margin

If min_speedup allows slower calls, max_call_overhead = {thresholds.OVERHEAD_CALLS} follows. A \
speedup gets no
threshold if the runs differ by half of the median or more. The command leaves out measurements on a
busy machine, or on a throttled or shared GPU, and models that reproduce known bugs."""


def add_parser(commands: Any) -> None:
    """Add the subcommand and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "thresholds",
        parents=[stored_runs.options()],
        help="print a budgets file made from two or more healthy runs of one machine",
        description=_DESCRIPTION,
        epilog="Exit status: 0 the file was printed, 2 the runs give no thresholds.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", nargs="+", metavar="RUN", help="a run file, or its name in --runs")
    parser.add_argument(
        "--any-host",
        action="store_true",
        help="accept runs of one kind of GPU in several hosts, and set thresholds only for kernels "
        "and memory, which do not depend on the host",
    )
    parser.add_argument(
        "--margin",
        type=float,
        default=thresholds.MARGIN,
        metavar="SHARE",
        help="the minimum margin, as a share of the median (default: %(default)s)",
    )
    parser.set_defaults(do=run)


def run(options: argparse.Namespace) -> int:
    """Print the budgets file.

    Returns:
        The exit status, 0.

    Raises:
        RunError: A run cannot be read.
        ThresholdsError: The runs give no thresholds.
    """
    if not 0 <= options.margin < 1:
        raise ThresholdsError(f"--margin {options.margin:g}: give a share from 0 to below 1")
    runs = [files.read(files.find(name, options.runs)) for name in options.run]
    bugs = frozenset(n for n, model in registry.load().items() if model.family == "regressions")
    found = thresholds.of_runs(runs, bugs, any_host=options.any_host, margin=options.margin)
    print("\n".join(_lines(found, runs, options)))
    return 0


def _lines(
    found: Sequence[CaseThresholds], runs: Sequence[Run], options: argparse.Namespace
) -> Iterator[str]:
    import tomlkit  # noqa: PLC0415 (other subcommands do without it)

    machines = " and ".join(dict.fromkeys(str(one.machine) for one in found))
    torch = runs[0].header.environment.versions.get("torch", "unknown")
    text = f"Thresholds for {machines}, from {len(runs)} healthy runs with torch {torch}. "
    text += "compilegate printed them, and its option --help has the formula:"
    yield from (f"# {line}" for line in textwrap.wrap(text, 98))
    words = ["--any-host"] if options.any_host else []
    if options.margin != thresholds.MARGIN:
        words += ["--margin", f"{options.margin:g}"]
    yield f"#\n#     compilegate thresholds {shlex.join([*words, *options.run])}\n"
    for one in found:
        yield f"# {'; '.join(map(_range, one.measured, one.measured.values()))}"
        for key, reason in one.missing.items():
            yield f"# no threshold for {_NAMES[key]}: {reason}"
        yield tomlkit.dumps({"budget": [_table(one)]})


def _range(key: str, values: Sequence[float]) -> str:
    low, high = (f"{value:.3g}" for value in (values[0], values[-1]))
    seen = f"{low} to {high}" if low != high else low
    return f"{_NAMES[key]} {seen} in {len(values)} runs"


_NAMES = {
    "min_speedup": "speedup",
    "min_kernel_speedup": "kernels",
    "max_memory_ratio": "memory",
    "max_compile_s": "compile seconds",
    "max_compile_calls": "compile calls",
}


def _table(one: CaseThresholds) -> dict[str, str | float]:
    machine = {"hardware": one.machine.hardware, "host": one.machine.host}
    named = {key: name for key, name in machine.items() if name}
    return {"case": one.case.id, **named, **one.values}
