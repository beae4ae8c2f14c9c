"""Runs scripts in fresh interpreters: verifies that they show a bug, and has torch bisect it."""

from __future__ import annotations

import contextlib
import getpass
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from compilegate.processes.server_process import QUIET
from compilegate.triage.search.trials import OutOfTimeError
from compilegate.triage.source.team_modules import interpreters_own

#: Seconds after which a script that still runs hangs.
HANGS_S = 150.0
#: Scripts read no compiled code from caches: another build of PyTorch may have written it. PyTorch
#: warns of that.
_NO_WARNING = {"PYTHONWARNINGS": "ignore:dynamo_pgo force disabled"}
#: How the variables begin that name what a bisection tries, and the file in Inductor's cache.
_TRIED, _STATE = "TORCH_BISECT_", "bisect/bisect_status.txt"
#: How the last lines of a traceback begin.
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Exit)\b.*", re.MULTILINE)
#: How many characters of the error of a script are shown.
_LONGEST = 200
#: What a script says that shows the bug.
_SAYS = (
    *("compiled code is WRONG", "compiled code RAISES"),
    *("the graph BREAKS", "compiled TOO OFTEN", "TOO MUCH memory", "Timeout ("),
)
#: A function in a traceback of a script.
_FRAME = re.compile(r'^  File ".*repro\.py", line \d+, in (\w+)$', re.MULTILINE)


@dataclass(frozen=True)
class Ended:
    """How a script ended.

    Attributes:
        status: Its exit status; negative for a signal; None if it was killed because it hung.
        output: What it wrote, stdout before stderr.
        seconds: How long it ran.
        exits: The status of its own with which the process of the case exits; 0 for none.
    """

    status: int | None
    output: str
    seconds: float
    exits: int = 0

    def __str__(self) -> str:
        """How it ended, in words."""
        if self.status is None:
            return f"it was killed after {self.seconds:.0f} s"
        if self.status < 0:
            return f"died of {signal.Signals(-self.status).name}"
        is_raised = self.status == 1 or _EXCEPTION.search(self.output)
        how = ": " if is_raised else "; it printed last: "
        return f"exit status {self.status}{how if self.error else ''}{self.error}"

    @property
    def error(self) -> str:
        """The exception of a script that failed by itself; empty for another."""
        if not self.status or self.shows:
            return ""
        found = _EXCEPTION.findall(self.output) or self.output.split("\n")
        return next((line.strip()[:_LONGEST] for line in reversed(found) if line.strip()), "")

    @property
    def shows(self) -> bool:
        """Whether the script shows the bug: it says so, it died as the case does, or it hung.

        Python exits with 1, too, where the script itself fails, or cannot compile at all.
        """
        if self.status != 1:
            is_own = self.status not in (0, 1) and self.status == self.exits
            return self.status is None or self.status < 0 or is_own
        return any(words in self.output for words in _SAYS)

    @property
    def fails_in_recipe(self) -> bool:
        """Whether the recipe that the script holds raises, or what is defined before it.

        It does so in each script that holds it.
        """
        is_raised = self.status == 1 and "Traceback (most recent call last)" in self.output
        frames = _FRAME.findall(self.output)
        return is_raised and not self.shows and ("recipe" in frames or "results" not in frames)


@dataclass(frozen=True)
class Verified:
    """What a script did with the bug, and without the suspected stage.

    Attributes:
        red: With the bug.
        green: With the backend below; None if it was not run.
        below: That backend, or Inductor and a mode: the arguments of the script.
        says: What the script prints if it shows this bug: the class of an error; empty for any.
    """

    red: Ended
    green: Ended | None
    below: str
    says: str = ""

    @property
    def holds(self) -> bool:
        """Whether the script shows the bug, and does not without the stage."""
        shows = self.red.shows and self.says in self.red.output
        return shows and self.green is not None and self.green.status == 0


def verify(
    script: Path,
    below: str,
    until: float,
    says: str = "",
    *,
    paths: Sequence[str] = (),
    exits: int = 0,
) -> Verified:
    """Run a script as it is, and with the backend below the suspected one.

    It runs as a maintainer would run it: in its own folder, and without the ``PYTHONPATH`` of the
    session, except for folders that change the interpreter, as one with torch does.

    Args:
        script: The script.
        below: The backend, or Inductor and a mode: the arguments of the script.
        until: When to end, on the monotonic clock.
        says: What it prints if it shows this bug.
        paths: The folders of modules that it needs, and says so.
        exits: The status of its own with which the process of the case exits; 0 for none.

    Raises:
        OutOfTimeError: The time for the culprit is over.
    """
    kept = filter(None, (interpreters_own(os.environ.get("PYTHONPATH", "")), *paths))
    extra = {**_NO_WARNING, "PYTHONPATH": os.pathsep.join(kept)}
    red = run([str(script)], script.parent, until, extra, hangs_s=HANGS_S)
    red = replace(red, exits=exits)
    words = [str(script), *below.split()]
    green = run(words, script.parent, until, extra, hangs_s=HANGS_S) if red.shows else None
    return Verified(red, green, below, says)


