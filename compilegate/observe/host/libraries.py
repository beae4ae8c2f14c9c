"""The libraries that PyTorch has loaded or contains, and their versions.

Only what ``import torch`` loads is listed, so that the order of later work does not matter.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch

#: Libraries of CUDA with a function ``PREFIXGetProperty``, by their prefix.
_BY_PROPERTY = {
    "cuBLAS": "cublas",
    "cuFFT": "cufft",
    "cuSOLVER": "cusolver",
    "cuSPARSE": "cusparse",
    "cuSPARSELt": "cusparseLt",
}
_CUDNN = re.compile(r"libcudnn\.so")
_OPENMP = re.compile(r"lib(gomp|iomp5|omp)\b.*\.so")
_ALLOCATORS = re.compile(r"lib(jemalloc|tcmalloc|mimalloc).*\.so")
#: What ``torch.__config__.show()`` reports about libraries that torch may contain.
_REPORTED = {
    "oneDNN": re.compile(r"(?:MKL-DNN|oneDNN) v([\w.]+)"),
    "MKL": re.compile(r"Math Kernel Library Version ([\w.]+)"),
    "BLAS": re.compile(r"BLAS_INFO=(\w+)"),
}


def versions() -> dict[str, str]:
    """Return the versions of libraries, by name; a library that is not there is left out."""
    files = loaded_files()
    found = {name: (seen[1] if (seen := _in_build(how)) else "") for name, how in _REPORTED.items()}
    found |= {
        "torch build": (torch.version.git_version or "")[:10],
        "ROCm": torch.version.hip or "",
        "cuDNN": _cudnn(files),
        "CUDA runtime": _cuda_runtime(files),
        "NCCL": _nccl(files),
        "OpenMP": ", ".join(map(_exactly, _matching(_OPENMP, files))),
        "allocator": ", ".join(path.name for path in _matching(_ALLOCATORS, files)),
        "glibc": _c_library(),
    }
    found |= {name: _by_property(prefix, files) for name, prefix in _BY_PROPERTY.items()}
    return {name: version for name, version in found.items() if version}


def loaded_files() -> list[Path]:
    """Return the shared libraries that this process has mapped."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    paths = {line.split(maxsplit=5)[5] for line in lines if ".so" in line}
    return [Path(path) for path in sorted(paths)]


def _in_build(how: re.Pattern[str]) -> re.Match[str] | None:
    return how.search(torch.__config__.show())


def _matching(pattern: re.Pattern[str], files: Iterable[Path]) -> Iterator[Path]:
    return (path for path in files if pattern.match(path.name))


def _exactly(path: Path) -> str:
    """Return the name of a library that has no version, with a digest of its content."""
    with contextlib.suppress(OSError):
        return f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()[:8]}"
    return path.name


def _cudnn(files: Iterable[Path]) -> str:
    """Return the version of the cuDNN that is loaded.

    PyTorch would answer, too, but it raises where cuDNN is older than the one it was built with.
    """
    path = next(_matching(_CUDNN, files), None)
    if path is None:
        return ""
    with contextlib.suppress(OSError, AttributeError):
        function = ctypes.CDLL(str(path)).cudnnGetVersion
        function.restype = ctypes.c_size_t
        return cudnn_version(function())
    return ""


def cudnn_version(number: int) -> str:
    """Return the version that a number stands for: 91501 is 9.15.1, and 8907 is 8.9.7."""
    major = 10_000 if number >= 90_000 else 1_000
    return f"{number // major}.{number % major // 100}.{number % 100}"


def _cuda_runtime(files: Iterable[Path]) -> str:
    number = _number("libcudart.so", "cudaRuntimeGetVersion", files)
    return f"{number // 1000}.{number % 1000 // 10}" if number else ""


def _nccl(files: Iterable[Path]) -> str:
    number = _number("libnccl.so", "ncclGetVersion", files)
    return f"{number // 10_000}.{number % 10_000 // 100}.{number % 100}" if number else ""


def _by_property(prefix: str, files: Iterable[Path]) -> str:
    """Return ``major.minor.patch``: https://docs.nvidia.com/cuda/cublas/#cublasgetproperty."""
    numbers = [_number(f"lib{prefix}.so", f"{prefix}GetProperty", files, i) for i in range(3)]
    return ".".join(map(str, numbers)) if None not in numbers else ""


def _number(file: str, function: str, files: Iterable[Path], *arguments: int) -> int | None:
    """Call a function of a loaded library that stores an integer and returns 0."""
    path = next((path for path in files if path.name.startswith(file)), None)
    if path is None:
        return None
    value = ctypes.c_int()
    with contextlib.suppress(OSError, AttributeError):
        if getattr(ctypes.CDLL(str(path)), function)(*arguments, ctypes.byref(value)) == 0:
            return value.value
    return None


def _c_library() -> str:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc ")
    except (ValueError, OSError):  # another C library
        return ""
