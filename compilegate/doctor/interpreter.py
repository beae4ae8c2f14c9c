"""What the observed interpreter must have: torch, and a GPU that torch can use."""

from __future__ import annotations

from collections.abc import Iterator

from compilegate.doctor.check import Check, has, lacks
from compilegate.processes.child_process import ObserverError
from compilegate.processes.interpreter import check_interpreter
from compilegate.processes.observer import Observer
from compilegate.processes.server_process import Launch
from compilegate.records.environment import Environment

#: Triton compiles for GPUs from this capability on: https://triton-lang.org
_OLDEST_CAPABILITY = (7, 0)
_WAY_OUT = "pip install torch there, or name another interpreter with --python"


def checks(python: str, *, gpu: bool) -> Iterator[Check]:
    """Ask a child of an interpreter what it finds.

    Args:
        python: The interpreter.
        gpu: Whether it must find a GPU.
    """
    try:
        check_interpreter(python, "--python")
    except ObserverError as error:
        yield lacks("torch", str(error), _WAY_OUT)
        return
    observer = Observer(Launch(python=python))
    try:
        environment = observer.environment()
    except ObserverError as error:
        first = str(error).partition("\n")[0]
        yield lacks("torch", first, f"{python} -m pip install torch")
        return
    finally:
        observer.close()
    versions = environment.versions
    cuda = f", CUDA {environment.cuda}" if environment.cuda else ", for CPU only"
    yield has("torch", f"{versions.get('torch', 'unknown')}{cuda} in {python}")
    if gpu:
        yield gpu_of(environment)


def gpu_of(environment: Environment) -> Check:
    """Check the GPU that torch finds.

    Args:
        environment: What a child of the interpreter found.
    """
    name, found = "torch's GPU", environment.device("cuda")
    if found is None:
        build = f"CUDA {environment.cuda}" if environment.cuda else "CPU only"
        return lacks(
            name,
            f"torch finds none (it is built for {build})",
            "install the torch of the driver's CUDA (https://pytorch.org), and check "
            "CUDA_VISIBLE_DEVICES",
        )
    capability = tuple(int(part) for part in found.capability.split(".") if part.isdigit())
    text = f"{found.name}, {found.memory_bytes / 2**30:.0f} GiB, capability {found.capability}"
    if capability and capability < _OLDEST_CAPABILITY:
        return lacks(name, f"{text}: Triton does not support it", "use a newer GPU")
    return has(name, text)
