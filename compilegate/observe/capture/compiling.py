"""Passes a case's setting to ``torch.compile``.

https://docs.pytorch.org/docs/stable/generated/torch.compile.html
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import torch
import torch._dynamo.config
import torch._functorch.config
import torch._inductor.config
from torch.torch_version import TorchVersion

from compilegate.observe.device.unsupported import UnsupportedError
from compilegate.observe.model.subject import Subject
from compilegate.records.case import Case, torch_mode
from compilegate.zoo.example import Call
from compilegate.zoo.registry import Model

#: From here on, Inductor keeps the layout of dropout's inputs by itself.
_KEEPS_LAYOUTS = TorchVersion("2.13.0a0")
_DYNAMIC = {"static": False, "auto": None, "dynamic": True, "marked": None}


def allow_tf32(allowed: bool) -> None:
    """Allow or forbid TF32, which keeps ten bits of an f32 mantissa in products.

    cuDNN uses it by default.
    """
    torch.set_float32_matmul_precision("high" if allowed else "highest")
    torch.backends.cudnn.allow_tf32 = allowed


def draw_as_eager(backend: str, *, enabled: bool = True) -> None:
    """Choose whether compiled code draws the random numbers that eager draws.

    Dropout draws in the order of memory, and Inductor may give it inputs in another layout than
    eager. From 2.13 on, it does not while it draws as eager. This adds the same constraint to
    earlier versions.

    Args:
        backend: The compiler backend.
        enabled: Whether it does.
    """
    torch._inductor.config.fallback_random = enabled
    if enabled and backend == "inductor" and TorchVersion(torch.__version__) < _KEEPS_LAYOUTS:
        keep_layout_of_dropout()


def keep_layout_of_dropout() -> None:
    """Let Inductor give dropout inputs in eager's layout, while it draws as eager."""
    from torch._inductor import lowering  # 1 s, which other backends do not need

    def constrained(node: Any, *args: Any, **kwargs: Any) -> Any:
        if not torch._inductor.config.fallback_random:
            return args, kwargs
        return lowering.constrain_to_fx_strides(node, *args, **kwargs)

    lowering.add_layout_constraint(torch.ops.aten.native_dropout.default, constrained)


_CONFIGS: dict[str, Any] = {
    "dynamo": torch._dynamo.config,
    "functorch": torch._functorch.config,
    "inductor": torch._inductor.config,
}


@contextlib.contextmanager
def configured(options: Mapping[str, Any]) -> Iterator[None]:
    """Set options of the compiler in a ``with`` block.

    Args:
        options: Their values by name. See ``Example.config``.

    Raises:
        UnsupportedError: This PyTorch lacks an option.
    """
    with contextlib.ExitStack() as stack:
        for name, value in options.items():
            module, _, option = name.partition(".")
            config = _CONFIGS[module]
            if not hasattr(config, option):
                lacks = f"torch {torch.__version__} has no torch._{module}.config.{option}"
                raise UnsupportedError(f"{lacks}, which config of Example names")
            stack.enter_context(config.patch({option: value}))
        yield


def options(case: Case, backend: str, *, tunes: bool = True) -> dict[str, Any]:
    """Return the arguments of ``torch.compile`` for a case.

    Args:
        case: The case.
        backend: The compiler backend.
        tunes: Whether an autotuning mode tunes. If not, the mode stands in that uses CUDA graphs,
            or does not, as the autotuning one does.
    """
    mode = case.mode
    if case.autotunes and not tunes:
        mode = "reduce_overhead" if case.uses_cuda_graphs else "default"
    found: dict[str, Any] = {"backend": backend, "dynamic": _DYNAMIC[case.dynamic]}
    if backend == "inductor":
        found["mode"] = None if mode == "default" else torch_mode(mode)
    return found


def compile_subject(compiled: Subject, model: Model, backend: str) -> None:
    """Compile a subject as its case demands: all of it, block by block, or as a decorator does.

    Args:
        compiled: The subject to compile.
        model: Its recipe, which names the blocks.
        backend: The compiler backend.
    """
    case = compiled.case
    chosen = options(case, backend)
    module = compiled.module
    if case.scope == "regional":
        assert isinstance(module, torch.nn.Module)
        assert model.blocks
        for block in module.get_submodule(model.blocks).children():
            block.compile(**chosen)
    elif compiled.example.decorator:
        decorate: Any = torch.compile(**chosen)
        compiled.run = decorate(module)
    else:
        compiled.run = torch.compile(module, **chosen)


def mark_dynamic(compiled: Subject, call: Call) -> None:
    """Mark the declared dimensions of a call's arguments as dynamic, if the case demands it."""
    if compiled.case.dynamic != "marked":
        return
    dimensions = compiled.example.dims.items()
    for made, (argument, dims) in product(compiled.overlapping(call), dimensions):
        tensor = made.args[argument] if isinstance(argument, int) else made.kwargs[argument]
        for dim in dims:
            torch._dynamo.mark_dynamic(tensor, dim)
