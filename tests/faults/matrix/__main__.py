"""``python -m tests.faults.matrix --out FILE``: plants kinds of faults in models of the zoo."""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path

from compilegate.judging.budgets import Machine
from compilegate.processes.observer import BACKENDS
from compilegate.records.case import DEVICES
from compilegate.session.workers import Share
from tests.faults.matrix import kept
from tests.faults.matrix.cells import Cell, all_cells
from tests.faults.matrix.filling import Filling
from tests.faults.matrix.kinds import KINDS
from tests.faults.matrix.observing import Station
from tests.faults.matrix.store import OtherRunError, Store
from tests.faults.matrix.verdicts import Filled

#: Cases at once on a GPU or a processor, unless asked otherwise: base models with their references
#: in float64 take up to 25 GiB of a GPU each.
MOST = 3


def main() -> int:
    """Fill cells, and return the exit status: 1 if a fault was missed or a twin failed."""
    options = _parser().parse_args()
    cells = _chosen(options)
    if not cells:
        print("no cell has such a kind and case", file=sys.stderr)
        return 2
    folder = options.out.with_suffix(".work").resolve()
    stop = threading.Event()
    stations = [
        Station(folder, str(index), options.backend, stop, cells, share=share)
        for index, share in enumerate(_shares(options))
    ]
    environment = stations[0].environment
    about = {
        "torch": environment.versions.get("torch", "?"),
        "device": options.device,
        "name": Machine.of(environment, options.device).hardware,
        "backend": options.backend,
    }
    try:
        store = Store.resume(options.out, about)
    except OtherRunError as error:
        stations[0].close()
        print(error, file=sys.stderr)
        return 2
    known = () if options.again else kept.decided(options.backend)
    filling = Filling(store, options.out, cells, stop, _show, known=known)
    filling.run(stations, options.minutes)
    return _summary(store)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.matrix", description=__doc__)
    parser.add_argument("--device", choices=DEVICES, default="cpu")
    parser.add_argument("--backend", choices=BACKENDS, default=BACKENDS[0])
    parser.add_argument("--cases", action="append", metavar="GLOB", help="cases (repeatable)")
    parser.add_argument("--kinds", action="append", metavar="GLOB", help="kinds (repeatable)")
    parser.add_argument(
        "-n",
        type=int,
        default=max(min(len(os.sched_getaffinity(0)) // 2, MOST), 1),
        help=f"cases at once on each GPU (default: a half of the cores, at most {MOST})",
    )
    parser.add_argument(
        "--gpus",
        type=lambda text: text.split(","),
        default=["0"],
        metavar="GPU,…",
        help="as CUDA_VISIBLE_DEVICES names them (default: 0)",
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--again", action="store_true", help="fill cells again that the page has")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.json")
    return parser


def _shares(options: argparse.Namespace) -> list[Share]:
    """Return the share of the machine of each station; those of a GPU are not neighbours."""
    gpus = tuple(options.gpus) if options.device == "cuda" else ()
    workers = options.n * max(len(gpus), 1)
    return [
        Share(workers=workers, gpu=gpus[index % len(gpus)] if gpus else None, gpus=gpus)
        for index in range(workers)
    ]


def _chosen(options: argparse.Namespace) -> list[Cell]:
    def fits(name: str, globs: list[str] | None) -> bool:
        return globs is None or any(fnmatchcase(name, glob) for glob in globs)

    return [
        cell
        for cell in all_cells(options.device, options.backend)
        if fits(cell.case.id, options.cases) and fits(cell.kind.name, options.kinds)
    ]


def _show(filled: Filled) -> None:
    aspects = f" ({', '.join(filled.aspects)})" if filled.aspects else ""
    print(f"{filled.verdict}{aspects}: {filled.kind} in {filled.case}: {filled.why}", flush=True)


def _summary(store: Store) -> int:
    counts = Counter(cell.verdict for cell in store.cells)
    failing = [f"{twin.case}: {twin.failed}" for twin in store.twins.values() if twin.failed]
    kinds = len({cell.kind for cell in store.cells})
    print(f"{dict(counts)} of {kinds} of {len(KINDS)} kinds in {len(store.twins)} cases")
    print(*(f"twin failed: {line}" for line in failing), sep="\n")
    return 1 if counts["missed"] or failing else 0


if __name__ == "__main__":
    sys.exit(main())
