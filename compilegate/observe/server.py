"""The fork server: imports torch once, then forks a child for each model in 0.3 s instead of 6 s.

The parent and the server exchange packets over one ``SOCK_SEQPACKET`` socket, each a JSON object:

- ``{"preload": [packages], "cpp": …}`` is answered with ``{"ready": true}`` after the imports.
- ``{"start": true}`` with three file descriptors (requests, answers, output) is answered with
  ``{"pid": …}``, or with ``{"failed": reason}`` where the machine starts no process.
- When that child has ended for whatever reason, the server sends
  ``{"ended": pid, "status": wait status}``.
- When the server itself has ended, its supervisor sends ``{"server": wait status}``.

The server never runs a model and starts no thread, so forking is safe. Only children initialise
CUDA. The server ends when the socket closes, and ends every process that it started.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from compilegate.observe import cache_folder, descendants, stacks, temporary_folder
from compilegate.observe.cache_repair import remove_truncated
from compilegate.observe.supervisor import supervise
from compilegate.observe.wall_clock import WallClock

#: Runs in a child, with the file descriptors of its requests and answers, and its own folder for
#: temporary files.
Serve = Callable[[int, int, Path], None]


def preload(packages: Iterable[str], *, cpp: bool) -> None:
    """Import what every child needs. A child that needs a broken package reports it.

    Args:
        packages: The packages to import.
        cpp: Whether Inductor will generate C++. It starts processes to find the vector instructions
            of this machine, so that its children need not.
    """
    for package in packages:
        with contextlib.suppress(Exception):
            importlib.import_module(package)
    if cpp:
        with contextlib.suppress(Exception):
            from torch._inductor import cpu_vec_isa

            from compilegate.observe import vector_instructions

            vector_instructions.probe_without_torch()
            cpu_vec_isa.pick_vec_isa()


def _import_torch() -> None:
    from compilegate.observe.device import DEVICES

    for device in DEVICES.values():  # before imports ask for GPUs
        device.prepare_to_fork()
    import torch._dynamo
    import torch._inductor.compile_fx  # noqa: F401

    cache_folder.use_own()


@contextlib.contextmanager
def _keeping_imports() -> Iterator[None]:
    """Let no collection of garbage search what a ``with`` block imports, here or in a child.

    In a child that takes 0.1 s each time, and would copy the memory that it shares with this
    process. Here it takes a fifth of the time of importing torch, and 0.4 s after it. What imports
    leave as garbage is little, and stays.
    """
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def run(control: socket.socket, serve: Serve, scratch: Path) -> None:
    """Fork children on request until the socket closes.

    Args:
        control: The socket to the parent.
        serve: Runs in each child.
        scratch: The folder that holds the temporary folders of children. It is removed at the end.
    """
    supervise(control, scratch)
    # Compile workers and other processes that a child leaves become children of this process.
    descendants.adopt_orphans()
    with _keeping_imports():
        _import_torch()
    control.send(b'{"ready": true}')
    while True:
        packet, descriptors, _, _ = socket.recv_fds(control, 65536, 3)
        if not packet:
            return
        message = json.loads(packet)
        if "preload" in message:
            with _keeping_imports():
                preload(message["preload"], cpp=message["cpp"])
            answer: dict[str, object] = {"ready": True}
        else:
            answer = _run_child(control, descriptors, serve, scratch)
        with contextlib.suppress(OSError):
            control.send(json.dumps(answer).encode())


def _run_child(
    control: socket.socket, descriptors: list[int], serve: Serve, scratch: Path
) -> dict[str, object]:
    """Start a child and wait until it has ended; return the packet that says so."""
    since_birth = WallClock()
    try:
        folder = temporary_folder.make(scratch)
        try:
            child = _fork(control, descriptors, serve, folder)
        except OSError:
            temporary_folder.remove(folder)
            raise
    except OSError as error:
        return {"failed": f"the fork server could not start a process: {error}"}
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    with contextlib.suppress(OSError):
        control.send(json.dumps({"pid": child}).encode())
    if not descendants.ends_before_peer(child, control):
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    descendants.kill_group(child)
    descendants.kill_children()
    if os.WIFSIGNALED(status):
        remove_truncated(cache_folder.in_use(), since=since_birth.earliest_s)
    temporary_folder.remove(folder)
    return {"ended": child, "status": status}


def _fork(control: socket.socket, descriptors: list[int], serve: Serve, folder: Path) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        control.close()
        os.setsid()
        descendants.die_with_parent()
        requests, answers, output = descriptors
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        # If memory runs out, the Linux kernel must kill this process, not pytest's.
        Path("/proc/self/oom_score_adj").write_text("1000")
        faulthandler.enable()  # writes the stack of a crash to the output
        stacks.write_on_request()
        serve(requests, answers, folder)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        # No atexit handlers and no waiting for threads: the model may have left some behind.
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
