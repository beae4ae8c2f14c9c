"""The fork server: imports torch once, then forks a child for each model in 0.3 s instead of 6 s.

The parent and the server exchange packets over one ``SOCK_SEQPACKET`` socket, each a JSON object:

- ``{"preload": [packages], "cpp": …}`` is answered with ``{"ready": true}`` after the imports.
- ``{"start": true}`` with three file descriptors (requests, answers, output) is answered with
  ``{"pid": …}``.
- When that child has ended for whatever reason, the server sends
  ``{"ended": pid, "status": wait status}``.

The parent sends nothing while a child lives: if the socket becomes readable, the parent has ended.
The server never runs a model and starts no thread, so forking is safe. Only children initialise
CUDA. The server ends when the socket closes, and ends every process that it started.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib
import json
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

from compilegate.observe import stacks
from compilegate.observe.cache_repair import remove_truncated
from compilegate.observe.wall_clock import WallClock

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

Serve = Callable[[int, int], None]


def preload(packages: Iterable[str], *, cpp: bool) -> None:
    """Import what every child needs. A child that needs a broken package reports it.

    Args:
        packages: The packages to import.
        cpp: Whether Inductor will generate C++. It starts processes to find the vector instructions
            of this machine, which takes up to 15 s in each child of torch 2.12.
    """
    for package in packages:
        with contextlib.suppress(Exception):
            importlib.import_module(package)
    if cpp:
        with contextlib.suppress(Exception):
            from torch._inductor import cpu_vec_isa

            cpu_vec_isa.pick_vec_isa()


def _import_torch() -> None:
    from compilegate.observe.device import DEVICES

    for device in DEVICES.values():  # before imports ask for GPUs
        device.prepare_to_fork()
    import torch._dynamo
    import torch._inductor.compile_fx  # noqa: F401


def run(control: socket.socket, serve: Serve) -> None:
    """Fork children on request until the socket closes.

    Args:
        control: The socket to the parent.
        serve: Runs in each child, with the file descriptors of its requests and answers.
    """
    # Compile workers and other processes that a child leaves become children of this process.
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _import_torch()
    control.send(b'{"ready": true}')
    while True:
        packet, descriptors, _, _ = socket.recv_fds(control, 65536, 3)
        if not packet:
            return
        message = json.loads(packet)
        if "preload" in message:
            preload(message["preload"], cpp=message["cpp"])
            control.send(b'{"ready": true}')
            continue
        since_birth = WallClock()
        child = _fork(control, descriptors, serve)
        control.send(json.dumps({"pid": child}).encode())
        if not _ended(child, control):
            _kill_group(child)
        _, status = os.waitpid(child, 0)
        _kill_orphans(child)
        if os.WIFSIGNALED(status):
            remove_truncated(_inductor_cache(), since=since_birth.earliest_s)
        with contextlib.suppress(OSError):
            control.send(json.dumps({"ended": child, "status": status}).encode())


def _inductor_cache() -> Path:
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    return Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR") or default_cache_dir())


def _fork(control: socket.socket, descriptors: list[int], serve: Serve) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        for descriptor in descriptors:
            os.close(descriptor)
        return child
    status = 1
    try:
        control.close()
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        requests, answers, output = descriptors
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        # If memory runs out, the Linux kernel must kill this process, not pytest's.
        Path("/proc/self/oom_score_adj").write_text("1000")
        faulthandler.enable()  # writes the stack of a crash to the output
        stacks.write_on_request()
        serve(requests, answers)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        # No atexit handlers and no waiting for threads: the model may have left some behind.
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _ended(child: int, control: socket.socket) -> bool:
    """Wait until the child ends (return True) or the parent does (return False)."""
    watched = os.pidfd_open(child)
    try:
        ready, _, _ = select.select([watched, control.fileno()], [], [])
        return watched in ready
    finally:
        os.close(watched)


def _kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _kill_orphans(leader: int) -> None:
    """Kill the processes that a dead child has left, in its process group and out of it."""
    _kill_group(leader)
    while orphans := Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        for orphan in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(orphan), signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(int(orphan), 0)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
