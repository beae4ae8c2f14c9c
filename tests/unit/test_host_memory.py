"""The limits of a process and the kernel's count of kills come from either version of cgroups."""

import os

import pytest

from compilegate.records.host_memory import MemoryAccount

GIB = 2**30
V1_MOUNT = "35 31 0:32 {top} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
V2_MOUNT = "30 24 0:27 {top} /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
OTHERS = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"


@pytest.fixture
def account(tmp_path):
    """Writes files of ``/proc`` and ``/sys``, and returns the account of a process there."""

    def made(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return MemoryAccount(root=tmp_path)

    return made


def v2(group, limit, peak, kills):
    folder = f"sys/fs/cgroup/{group}"
    events = f"low 0\nhigh 0\nmax 7\noom 1\noom_kill {kills}\noom_group_kill 0\n"
    return {
        f"{folder}/memory.max": limit,
        f"{folder}/memory.peak": peak,
        f"{folder}/memory.events": events,
    }


def v1(group, limit, peak, kills):
    folder = f"sys/fs/cgroup/memory/{group}"
    return {
        f"{folder}/memory.limit_in_bytes": str(limit),
        f"{folder}/memory.max_usage_in_bytes": str(peak),
        f"{folder}/memory.oom_control": f"oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n",
    }


MEMBER_V2 = {
    "proc/self/cgroup": "0::/user/job\n",
    "proc/self/mountinfo": OTHERS + V2_MOUNT.format(top="/"),
}
MEMBER_V1 = {
    "proc/self/cgroup": "5:devices:/\n4:memory:/job\n0::/\n",
    "proc/self/mountinfo": OTHERS + V2_MOUNT.format(top="/") + V1_MOUNT.format(top="/"),
}
MACHINE = {
    "proc/vmstat": "pgfault 7\noom_kill 9\n",
    "proc/meminfo": "MemTotal:       25165824 kB\nMemFree:        1 kB\n",
}
JOB = "its cgroup is limited to 2.0 GiB, of which 1.5 GiB were used at most"


@pytest.mark.parametrize(
    ("files", "kills", "text"),
    [
        pytest.param(
            MEMBER_V2 | v2("user/job", str(2 * GIB), str(3 * GIB // 2), 4), 4, JOB, id="version 2"
        ),
        pytest.param(
            MEMBER_V2
            | v2("user/job", "max", "1", 4)
            | v2("user", str(2 * GIB), str(3 * GIB // 2), 5),
            *(4, JOB),
            id="the limit of an outer group",
        ),
        pytest.param(
            MEMBER_V2 | v2("user/job", str(2 * GIB), "", 4),
            *(4, "its cgroup is limited to 2.0 GiB"),
            id="a kernel without peaks",
        ),
        pytest.param(MEMBER_V1 | v1("job", 2 * GIB, 3 * GIB // 2, 3), 3, JOB, id="version 1"),
        pytest.param(
            {
                "proc/self/cgroup": "0::/docker/abc\n",
                "proc/self/mountinfo": V2_MOUNT.format(top="/docker/abc"),
            }
            | v2("", str(2 * GIB), str(3 * GIB // 2), 2),
            *(2, JOB),
            id="a container that is mounted as the root",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "4:memory:/seen/from/outside\n",
                "proc/self/mountinfo": V1_MOUNT.format(top="/"),
            }
            | v1("", 2 * GIB, 3 * GIB // 2, 2),
            *(2, JOB),
            id="a container that knows its path from outside",
        ),
        pytest.param(
            MEMBER_V1 | v1("job", 9223372036854771712, GIB, 3) | MACHINE,
            *(3, "the machine has 24.0 GiB"),
            id="no limit",
        ),
        pytest.param(MACHINE, 9, "the machine has 24.0 GiB", id="no cgroups"),
        pytest.param({}, None, "", id="nothing is readable"),
    ],
)
def test_limit_peak_and_kills_are_those_of_the_cgroup(account, files, kills, text):
    found = account(files)
    assert (found.kills(), found.describe()) == (kills, text)


def test_the_account_of_this_process_names_a_limit():
    assert "GiB" in MemoryAccount(os.getpid()).describe()
