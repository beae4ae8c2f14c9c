"""The folder of Inductor's cache that all children of one instruction set share.

The caches of PyTorch find the code of a graph by the graph alone. On a processor with other vector
instructions that code crashes, or returns wrong numbers. Each instruction set thus has a subfolder.

Before 2.13, they also find the code for an autocast to another dtype. The aspect *caches* reports
that. Cases in float16 have a subfolder there, so that no other aspect does.
https://github.com/pytorch/pytorch/pull/181564
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from compilegate.observe.host.machine import flags_digest

#: Variables that have oneDNN use fewer instructions than the processor has.
_LIMITS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")

#: The first version whose caches know the dtype of autocast.
_KNOWS_AUTOCAST = "2.13.0a0"


def in_use() -> Path:
    """Return Inductor's cache, as it is in this process. This imports torch."""
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    return Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR") or default_cache_dir())


def use_own() -> None:
    """Have this process, and those that it starts, use the subfolder of their instruction set.

    A process that was started with this subfolder keeps it.
    """
    folder, name = in_use(), _instruction_set()
    if folder.name != name:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder.absolute() / name)


@contextlib.contextmanager
def of_precision(precision: str) -> Iterator[None]:
    """Use a subfolder where the caches take code for bfloat16 for that of float16.

    Args:
        precision: That of the case that is compiled: ``f32``, ``bf16`` or ``f16``.
    """
    import torch
    from torch.torch_version import TorchVersion

    if precision != "f16" or TorchVersion(torch.__version__) >= _KNOWS_AUTOCAST:
        yield
        return
    whole = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(in_use() / precision)
    try:
        yield
    finally:
        if whole is None:
            del os.environ["TORCHINDUCTOR_CACHE_DIR"]
        else:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = whole


def _instruction_set() -> str:
    """Return a name without blanks: ``AVX2-0123456789ab``."""
    import torch

    limits = [os.environ.get(name, "") for name in _LIMITS]
    parts = (torch.backends.cpu.get_cpu_capability(), flags_digest(), *limits)
    return "-".join(re.sub(r"\W+", "_", part) for part in parts if part)
