"""The kernel kills a case for lack of memory, in a cgroup that is made for it.

Only root may make one. Elsewhere, ``test_memory_limits.py`` lets files stand for the cgroup.
"""

import os
import re
import time
from pathlib import Path

import pytest

from compilegate.records.host_memory import MemoryAccount
from tests.integration.served import served

LIMIT_BYTES = 128 << 20
#: Where cgroups are, the file of the limit, and that of the counter: version 1, and version 2.
VERSIONS = (
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.oom_control"),
    (Path("/sys/fs/cgroup"), "memory.max", "memory.events"),
)


@pytest.fixture
def group():
    """A new cgroup with a limit, and the file that counts kills in it."""
    for root, limit, counter in VERSIONS:
        folder = root / f"compilegate-test-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            if (folder / limit).exists():
                (folder / limit).write_text(str(LIMIT_BYTES))
                yield folder, folder / counter
                return
        finally:
            remove(folder)
    pytest.skip("this user may not make a memory cgroup on this machine")


def remove(folder):
    """Remove a cgroup. It is busy until its last process, which was killed, has gone."""
    until = time.monotonic() + 30
    while True:
        try:
            folder.rmdir()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return


def kills(counter):
    return int(re.search(r"^oom_kill (\d+)$", counter.read_text(), re.MULTILINE)[1])


def test_a_case_that_the_kernel_kills_ran_out_of_memory_and_the_next_one_is_judged(group, tmp_path):
    folder, counter = group
    with served(tmp_path) as server:
        pids = [server.process.pid]
        children = f"/proc/{pids[0]}/task/{pids[0]}/children"
        pids += map(int, Path(children).read_text().split())
        for pid in pids:
            (folder / "cgroup.procs").write_text(str(pid))
        assert f"limited to {LIMIT_BYTES / 2**30:.1f} GiB" in MemoryAccount(pids[0]).describe()

        made, _ = server.observe("end()", 60.0)
        assert (made.status, kills(counter)) == ("completed", 0)
        made, verdict = server.observe("send(stage='compile')\nx = b'x' * (1 << 30)", 60.0)
        assert (made.status, made.failure.kind, kills(counter)) == ("out_of_memory", "SIGKILL", 1)
        assert verdict.summary == (
            "ran out of memory in stage 'compile': the kernel killed the process because memory "
            "ran out; its cgroup is limited to 0.1 GiB, of which 0.1 GiB were used at most"
        )
        made, _ = server.observe("end()", 60.0)
        assert (made.status, kills(counter)) == ("completed", 1)
        # A kill that the kernel did not do for memory is a crash, also in this group.
        made, verdict = server.observe("import os; os.kill(os.getpid(), 9)", 60.0)
        assert (made.status, kills(counter)) == ("crashed", 1)
