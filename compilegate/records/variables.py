"""Which variables of a process a run file holds, which of them hold secrets, and which matter.

Standard library only: the observed interpreter need not have more than torch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

#: How the names begin of the variables that a run file holds: those of PyTorch, of its compilers
#: and libraries, of timm, and of the C library's allocator. No other variable is ever stored.
_PREFIXES = (
    *("TORCH", "PYTORCH", "INDUCTOR", "TRITON", "ATEN", "TIMM_"),
    *("CUDA", "CUDNN", "CUBLAS", "NCCL", "NVIDIA", "NVRTC"),
    *("OMP", "KMP", "GOMP", "MKL", "ONEDNN", "DNNL", "OPENBLAS", "MALLOC_"),
)
#: What compilegate sets itself, or has set in the fork server.
_OWN = frozenset({"TORCH_CPP_LOG_LEVEL", "PYTORCH_NVML_BASED_CUDA_CHECK"})
#: Names of what may be secret. A *pass* is a pass of the compiler.
_SECRET = re.compile(
    r"TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PWD|KEY|CREDENTIAL|AUTH(?!OR)|PRIVATE|COOKIE",
    re.IGNORECASE,
)
#: Names of what names a place.
_PLACE = re.compile(r"(^|[_.]|LOG)(DIRS?|HOME|PATHS?|FILES?|FOLDER|OUT)$|ROOT$", re.IGNORECASE)
#: Parts of names of what names a tool, although it looks like a place.
_TOOL = re.compile(r"PTXAS|NVDISASM|CUOBJDUMP", re.IGNORECASE)
#: Variables and options that choose GPUs of one kind, or label an image, a job or its caches.
_LABEL = re.compile(
    r"CUDA_(VISIBLE_DEVICES|DEVICE_ORDER|ARCH_LIST|COMPONENT_LIST)|\w+_VERSION|\w+_BUILD(_\w+)?"
    r"|NVIDIA_(VISIBLE_DEVICES|DRIVER_CAPABILITIES|REQUIRE_\w+|PRODUCT_NAME|DISABLE_REQUIRE)"
    r"|NVIDIA_BUILD_\w+|TORCH_CUDA_ARCH_LIST|TORCH_COMPILE_JOB_ID"
    r"|compiler\.(job_id|sticky_pgo_key|cache_key_tag)"
)
#: Variables and options that only have PyTorch print, or write a log.
_PRINT = re.compile(r"TORCH_LOGS|TORCH_LOGS_FORMAT|TORCH_TRACE|TORCHDYNAMO_VERBOSE|dynamo\.verbose")
#: Stands for a value that is not stored.
HIDDEN = "(not stored)"
#: Characters of a value that are stored.
_LONGEST = 160


def stored(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a run file holds, sorted, with the values that it may hold."""
    return {
        name: HIDDEN if _SECRET.search(name) else shown(environ[name])
        for name in sorted(environ)
        if name.startswith(_PREFIXES) and name not in _OWN
    }


def shown(value: str) -> str:
    """Return a value as a run file may hold it: no address, which may hold a password; not long."""
    if "://" in value:
        return HIDDEN
    if len(value) <= _LONGEST:
        return value
    return f"{value[:_LONGEST]}… ({len(value)} characters)"


def decides(name: str) -> bool:
    """Return whether another value can change what a case computes or costs.

    Args:
        name: The name of a variable, or of an option of ``torch.compile``.

    Returns:
        False for names of places, for variables that choose GPUs, for labels, and for logging.
    """
    if _TOOL.search(name):
        return True
    decides_nothing = _PLACE.search(name) or _LABEL.fullmatch(name) or _PRINT.fullmatch(name)
    return not decides_nothing
