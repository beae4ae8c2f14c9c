"""Sessions over all planted faults, each made once; and ``--table``."""

from __future__ import annotations

import fcntl
import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
import torch

from tests.faults import costs as cost
from tests.faults import table as tables
from tests.faults.catalogue import FAULTS, Fault, fault
from tests.faults.costs import Judged
from tests.faults.sessions import Planted, finished, observe, tiny_cases

#: For so long speed is measured again where others keep the machine busy.
PATIENCE_S = 60.0
#: Of the sessions, in which nothing is timed.
WORKERS = str(max(2, (os.cpu_count() or 2) // 2))
TABLE = pytest.StashKey[tables.Table]()
T = TypeVar("T")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option, where ``tests/faults`` is what pytest is given."""
    parser.addoption(
        "--table",
        metavar="FILE",
        nargs="?",
        const="-",
        help="plant the faults in models of the zoo instead, and write the table of what was "
        "detected to FILE in Markdown, or print it",
    )
    parser.addoption(
        "--device",
        metavar="DEVICE",
        choices=("cpu", "cuda"),
        help="where the faults are planted (default: cpu)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Sets the device that every fault's case names."""
    fault.device = config.getoption("--device", None) or "cpu"
    if fault.device == "cuda" and not torch.cuda.is_available():
        raise pytest.UsageError(f"--device cuda: torch {torch.__version__} sees no GPU")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The table takes the place of the tests on tiny modules, or is left out."""
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
    """Prints the table, or says where it was written."""
    table = config.stash.get(TABLE, None)
    if table is None:
        return
    text, file = table.markdown(), str(config.getoption("--table"))
    if file != "-":
        Path(file).write_text(text)
        text = f"{table.summary()}\ntable of planted faults: {file}\n"
    terminalreporter.section("planted faults")
    terminalreporter.write(text)


def _once(
    factory: pytest.TempPathFactory,
    name: str,
    make: Callable[[Path], T],
    read: Callable[[Path], T],
) -> T:
    """Sessions made by the first who asks; other workers read what they left."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").exists():
            make(folder / "left")
            (folder / "made").touch()
    return read(folder / "left")


def _selected(request: pytest.FixtureRequest) -> list[Fault]:
    """The faults that selected tests are about, those of cost apart."""
    calls = [item.callspec for item in request.session.items if hasattr(item, "callspec")]
    wanted = [call.params.get("fault") for call in calls]
    return [fault for fault in FAULTS if fault in wanted]


@pytest.fixture(scope="session")
def decomposed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """The selected faults that need no code to be generated, and their twins."""
    cases = tiny_cases(fault for fault in _selected(request) if not fault.inductor)
    return _once(
        tmp_path_factory,
        "decomposed",
        lambda folder: observe(folder, cases, "-n", WORKERS),
        finished,
    )


@pytest.fixture(scope="session")
def generated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """The selected faults of generated code, and their twins."""
    cases = tiny_cases(fault for fault in _selected(request) if fault.inductor)
    return _once(
        tmp_path_factory,
        "generated",
        lambda folder: observe(folder, cases, "-n", WORKERS, backend="inductor"),
        finished,
    )


def _last(folder: Path) -> Path:
    return max(folder.iterdir())


@pytest.fixture(scope="session")
def costs(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """Faults of cost and their twins, measured again where the machine was busy."""

    def make(folder: Path) -> Judged:
        deadline = time.monotonic() + PATIENCE_S
        for attempt in itertools.count(1):
            judged = cost.judge(folder / f"{attempt:02}", cost.tiny_pairs())
            if not judged.undecided() or time.monotonic() > deadline:
                return judged
        raise AssertionError("unreachable")

    return _once(tmp_path_factory, "costs", make, lambda folder: cost.judged(_last(folder)))


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> tables.Table:
    """The faults in models of the zoo, under ``--backend``; shown at the end."""
    made = tables.make(tmp_path_factory.mktemp("table"), pytestconfig.getoption("backend"))
    pytestconfig.stash[TABLE] = made
    return made
