"""The folder of Inductor's cache that all children of one instruction set share.

The caches of PyTorch find the code of a graph by the graph alone. On a processor with other vector
instructions that code crashes, or returns wrong numbers. Each instruction set thus has a subfolder.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from compilegate.observe.host.machine import flags_digest

#: Variables that have oneDNN use fewer instructions than the processor has.
_LIMITS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")


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


def _instruction_set() -> str:
    """Return a name without blanks: ``AVX2-0123456789ab``."""
    import torch

    limits = [os.environ.get(name, "") for name in _LIMITS]
    parts = (torch.backends.cpu.get_cpu_capability(), flags_digest(), *limits)
    return "-".join(re.sub(r"\W+", "_", part) for part in parts if part)
