"""What the nightly workflow does with a run: ``.ci/add-night``."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.history.written_nights import environment, observed
from tests.unit.making import make_verdict
from tests.unit.runs import write_run

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("otava") is None,
    reason="needs Apache Otava: pip install apache-otava",
)

CHECKOUT = Path(__file__).parents[2]
#: Where a process of a test finds compilegate, and Otava.
PATHS = os.pathsep.join([str(CHECKOUT), *filter(None, sys.path)])


def add_night(folder, run, nights):
    """What the workflow does with the run of a night."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    (tools / "compilegate").write_text(f'#!/bin/sh\nexec {sys.executable} -m compilegate "$@"\n')
    (tools / "compilegate").chmod(0o755)
    return subprocess.run(
        [CHECKOUT / ".ci" / "add-night", run, nights],
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": PATHS},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_night_joins_the_history_and_is_compared_with_the_last(tmp_path):
    kept = tmp_path / "kept"
    for night in range(2):
        name = f"night-{night}.jsonl"
        run = write_run(
            tmp_path / name,
            observed(night),
            make_verdict("failed" if night else "passed"),
            environment=environment(),
            created=f"2026-11-{night + 1:02}T02:17:00+00:00",
        )
        done = add_night(tmp_path, run, kept)
        assert done.returncode == 0, done.stderr  # two nights cannot say anything
    assert sorted(path.name for path in kept.iterdir()) == [
        "2026-11-01T02-17-00.jsonl.gz",
        "2026-11-02T02-17-00.jsonl.gz",
    ]
    assert "## Tonight and the last night" in done.stdout
    assert "1 broken" in done.stdout
    assert "## All nights" in done.stdout
    assert json.loads((tmp_path / "history-issues.json").read_text()) == []
