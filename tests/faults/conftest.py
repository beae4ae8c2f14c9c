"""Fixtures that run each session over planted faults once, and the option ``--table``."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path

import pytest
import torch

from compilegate.records.case import AXES
from tests.faults import costs as cost
from tests.faults import table as tables
from tests.faults.catalogue import FAULTS, Fault, fault
from tests.faults.costs import Judged
from tests.faults.sessions import Planted, finished, observe, tiny_cases
from tests.once import once

#: Seconds during which costs are measured again while other processes keep the machine busy.
PATIENCE_S = 60.0
#: Number of xdist workers in the session over many faults, which times nothing.
WORKERS = str(max(2, (os.cpu_count() or 2) // 2))
TABLE = pytest.StashKey[tables.Table]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of ``pytest tests/faults``."""
    parser.addoption(
        "--table",
        metavar="FILE",
        nargs="?",
        const="-",
        help="plant the faults in models of the zoo, not in tiny modules, and write a Markdown "
        "table of the detected ones to FILE (default: print it)",
    )
    parser.addoption(
        "--device",
        metavar="DEVICE",
        choices=AXES["device"],
        help="the device that runs the planted faults (default: cpu)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Sets the device in the case of every fault."""
    fault.device = config.getoption("--device", None) or "cpu"
    if fault.device == "cuda" and not torch.cuda.is_available():
        raise pytest.UsageError(f"--device cuda: torch {torch.__version__} sees no GPU")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Selects the tests of the table with ``--table``, and the tests on tiny modules otherwise."""
    asked = bool(config.getoption("--table", None))
    here = Path(__file__).parent
    dropped = [
        item
        for item in items
        if here in item.path.parents and (item.path.name == "test_table.py") != asked
    ]
    items[:] = [item for item in items if item not in dropped]
    config.hook.pytest_deselected(items=dropped)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Prints the table, or the name of the file that holds it."""
    table = config.stash.get(TABLE, None)
    if table is None:
        return
    text, file = table.markdown(), str(config.getoption("--table"))
    if file != "-":
        Path(file).write_text(text)
        text = f"{table.summary()}\ntable of planted faults: {file}\n"
    terminalreporter.section("planted faults")
    terminalreporter.write(text)


def _selected(request: pytest.FixtureRequest) -> list[Fault]:
    """Return the faults of the selected tests, except those of cost."""
    calls = [item.callspec for item in request.session.items if hasattr(item, "callspec")]
    wanted = [call.params.get("fault") for call in calls]
    return [fault for fault in FAULTS if fault in wanted]


@pytest.fixture(scope="session")
def decomposed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """The session over the selected faults that need no generated code, and their twins."""
    cases = tiny_cases(fault for fault in _selected(request) if not fault.inductor)
    return once(
        tmp_path_factory,
        "decomposed",
        lambda folder: observe(folder, cases, "-n", WORKERS),
        finished,
    )


@pytest.fixture(scope="session")
def generated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """The session over the selected faults in generated code, and their twins: three cases."""
    cases = tiny_cases(fault for fault in _selected(request) if fault.inductor)
    return once(
        tmp_path_factory,
        "generated",
        lambda folder: observe(folder, cases, backend="inductor"),
        finished,
    )


def _last(folder: Path) -> Path:
    return max(folder.iterdir())


@pytest.fixture(scope="session")
def costs(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """The sessions over faults of cost and their twins, repeated while the machine is busy."""

    def make(folder: Path) -> Judged:
        deadline = time.monotonic() + PATIENCE_S
        for attempt in itertools.count(1):
            judged = cost.judge(folder / f"{attempt:02}", cost.tiny_pairs())
            if not judged.undecided() or time.monotonic() > deadline:
                return judged
        raise AssertionError("unreachable")

    return once(tmp_path_factory, "costs", make, lambda folder: cost.judged(_last(folder)))


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> tables.Table:
    """The table of faults in models of the zoo under ``--backend``, which pytest prints last."""
    made = tables.make(tmp_path_factory.mktemp("table"), pytestconfig.getoption("backend"))
    pytestconfig.stash[TABLE] = made
    return made
