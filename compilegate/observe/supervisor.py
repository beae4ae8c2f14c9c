"""The process above the fork server: it ends what the fork server can no longer end.

A model may kill its parent, which is the fork server. Processes that the model has detached then
become children of the supervisor, and not of the first process of the machine, where nobody would
know them. The supervisor is small: it has imported no torch.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from pathlib import Path

from compilegate.observe import cache_folder, descendants, temporary_folder
from compilegate.observe.cache_repair import remove_truncated
from compilegate.observe.wall_clock import WallClock

#: Seconds that the server may take to end its child after the pytest side has ended.
_PATIENCE_S = 10.0


def supervise(control: socket.socket, scratch: Path) -> None:
    """Return in a new process, the fork server. This process waits for it, and then exits.

    When the server has ended for whatever reason, the supervisor ends all its descendants, removes
    what they leave, and sends ``{"server": wait status}``.

    Args:
        control: The socket to the pytest side.
        scratch: The folder that holds the temporary folders of children.
    """
    descendants.adopt_orphans()
    since_start = WallClock()
    server = os.fork()
    if not server:
        os.setsid()  # whoever kills the server's process group spares the supervisor
        descendants.die_with_parent()
        return
    if not descendants.ends_before_peer(server, control) and not descendants.ends_within(
        server, _PATIENCE_S
    ):
        os.kill(server, signal.SIGKILL)
    _, status = os.waitpid(server, 0)
    descendants.kill_children()
    if os.WIFSIGNALED(status):  # otherwise the server has done it
        with contextlib.suppress(Exception):
            remove_truncated(cache_folder.in_use(), since=since_start.earliest_s)
    temporary_folder.remove(scratch)
    with contextlib.suppress(OSError):
        control.send(json.dumps({"server": status}).encode())
    os._exit(1 if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status))
