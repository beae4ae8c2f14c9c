"""Ctrl-C, SIGTERM, and pytest killed: nothing is left running, and what was observed is on disk."""

import os
import signal

import pytest

from compilegate.runs import files
from tests.integration.conftest import FORWARD, ZOOS, command
from tests.integration.processes import begun, living, soon

CASES = [f"{model}-cpu-infer-f32-default-static" for model in ("healthy_first", "hangs")]
ARGUMENTS = (FORWARD, "--zoo", str(ZOOS / "hostile.py"), "--cases", CASES[0], "--cases", CASES[1])


def has_observed(runs):
    return any('"record":"verdict"' in path.read_text() for path in runs.glob("*.jsonl"))


@pytest.mark.parametrize(
    ("arguments", "send", "status"),
    [
        pytest.param((), signal.SIGINT, 2, id="Ctrl-C"),
        pytest.param(
            ("-n", "2"), signal.SIGINT, 2, id="Ctrl-C with workers", marks=pytest.mark.long
        ),
        pytest.param((), signal.SIGTERM, 143, id="SIGTERM"),
        pytest.param(
            ("-n", "2"), signal.SIGTERM, 143, id="SIGTERM with workers", marks=pytest.mark.long
        ),
        pytest.param(("--triage",), signal.SIGTERM, 143, id="SIGTERM before the triage"),
        pytest.param((), signal.SIGKILL, -signal.SIGKILL, id="SIGKILL"),
    ],
)
def test_nothing_is_left_running_and_the_run_is_readable(runs, arguments, send, status):
    with begun(command(*ARGUMENTS, *arguments, runs=runs), runs) as process:
        assert soon(lambda: has_observed(runs) or process.poll() is not None)
        # pytest, server, and the child that hangs
        assert soon(lambda: len(living(runs)) >= 3)
        os.killpg(process.pid, send)
        output, _ = process.communicate(timeout=240)
        assert process.returncode == status, output
        assert soon(lambda: not living(runs)), living(runs)
    (path,) = runs.glob("*.jsonl")
    run = files.read(path)
    assert run.header.planned == tuple(CASES)
    assert run.missing == [CASES[1]]
    assert run.closing is None
    if send != signal.SIGKILL:
        assert f"run file: {path}" in output
        (line,) = [line for line in output.splitlines() if line.startswith("to continue: ")]
        assert line.endswith(f" --resume {path.stem}")
        was_skipped = "nothing was triaged, since the session was interrupted" in output
        assert was_skipped is ("--triage" in arguments)
