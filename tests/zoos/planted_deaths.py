"""Plants faults in this process: compiling ``sinh`` kills it, and compiling ``cosh`` never ends."""

import os
import signal
import time

import torch
from torch._inductor.decomposition import decompositions

aten = torch.ops.aten


def die(x):
    os.kill(os.getpid(), signal.SIGSEGV)


def hang(x):
    time.sleep(10_000)


decompositions[aten.sinh.default] = die
decompositions[aten.cosh.default] = hang
