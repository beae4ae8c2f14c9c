"""Lets Inductor find the vector instructions of a machine without importing torch once for each."""

from __future__ import annotations

from pathlib import Path

import torch

#: Loads a library as PyTorch 2.14 does: what it needs of torch is loaded without importing torch.
#: What a library lacks is loaded from where this process has it: an installation may keep CUDA's
#: libraries where only ``import torch`` finds them. Where that is not enough, torch is imported, as
#: PyTorch 2.11 does at once.
_LOAD = """
import ctypes
known = {known}
def load(path):
    while True:
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            lacking = known.pop(str(error).partition(":")[0], None)
            if lacking is None:
                raise
            load(lacking)
try:
    for needed in {needed}:
        load(needed)
    load("__lib_path__")
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
        isa._avx_py_load = _LOAD.format(needed=needed, known=_loaded_libraries())


def _loaded_libraries() -> dict[str, str]:
    """Return the paths of the libraries that this process has loaded, by name."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    paths = {fields[5] for line in lines if len(fields := line.split(maxsplit=5)) == 6}
    return {Path(path).name: path for path in sorted(paths) if ".so" in Path(path).name}
