"""Tests of running an installer that may be interrupted."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from compilegate.upgrade.attribution import installer


def test_an_installer_unpacks_into_the_environment_and_leaves_nothing(tmp_path):
    script = 'unpacked=$(mktemp -d); echo "$unpacked $NAME"; echo warning >&2; exit 3'
    done = installer.run(["sh", "-c", script], tmp_path, {"NAME": "value"})
    unpacked, value = done.stdout.split()
    assert Path(unpacked).is_relative_to(tmp_path)
    assert (value, done.stderr, done.returncode) == ("value", "warning\n", 3)
    assert not [*tmp_path.iterdir()]


def test_an_interrupted_installer_leaves_no_process_and_nothing_unpacked(tmp_path):
    """pip starts another pip, which goes on when the first one is killed."""
    started = tmp_path / "started"
    child = f"sleep 600 & echo $! > {started}.new; mv {started}.new {started}; wait"
    script = f"touch $TMPDIR/unpacked; {child}"

    def interrupt():
        while not started.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            installer.run(["sh", "-c", script], tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    state = Path(f"/proc/{started.read_text().strip()}/stat")
    deadline = time.monotonic() + 30
    while state.exists() and state.read_text().rpartition(") ")[2][:1] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert [*tmp_path.iterdir()] == [started]
