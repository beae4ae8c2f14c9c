"""Where the time of a call goes: operators and kernels, eager and compiled side by side."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
import torch._inductor.config
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from compilegate.observe.model.subject import Subject
from compilegate.records.part import Kernel
from compilegate.zoo.example import Call

#: Calls before the profile, and calls in it.
_WARM, _CALLS = 3, 5
#: As many kernels are returned.
_MOST = 15


def kernels(eager: tuple[Subject, Call], compiled: tuple[Subject, Call]) -> list[Kernel]:
    """Return the kernels that take most of a call, the longest first.

    On a CPU these are operators, and the kernels that Inductor generates.

    Args:
        eager: A model, and a prepared call of it.
        compiled: The same model compiled, and a call of it.
    """
    with torch._inductor.config.patch({"cpp.enable_kernel_profile": True}):
        sides = [_microseconds(subject, call) for subject, call in (eager, compiled)]
    both = [
        Kernel(name=name, eager_us=sides[0].get(name, 0.0), compiled_us=sides[1].get(name, 0.0))
        for name in sides[0] | sides[1]
    ]
    return sorted(both, key=lambda kernel: -max(kernel.eager_us, kernel.compiled_us))[:_MOST]


def _microseconds(subject: Subject, call: Call) -> dict[str, float]:
    """Return the microseconds of a call by kernel, what it calls itself left out."""
    on_gpu = subject.case.device == "cuda"
    for _ in range(_WARM):
        _step(subject, call)
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities) as seen:
        for _ in range(_CALLS):
            _step(subject, call)
        if on_gpu:
            torch.cuda.synchronize()
    found: defaultdict[str, float] = defaultdict(float)
    for event in seen.key_averages():
        found[event.key] += _own_us(event, on_gpu=on_gpu) / _CALLS
    return {name: us for name, us in found.items() if us > 0}


def _step(subject: Subject, call: Call) -> None:
    subject.step(call)
    subject.forget_gradients(call)


def _own_us(event: Any, *, on_gpu: bool) -> float:
    if not on_gpu:
        return float(event.self_cpu_time_total)
    # Operators have the time of the kernels that they launch, too.
    is_kernel = event.device_type == DeviceType.CUDA
    return float(event.self_device_time_total) if is_kernel else 0.0
