"""``compilegate doctor``: whether this machine has what a runner needs, a line for each thing."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator
from typing import Any

from compilegate.doctor import gpu, host, interpreter
from compilegate.doctor.check import Check
from compilegate.output.visible import visible


def add_parser(commands: Any) -> None:
    """Add the subcommand and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "doctor",
        help="check whether this machine can be a runner",
        description="Check the requirements of a runner: Python, its own environment, g++, free "
        "disk space, an idle processor, torch, the registry, and what the options name.",
        epilog="Exit status: 0 nothing is missing, 1 something is missing.",
    )
    parser.add_argument(
        "--gpu", action="store_true", help="also check the driver, each GPU and its clocks"
    )
    parser.add_argument(
        "--github", action="store_true", help="also check gh and its token, which open issues"
    )
    parser.add_argument(
        "--index",
        action="append",
        default=[],
        metavar="URL",
        help="also check that this index, such as that of nightly wheels, has torch (repeatable)",
    )
    parser.add_argument(
        "--python",
        metavar="PATH",
        default=sys.executable,
        help="the interpreter whose torch to check (default: that of compilegate)",
    )
    parser.add_argument(
        "--disk-gib",
        type=float,
        metavar="N",
        help=f"GiB that must be free (default: {host.DISK_GIB['cpu']:g}, with --gpu "
        f"{host.DISK_GIB['gpu']:g})",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.set_defaults(do=run)


def run(options: argparse.Namespace) -> int:
    """Print a line for each thing, as soon as it was checked.

    Returns:
        The exit status: 0 nothing is missing, 1 something is.
    """
    missing = 0
    for check in _checks(options):
        missing += not check.is_there
        print(_json(check) if options.json else _line(check), flush=True)
    if not options.json:
        print("nothing is missing" if not missing else f"{missing} missing")
    return 1 if missing else 0


def _checks(options: argparse.Namespace) -> Iterator[Check]:
    yield host.python()
    yield host.virtual_environment()
    yield host.idle_processor()  # before the checks that use it
    yield host.compiler()
    yield from host.disk(options.disk_gib or host.DISK_GIB["gpu" if options.gpu else "cpu"])
    if options.gpu:
        yield from gpu.checks()
    yield from interpreter.checks(options.python, gpu=options.gpu)
    yield host.registry()
    for index in options.index:
        yield host.registry(index)
    if options.github:
        yield from host.github()


def _line(check: Check) -> str:
    state = "OK" if check.is_there else "missing"
    way_out = f" → {check.way_out}" if check.way_out else ""
    return visible(f"{state:<8} {check.name:<16} {check.text}{way_out}")


def _json(check: Check) -> str:
    return json.dumps(dataclasses.asdict(check), ensure_ascii=False)
