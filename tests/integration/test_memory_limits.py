"""A process that memory ended is reported as such, with the limit and the peak."""

import pytest

from compilegate.processes import child_process
from compilegate.records.host_memory import MemoryAccount
from tests.integration.served import observing

observe = pytest.fixture(observing)

KILLED = (
    "import os, pathlib, signal\nwait_for_request()\nsend(stage='compile')\n"
    "{}os.kill(os.getpid(), signal.SIGKILL)"
)


@pytest.fixture
def counter(tmp_path, monkeypatch):
    """The counter of kills of a cgroup of 2 GiB, which stands for that of the child."""
    group = tmp_path / "sys" / "fs" / "cgroup"
    group.mkdir(parents=True)
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_text("0::/\n")
    mount = "30 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    (tmp_path / "proc" / "self" / "mountinfo").write_text(mount)
    (group / "memory.max").write_text(str(2 << 30))
    (group / "memory.peak").write_text(str(2 << 30))
    (group / "memory.events").write_text("oom_kill 3\n")
    monkeypatch.setattr(child_process, "MemoryAccount", lambda pid: MemoryAccount(root=tmp_path))
    return group / "memory.events"


def test_a_process_that_the_kernel_killed_for_memory_ran_out_of_memory(observe, counter):
    counts = f"pathlib.Path({str(counter)!r}).write_text('oom_kill 4\\n')\n"
    made, verdict = observe(KILLED.format(counts), 60.0)
    assert (made.status, made.failure.kind) == ("out_of_memory", "SIGKILL")
    assert verdict.summary == (
        "ran out of memory in stage 'compile': the kernel killed the process because memory ran "
        "out; its cgroup is limited to 2.0 GiB, of which 2.0 GiB were used at most"
    )


def test_a_process_that_someone_killed_has_crashed(observe, counter):
    made, verdict = observe(KILLED.format(""), 60.0)
    assert (made.status, made.failure.kind) == ("crashed", "SIGKILL")
    assert verdict.summary == "crashed in stage 'compile': the process was killed by SIGKILL"


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("bytearray(1 << 40)", "MemoryError"),
        (
            "os.write(2, b\"terminate called after throwing an instance of 'std::bad_alloc'\\n\")\n"
            "os.abort()",
            "std::bad_alloc",
        ),
    ],
)
def test_a_process_whose_allocation_failed_ran_out_of_memory(observe, end, words):
    code = "import os, resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 39, -1))\n"
    made, verdict = observe(f"{code}wait_for_request()\nsend(stage='eager')\n{end}", 60.0)
    assert made.status == "out_of_memory"
    assert words in verdict.summary
    assert " GiB" in verdict.summary
