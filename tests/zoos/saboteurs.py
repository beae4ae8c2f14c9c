"""Models that reach out of their own case, each before a healthy one."""

import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import nn
from torch._inductor.runtime.cache_dir_utils import cache_dir

from compilegate import Example, model


class Acts(nn.Module):
    """A linear layer that runs an action in each call."""

    def __init__(self, action):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.action = action

    def forward(self, x):
        self.action()
        return self.linear(x)


def healthy():
    return Example(nn.Linear(4, 4), inputs=lambda: (torch.randn(2, 4),))


def saboteur(action):
    """Register a model that runs an action in each call, and a healthy one after it."""
    acts = torch.compiler.disable(action)
    inputs = lambda: (torch.randn(2, 4),)  # noqa: E731
    model(action.__name__)(lambda: Example(Acts(acts), inputs=inputs))
    model(f"after_{action.__name__}")(healthy)


def detach():
    """Start a daemon that no environment, session, group or parent connects with this process."""
    if not os.fork():
        os.setsid()
        if not os.fork():
            os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(3600)"], {})
        os._exit(0)
    os.wait()


@saboteur
def deletes_its_temporary_folder():
    shutil.rmtree(tempfile.gettempdir(), ignore_errors=True)


@saboteur
def deletes_every_temporary_folder():
    shutil.rmtree(Path(tempfile.gettempdir()).parents[1], ignore_errors=True)


@saboteur
def fills_and_locks_its_temporary_folder():
    folder = Path(tempfile.gettempdir())
    (folder / "large").write_bytes(bytes(8 << 20))
    folder.chmod(0)


@saboteur
def deletes_the_compile_cache():
    shutil.rmtree(cache_dir(), ignore_errors=True)


@saboteur
def leaves_for_a_folder_that_is_gone():
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.rmdir(folder)


@saboteur
def closes_every_descriptor():
    os.closerange(0, 4096)


@saboteur
def has_no_home_and_no_permissions():
    os.environ.clear()
    os.umask(0o777)


@saboteur
def allows_no_file():
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))


@saboteur
def allows_no_process():
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


@saboteur
def writes_junk_to_every_descriptor():
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b"\x1b[31m::error::junk\n")
        except OSError:
            continue


@saboteur
def answers_for_another_case():
    observation = {"case": "other-cpu-infer-f32-default-static", "status": "completed"}
    answer = json.dumps({"observation": observation, "last": False}).encode()
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, answer + b"\n")
        except OSError:
            continue


@saboteur
def detaches_a_process():
    detach()


@saboteur
def kills_the_fork_server():
    detach()
    tempfile.mkdtemp(prefix="left")
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(3600)
