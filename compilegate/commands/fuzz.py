"""``compilegate fuzz``: generate programs, compile them, and reduce those that come out wrong."""

from __future__ import annotations

import argparse
import json
import random
import shlex
from importlib.metadata import version
from pathlib import Path
from typing import Any

from compilegate.commands.observe import ArgumentError
from compilegate.fuzzing import campaign, summary
from compilegate.fuzzing.examiner import NoDeviceError
from compilegate.fuzzing.state import FILE, Header, State, StateError
from compilegate.processes import cpp_compiler
from compilegate.records.case import DEVICES
from compilegate.runs import hidden_folders


def add_parser(commands: Any) -> None:
    """Add the subcommand and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "fuzz",
        help="generate small programs, and find miscompiled ones",
        description="Generate small programs, compile them, and judge them as the suites judge "
        "models. Confirm each failure with other data, reduce it, and write it as a script.",
        epilog="Exit status: 0 found nothing, 1 found a failure, 2 the command line is wrong. "
        "The same folder continues an interrupted run.",
    )
    parser.add_argument("--minutes", type=float, default=10.0, metavar="N", help="default: 10")
    parser.add_argument(
        "--seed",
        type=int,
        metavar="S",
        help="the seed of all programs; to continue a run, give its seed (default: a new one)",
    )
    parser.add_argument("--programs", type=int, metavar="N", help="end after this many programs")
    parser.add_argument(
        "--workers", default="auto", metavar="N", help="default: one per two processors"
    )
    parser.add_argument(
        "--device", choices=DEVICES, default="cpu", help="where programs run (default: cpu)"
    )
    parser.add_argument(
        "--inductor-share",
        type=float,
        default=0.5,
        metavar="SHARE",
        help="the share of programs that Inductor compiles; the others stop before it "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--reduction-seconds",
        type=float,
        default=300.0,
        metavar="N",
        help="the time limit of a reduction (default: %(default)s)",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="default: .fuzz/SEED, or .fuzz/SEED-cuda on a GPU",
    )
    parser.add_argument("--plant", type=Path, metavar="FILE", help=argparse.SUPPRESS)
    parser.set_defaults(do=run)


def run(options: argparse.Namespace) -> int:
    """Run the fuzzer.

    Returns:
        The exit status: 0 nothing was found, 1 something was.

    Raises:
        ArgumentError: An option is out of range, or the folder holds another run.
    """
    asked = _asked(options)
    hidden_folders.make(asked.folder)
    header = Header(
        seed=asked.seed,
        inductor_share=asked.inductor_share,
        torch=version("torch"),
        device=asked.device,
    )
    try:
        state = State(asked.folder, header)
    except StateError as error:
        raise ArgumentError(str(error)) from error
    where = f"torch {header.torch} on {asked.device}, in {asked.folder}"
    print(f"seed {asked.seed}, {where}", flush=True)
    try:
        campaign.run(
            asked,
            state,
            lambda now, seconds: print(summary.progress_line(now, seconds), flush=True),
        )
    except NoDeviceError as error:
        raise ArgumentError(f"--device {asked.device}: {error}") from error
    finally:
        state.close()
        (asked.folder / "summary.md").write_text(summary.markdown(state), encoding="utf-8")
        table = json.dumps(summary.rows(state), indent=1)
        (asked.folder / "summary.json").write_text(table + "\n", encoding="utf-8")
    for line in summary.speed_lines(state):
        print(line)
    for row in summary.rows(state):
        script = asked.folder / f"finding-{row['finding']}.py"
        print(f"{script}: {row['kind']} in {row['stage']}: {row['operators']}: {row['what']}")
    print(f"state: {asked.folder / FILE}; to continue: {_command(asked)}")
    return 1 if state.findings else 0


def _command(asked: campaign.Options) -> str:
    """Return the command that continues the run."""
    words = [f"--seed {asked.seed}", f"--inductor-share {asked.inductor_share:g}"]
    if asked.device != "cpu":
        words.append(f"--device {asked.device}")
    if asked.workers is not None:
        words.append(f"--workers {asked.workers}")
    words += [f"--minutes {asked.minutes:g}", f"--output {shlex.quote(str(asked.folder))}"]
    return " ".join(("compilegate fuzz", *words))


def _asked(options: argparse.Namespace) -> campaign.Options:
    if not options.minutes > 0:
        raise ArgumentError(f"--minutes {options.minutes:g}: give a number above 0")
    if not 0 <= options.inductor_share <= 1:
        raise ArgumentError(f"--inductor-share {options.inductor_share:g}: give a share, 0 to 1")
    workers = None
    if options.workers != "auto":
        if not options.workers.isdecimal() or int(options.workers) < 1:
            raise ArgumentError(f"--workers {options.workers}: give a number, or auto")
        workers = int(options.workers)
    if options.inductor_share > 0:
        try:
            cpp_compiler.require(options.device, "inductor")
        except ValueError as error:
            raise ArgumentError(str(error)) from error
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    name = str(seed) if options.device == "cpu" else f"{seed}-{options.device}"
    return campaign.Options(
        folder=(options.output or Path(".fuzz") / name).resolve(),
        seed=seed,
        minutes=options.minutes,
        programs=options.programs,
        workers=workers,
        inductor_share=options.inductor_share,
        device=options.device,
        reduction_s=options.reduction_seconds,
        plant=options.plant.resolve() if options.plant else None,
    )
