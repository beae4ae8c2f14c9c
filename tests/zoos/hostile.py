"""Models that crash, hang, exit or flood the output, between two healthy models."""

import ctypes
import os
import resource
import subprocess
import sys
import threading
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


def acting(action):
    return Example(Acts(torch.compiler.disable(action)), inputs=lambda: (torch.randn(2, 4),))


@model("healthy_first")
def healthy_first():
    return Example(nn.Linear(4, 4), inputs=lambda: (torch.randn(2, 4),))


@model("segfaults")
def segfaults():
    return acting(lambda: ctypes.string_at(0))


@model("segfaults_among_threads")
def segfaults_among_threads():
    def wait(depth):
        return wait(depth - 1) if depth else time.sleep(60)

    def crash():
        for _ in range(8):
            threading.Thread(target=wait, args=(90,), daemon=True).start()
        ctypes.string_at(0)

    return acting(crash)


@model("hangs")
def hangs():
    def hang():
        """Hang as a C++ compiler might, with a library half written."""
        library = Path(cache_dir(), "hangs", "half.so")
        library.parent.mkdir(parents=True, exist_ok=True)
        library.write_bytes(b"\x7fELF")
        threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
        time.sleep(3600)

    return acting(hang)


@model("exits")
def exits():
    return acting(lambda: os._exit(0))


@model("raises_in_build")
def raises_in_build():
    raise RuntimeError("no such weights")


@model("segfaults_in_build")
def segfaults_in_build():
    ctypes.string_at(0)


@model("raises_20_megabytes")
def raises_20_megabytes():
    raise RuntimeError("head " + "m" * 20_000_000 + "\n" + "y\n" * 1_000_000 + "tail")


@model("breaks_for_a_megabyte")
def breaks_for_a_megabyte():
    class Breaks(nn.Linear):
        def forward(self, x):
            torch._dynamo.graph_break(msg="r" * 1_000_000)
            return super().forward(x)

    return Example(Breaks(4, 4), inputs=lambda: (torch.randn(2, 4),))


@model("has_names_of_a_megabyte")
def has_names_of_a_megabyte():
    class Names(nn.Linear):
        def forward(self, x):
            return {"n" * 1_000_000: super().forward(x)}

    return Example(Names(4, 4), inputs=lambda: (torch.randn(2, 4),))


@model("exhausts_its_address_space")
def exhausts_its_address_space():
    def exhaust():
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * os.sysconf("SC_PAGE_SIZE") + 2**28
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        torch.empty(2**32)

    return acting(exhaust)


@model("wrong_shape")
def wrong_shape():
    return Example(nn.Linear(4, 4), inputs=lambda: (torch.randn(2, 5),))


@model("not_a_module")
def not_a_module():
    return Example("a string", inputs=lambda: (torch.randn(2, 4),))


@model("not_an_example")
def not_an_example():
    return nn.Linear(4, 4)


@model("inputs_are_a_tensor")
def inputs_are_a_tensor():
    return Example(nn.Linear(4, 4), inputs=lambda: torch.randn(2, 4))


@model("picks_a_missing_output")
def picks_a_missing_output():
    return Example(
        nn.Linear(4, 4), inputs=lambda: (torch.randn(2, 4),), output=lambda out: out.logits
    )


@model("other_weights_each_time")
def other_weights_each_time():
    torch.manual_seed(int.from_bytes(os.urandom(4)))
    return Example(nn.Linear(4, 4), inputs=lambda: (torch.randn(2, 4),))


@model("prints_a_megabyte")
def prints_a_megabyte():
    print("x" * 1_000_000)
    print('{"observation": {}}')
    sys.stderr.write("y" * 20_000_000)
    return Example(nn.Linear(4, 4), inputs=lambda: (torch.randn(2, 4),))


@model("leaves_a_thread")
def leaves_a_thread():
    threading.Thread(target=time.sleep, args=(3600,)).start()
    return Example(nn.Linear(4, 4), inputs=lambda: (torch.randn(2, 4),))


@model("leaves_a_process")
def leaves_a_process():
    subprocess.Popen(["sleep", "3600"], start_new_session=True)
    return Example(nn.Linear(4, 4), inputs=lambda: (torch.randn(2, 4),))


@model("healthy_last")
def healthy_last():
    return Example(nn.Linear(4, 4), inputs=lambda: (torch.randn(2, 4),))
