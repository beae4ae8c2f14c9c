"""Sessions over all planted faults, each made once; and ``--table``."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reports import store
from tests.faults.catalogue import FAULTS
from tests.faults.sessions import DECOMPOSED, Planted, observe, tiny_cases


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option, where ``tests/faults`` is what pytest is given."""
    parser.addoption(
        "--table",
        metavar="FILE",
        nargs="?",
        const="-",
        help="plant the faults in models of the zoo instead, and write the table of what was "
        "detected to FILE, or print it",
    )


def _once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Planted]) -> Planted:
    """A session made by the first who asks; other workers read what it left."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        output = folder / "output"
        if not output.exists():
            output.write_text(make(folder / "session").output)
    (path,) = (folder / "session" / "runs").glob("*.jsonl")
    return Planted(store.read(path), folder / "session" / "planted", output.read_text())


@pytest.fixture(scope="session")
def decomposed(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """All faults that need no code to be generated, and their twins."""
    cases = tiny_cases(fault for fault in FAULTS if not fault.inductor)
    return _once(tmp_path_factory, "decomposed", lambda folder: observe(folder, cases, "-n", "2"))


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """Faults of generated code, and their twins."""
    cases = tiny_cases(fault for fault in FAULTS if fault.inductor)
    return _once(
        tmp_path_factory, "generated", lambda folder: observe(folder, cases, backend="inductor")
    )
