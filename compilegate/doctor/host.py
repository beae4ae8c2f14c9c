"""What a runner's host must have: Python, a compiler, room on the disk, registries, tokens."""

from __future__ import annotations

import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from compilegate.doctor.check import Check, has, lacks
from compilegate.processes import cpp_compiler
from compilegate.records.environment import SLOW_GUARDS
from compilegate.records.statistics import BUSY

#: The oldest version of Python that compilegate runs on.
OLDEST_PYTHON = (3, 11)
#: GiB that a runner writes: two environments of PyTorch, pip's cache, compile caches, run files.
#: PyTorch's default wheel brings CUDA's libraries, 5 to 8 GiB an environment, without a GPU, too.
DISK_GIB = {"cpu": 20.0, "gpu": 40.0}
#: Seconds for a command that needs the network, and for one that does not.
_NETWORK_S, _LOCAL_S = 60, 60
#: Seconds in which other processes are watched.
_WATCHED_S = 2
#: A program that needs what Inductor's code needs: a C++17 library, OpenMP, Python's headers.
_PROGRAM = """
#include <Python.h>
#include <omp.h>
#include <optional>
extern "C" int threads() { return std::optional<int>(omp_get_max_threads()).value(); }
"""


def python() -> Check:
    """Check the version of this interpreter."""
    found = f"{platform.python_version()} in {sys.executable}"
    if platform.python_version() == SLOW_GUARDS:
        return lacks("python", f"{found} makes guards slow", "install Python 3.13.1 or newer")
    if sys.version_info >= OLDEST_PYTHON:
        return has("python", found)
    oldest = ".".join(map(str, OLDEST_PYTHON))
    return lacks("python", f"{found} is too old", f"install Python {oldest} or newer")


def virtual_environment() -> Check:
    """Check that this interpreter has an environment of its own, and can make others."""
    name = "venv"
    if any(importlib.util.find_spec(module) is None for module in ("venv", "ensurepip")):
        return lacks(name, "this Python cannot make one", "apt-get install python3-venv")
    if sys.prefix == sys.base_prefix:
        return lacks(
            name,
            "this interpreter is the system's, which a workflow must not change",
            "python3 -m venv .venv && . .venv/bin/activate",
        )
    return has(name, sys.prefix)


def compiler() -> Check:
    """Check that the C++ compiler builds a library as Inductor builds one."""
    name = "g++"
    try:
        cpp_compiler.require("cpu", "inductor")
    except cpp_compiler.CompilerError as error:
        text, _, way = str(error).partition("; ")
        return lacks(name, text, way)
    words = shlex.split(os.environ.get("CXX", "g++"))
    headers = sysconfig.get_path("include")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "library.cpp"
        source.write_text(_PROGRAM)
        words = [*words, "-std=c++17", "-fopenmp", "-shared", "-fPIC", f"-I{headers}"]
        status, text = _run([*words, str(source), "-o", f"{folder}/library.so"], _LOCAL_S)
    if status != 0:
        reason = next((line for line in text.splitlines() if "error" in line), text.strip())
        return lacks(
            name,
            f"it cannot compile: {reason[:160]}",
            "apt-get install g++ libgomp1 python3-dev",
        )
    _, version = _run([words[0], "--version"], _LOCAL_S)
    return has(name, version.partition("\n")[0])


def disk(needed_gib: float) -> Iterator[Check]:
    """Check the room where a runner writes: here, and in the folder for temporary files."""
    for name, folder in (("disk", Path.cwd()), ("temporary files", Path(tempfile.gettempdir()))):
        free = shutil.disk_usage(folder).free / 2**30
        text = f"{free:.0f} GiB free in {folder}"
        if not os.access(folder, os.W_OK):
            yield lacks(name, f"{folder} cannot be written to", f"chown or chmod {folder}")
        elif free < needed_gib:
            way = f"free {needed_gib - free:.0f} GiB, or set TMPDIR, or name less with --disk-gib"
            yield lacks(name, f"{text}, of {needed_gib:g} that are needed", way)
        else:
            yield has(name, text)


def idle_processor() -> Check:
    """Check that other processes leave the processor alone: timing needs that.

    The load average would still count what the step before did, such as pip.
    """
    name = "idle processor"
    cores = len(os.sched_getaffinity(0))
    idle_s, start = _idle_s(), time.monotonic()
    time.sleep(_WATCHED_S)
    share = 1 - (_idle_s() - idle_s) / (time.monotonic() - start) / cores
    text = f"other processes use {max(share, 0):.0%} of {cores} cores"
    if share > BUSY:
        return lacks(name, text, "wait, or give the runner a machine of its own")
    return has(name, text)


def _idle_s() -> float:
    """Return for how many seconds our cores have had nothing to do since the machine started."""
    cores = {f"cpu{index}" for index in os.sched_getaffinity(0)}
    rows = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
    # user, nice, system, idle, iowait, …
    ticks = sum(int(row[4]) + int(row[5]) for row in rows if row[0] in cores)
    return ticks / os.sysconf("SC_CLK_TCK")


def registry(index: str = "") -> Check:
    """Check that pip finds PyTorch, in its configured index or in another.

    Args:
        index: The address of another index, such as that of nightly wheels.
    """
    name = "registry"
    words = [sys.executable, "-m", "pip", "index", "versions", "torch"]
    words += ["--disable-pip-version-check", "--timeout", "15", "--retries", "0"]
    words += ["--isolated", "--pre", "--index-url", index] if index else []
    status, text = _run(words, _NETWORK_S)
    if "No module named pip" in text:
        way = "python -m ensurepip, or with uv: uv pip install pip"
        return lacks(name, f"no pip in the environment of {sys.executable}", way)
    where = index or "pip's index"
    newest = next((line for line in text.splitlines() if line.startswith("torch (")), "")
    if status == 0 and newest:
        return has(name, f"{where} has {newest}")
    reason = next((line for line in text.splitlines() if line.startswith("ERROR")), "no answer")
    return lacks(
        name,
        f"{where}: {reason[:160]}",
        "check the network, or set PIP_INDEX_URL to a mirror (pip config debug shows what counts)",
    )


def github() -> Iterator[Check]:
    """Check what the job needs that opens issues: the command ``gh``, and a token for it."""
    if (program := shutil.which("gh")) is None:
        yield lacks("gh", "it is not on the path", "install it: https://cli.github.com")
    else:
        yield has("gh", program)
    found = [name for name in ("GH_TOKEN", "GITHUB_TOKEN") if os.environ.get(name)]
    if found:
        yield has("token", f"{found[0]} is set")
    else:
        yield lacks(
            "token",
            "neither GH_TOKEN nor GITHUB_TOKEN is set",
            "in a workflow: env: GH_TOKEN: ${{ github.token }}, and permissions: issues: write",
        )


def _run(words: Sequence[str], timeout_s: float) -> tuple[int, str]:
    """Run a program.

    Returns:
        Its exit status, 127 where it cannot be run or does not end, and all that it wrote.
    """
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return 127, f"ERROR: {words[0]} did not end within {timeout_s:g} s"
    except OSError as error:
        return 127, f"ERROR: {words[0]} cannot be run: {error.strerror}"
    return done.returncode, done.stdout + done.stderr