def run(
    words: Sequence[str],
    folder: Path,
    until: float,
    extra: Mapping[str, str],
    *,
    hangs_s: float = math.inf,
) -> Ended:
    """Run Python in a fresh interpreter.

    Args:
        words: The file or module and its arguments.
        folder: The folder in which it runs.
        until: When to end, on the monotonic clock.
        extra: Variables that are added to the inherited ones.
        hangs_s: Seconds after which it hangs, and is killed.

    Raises:
        OutOfTimeError: The time for the culprit is over.
    """
    if until <= time.monotonic():
        raise OutOfTimeError
    with _no_other_bisection({**os.environ, **QUIET, **extra}) as environment:
        return _run(words, folder, until, environment, hangs_s)


@contextlib.contextmanager
def _no_other_bisection(variables: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield variables without a bisection that somebody began, which ``torch.compile`` obeys.

    Where Inductor's cache holds the state of one, a script gets an empty cache.
    """
    kept = {name: value for name, value in variables.items() if not name.startswith(_TRIED)}
    cache = kept.get("TORCHINDUCTOR_CACHE_DIR", "")
    if not cache:
        with contextlib.suppress(KeyError, OSError):  # as PyTorch names it
            user = re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
            cache = str(Path(kept.get("TMPDIR", tempfile.gettempdir())) / f"torchinductor_{user}")
    with contextlib.ExitStack() as opened:
        if cache and (Path(cache) / _STATE).exists():
            empty = opened.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            kept["TORCHINDUCTOR_CACHE_DIR"] = empty
        yield kept


def _run(
    words: Sequence[str],
    folder: Path,
    until: float,
    environment: Mapping[str, str],
    hangs_s: float,
) -> Ended:
    began = time.monotonic()
    left = min(hangs_s, until - began)
    process = subprocess.Popen(
        [sys.executable, "-P", *words],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
        errors="replace",
    )
    status: int | None = None
    try:
        output, errors = process.communicate(timeout=left)
        status = process.returncode
    except subprocess.TimeoutExpired:
        _kill(process)
        output, errors = process.communicate()
    except BaseException:
        _kill(process)
        raise
    spent = time.monotonic() - began
    if status is None and time.monotonic() > until and math.isfinite(hangs_s):
        raise OutOfTimeError
    return Ended(status, output + errors, spent)


def _kill(process: subprocess.Popen[str]) -> None:
    """End a script and the compilers that it has started."""
    os.killpg(process.pid, signal.SIGKILL)


def bisect(
    script: Path,
    folder: Path,
    backend: str,
    until: float,
    hangs_s: float,
    *,
    device: str,
    paths: Sequence[str] = (),
    first: str = "",
) -> tuple[dict[str, Any], str]:
    """Have torch bisect a script; return what it found, and its log.

    Args:
        script: A script that shows the bug.
        folder: A folder that may be deleted.
        backend: The backend that shows the bug first.
        until: When to end, on the monotonic clock.
        hangs_s: Seconds after which a run of the script hangs.
        device: The device on which compiled code runs.
        paths: The folders of modules that the script needs.
        first: The option of Inductor that is tried before the bisection; empty for none.
    """
    cache = folder / "inductor"
    cache.mkdir(parents=True, exist_ok=True)
    own = {"TORCHINDUCTOR_CACHE_DIR": str(cache), "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "0"}
    found_in = filter(None, (os.environ.get("PYTHONPATH", ""), *paths))
    own["PYTHONPATH"] = os.pathsep.join(found_in)
    own["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # else no forked child can use the GPU
    words = ["-m", "compilegate.observe.dissect.bisection", str(script), backend, device]
    ended = run([*words, f"{hangs_s:.0f}", first], folder, until, own)
    found: dict[str, Any] = {}
    for line in ended.output.splitlines():
        if line.startswith("{"):
            found = json.loads(line)
    if "why" not in found and "backend" not in found and ended.status != 0:
        found |= {"why": f"the bisection did not end: {ended}"}
    return found, ended.output
