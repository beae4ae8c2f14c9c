"""Lets Inductor find the vector instructions of a machine without importing torch once for each."""

from __future__ import annotations

from pathlib import Path

import torch

#: Loads a library as PyTorch 2.14 does: what it needs of torch is loaded without importing torch.
#: Where that is not enough, torch is imported, as PyTorch 2.11 does at once.
_LOAD = """
import ctypes
try:
    for needed in {needed}:
        ctypes.CDLL(needed)
    ctypes.CDLL("__lib_path__")
except OSError:
    import torch
    ctypes.CDLL("__lib_path__")
"""


def probe_without_torch() -> None:
    """Make a PyTorch that imports torch for each probe faster; what it finds is the same.

    Whether a library with certain instructions loads is tried in a process of its own, up to ten
    times for each process that compiles for a CPU. Where others try the same, each waits for its
    turn. Every try imports torch, which takes 1.5 to 5 s.
    """
    from torch._inductor import cpu_vec_isa

    isa = cpu_vec_isa.VecISA
    if not hasattr(isa, "_probe_load"):
        folder = Path(torch.__file__).parent / "lib"
        needed = [str(folder / name) for name in ("libc10.so", "libtorch_cpu.so")]
        isa._avx_py_load = _LOAD.format(needed=needed)
