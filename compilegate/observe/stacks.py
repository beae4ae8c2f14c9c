"""Writes the stacks of all threads when the parent asks, also where Python cannot run.

faulthandler's handler is C: it needs neither the interpreter's lock nor a main thread that returns
to Python. The kernel gives the signal to any thread that does not block it. One thread of this
module blocks every other signal and never this one, so a model that blocks signals is seen, too.
"""

from __future__ import annotations

import _thread
import faulthandler
import signal

from compilegate.records.request import STACKS_PLEASE


def write_on_request() -> None:
    """Let this process write the stacks of its threads to stderr at each ``STACKS_PLEASE``.

    The thread waits for a lock that nobody releases. It runs no Python, so it costs no time, shows
    no frames, and ``threading.enumerate`` does not list it.
    """
    faulthandler.register(STACKS_PLEASE)
    forever = _thread.allocate_lock()
    forever.acquire()
    others = signal.valid_signals() - {STACKS_PLEASE}
    before = signal.pthread_sigmask(signal.SIG_SETMASK, others)  # a new thread inherits it
    try:
        _thread.start_new_thread(forever.acquire, ())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before - {STACKS_PLEASE})
