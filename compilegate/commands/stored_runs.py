"""The options of commands that read stored runs."""

from __future__ import annotations

import argparse
from pathlib import Path


def options() -> argparse.ArgumentParser:
    """Return a parent parser with the folder in which a run is found by its name."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "--runs",
        metavar="DIR",
        type=Path,
        default=Path(".runs"),
        help="folder of run files (default: .runs)",
    )
    return parser
