"""Runs a process of the trial, and ends all that it started."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
HOOK = Path(__file__).with_name("hook")
#: The code of a healthy graph must not reach a mutant. Kernels are found by their whole source.
_ALWAYS = {
    "TORCHINDUCTOR_FX_GRAPH_CACHE": "0",
    "TORCHINDUCTOR_AUTOGRAD_CACHE": "0",
    "TORCHINDUCTOR_AUTOTUNE_REMOTE_CACHE": "0",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "OMP_NUM_THREADS": "2",
    "GOMP_SPINCOUNT": "1000",
    "COLUMNS": "200",
    "PYTHONWARNINGS": "ignore",
}
#: Bytes of data that a process may have on CPU: a mutant may ask for more than there are.
_MOST_DATA = 12 << 30


#: Set when the time of the trial is over: no process is started any more.
OVER = threading.Event()


class OverError(Exception):
    """The time of the trial is over."""


@dataclass
class Ended:
    """A process that ended: what it printed, and whether it took too long."""

    status: int
    output: str
    errors: str
    seconds: float
    timed_out: bool


def run(
    words: Sequence[str],
    home: Path,
    changes: Mapping[str, int | None] | None,
    *,
    cache: Path,
    timeout_s: float,
    limits_memory: bool,
) -> Ended:
    """Run a module of Python where modules of PyTorch are changed.

    Args:
        words: The module and its arguments.
        home: A folder for its output and its temporary files, which are removed.
        changes: The modules that are changed, as `hook.mutation.install` takes them.
        cache: Inductor's cache of kernels.
        timeout_s: Seconds after which all its processes are killed.
        limits_memory: Whether a process may have only so much data.

    Raises:
        OverError: The time of the trial was over before the process ended.
    """
    if OVER.is_set():
        raise OverError
    temporary = home / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    path = ":".join(filter(None, (str(HOOK), str(CHECKOUT), os.environ.get("PYTHONPATH"))))
    env = {**os.environ, **_ALWAYS, "PYTHONPATH": path, "TMPDIR": str(temporary)}
    env["TORCHINDUCTOR_CACHE_DIR"], env["COMPILEGATE_TRIAL"] = str(cache), str(home)
    env["COMPILEGATE_MUTANT"] = json.dumps(changes) if changes else ""
    began, timed_out = time.monotonic(), False
    with (home / "out").open("w") as out, (home / "err").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", *words],
            cwd=CHECKOUT,
            env=env,
            stdout=out,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        if limits_memory:
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (_MOST_DATA, _MOST_DATA))
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(15)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            kill_all(home)
            process.wait()
    if OVER.is_set():
        raise OverError
    shutil.rmtree(temporary, ignore_errors=True)
    texts = [(home / name).read_text(errors="replace") for name in ("out", "err")]
    return Ended(process.returncode, *texts, time.monotonic() - began, timed_out)


def kill_all(home: Path) -> None:
    """Kill the processes that were started with a home, or with one in this folder."""
    wanted = f"COMPILEGATE_TRIAL={home}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            variables = (folder / "environ").read_bytes().split(b"\0")
            if any(one == wanted or one.startswith(wanted + b"/") for one in variables):
                os.kill(int(folder.name), signal.SIGKILL)
