"""Passes a case's setting to ``torch.compile``.

https://docs.pytorch.org/docs/stable/generated/torch.compile.html
"""

from __future__ import annotations

import contextlib
import difflib
import functools
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise, product
from typing import Any

import torch
import torch._dynamo.config
import torch._functorch.config
import torch._inductor.config
from torch.torch_version import TorchVersion

from compilegate.observe.model.subject import Subject
from compilegate.records.case import Case, torch_mode
from compilegate.zoo.example import Call, argument_of
from compilegate.zoo.registry import Model

#: From here on, Inductor keeps the layout of dropout's inputs and the order of draws by itself.
KEEPS_LAYOUT_AND_ORDER = TorchVersion("2.13.0a0")
_BERNOULLI = torch.ops.aten.bernoulli.default
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
    eager; it may also draw in another order. From 2.13 on, it does neither while it draws as eager.
    This adds the same constraints to earlier versions. No version draws a ``bernoulli`` of a tensor
    as a GPU does in eager.

    Args:
        backend: The compiler backend.
        enabled: Whether it does.
    """
    torch._inductor.config.fallback_random = enabled
    is_old = TorchVersion(torch.__version__) < KEEPS_LAYOUT_AND_ORDER
    if enabled and backend == "inductor" and is_old:
        keep_layout_of_dropout()
        keep_order_of_draws()
    if backend == "inductor":
        theirs = _bernoulli()
        inductor_decompositions()[_BERNOULLI] = as_eager_draws_it if enabled else theirs


def inductor_decompositions() -> dict[Any, Callable[..., Any]]:
    """Return the decompositions of Inductor, which apply to graphs from now on."""
    from torch._inductor.decomposition import decompositions  # it takes a second

    return decompositions


@functools.cache
def _bernoulli() -> Callable[..., Any]:
    """Return PyTorch's decomposition, which compares a uniform draw with the probabilities."""
    return inductor_decompositions()[_BERNOULLI]


def as_eager_draws_it(probabilities: Any, *, generator: Any = None) -> Any:
    """Draw a ``bernoulli`` of a tensor: on a GPU, with eager's kernel."""
    if probabilities.device.type == "cpu":
        return _bernoulli()(probabilities, generator=generator)
    drawn = torch.ops.aten.bernoulli.Tensor
    return drawn(probabilities, probabilities, generator=generator)


def keep_layout_of_dropout() -> None:
    """Let Inductor give dropout inputs in eager's layout, while it draws as eager."""
    from torch._inductor import lowering  # 1 s, which other backends do not need

    def constrained(node: Any, *args: Any, **kwargs: Any) -> Any:
        if not torch._inductor.config.fallback_random:
            return args, kwargs
        return lowering.constrain_to_fx_strides(node, *args, **kwargs)

    lowering.add_layout_constraint(torch.ops.aten.native_dropout.default, constrained)


@functools.cache
def keep_order_of_draws() -> None:
    """Let Inductor call kernels that draw in the order of the graph, while it draws as eager.

    Its scheduler knows of no dependency between them. After a fusion, it sorts what a kernel needs
    by name: ``buf12`` comes before ``buf6``, and takes the numbers that eager draws for ``buf6``.
    """
    from torch._inductor.dependencies import WeakDep  # as above
    from torch._inductor.scheduler import Scheduler

    compute = Scheduler.compute_dependencies
    # Early versions, such as 2.8, have no flag for a dependency that only orders kernels.
    only_orders: dict[str, Any] = {"is_fake": True} if hasattr(WeakDep, "is_fake") else {}

    def computed(self: Any) -> None:
        compute(self)
        if not torch._inductor.config.fallback_random:
            return
        for before, after in pairwise(filter(_draws, self.nodes)):
            (first, *_), (then, *_) = before.get_buffer_names(), after.get_buffer_names()
            after.add_fake_dep(WeakDep(first, mutating_buf=then, **only_orders))

    Scheduler.compute_dependencies = computed  # type: ignore[method-assign]


def _draws(node: Any) -> bool:
    """Whether a node of Inductor's scheduler calls an operator that draws random numbers."""
    operator = getattr(node.node, "op_overload", None)
    return torch.Tag.nondeterministic_seeded in getattr(operator, "tags", ())


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
        AttributeError: This PyTorch lacks an option. Code that sets it would raise the same.
    """
    with contextlib.ExitStack() as stack:
        for name, value in options.items():
            module, _, option = name.partition(".")
            config = _CONFIGS[module]
            if not hasattr(config, option):
                lacks = f"torch {torch.__version__} has no torch._{module}.config.{option}"
                near = difflib.get_close_matches(option, config.get_config_copy(), n=1)
                nearest = "".join(f"; the nearest is {module}.{name}" for name in near)
                raise AttributeError(f"{lacks}, which config of Example names{nearest}")
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
        tensor = argument_of(argument, made.args, made.kwargs)
        for dim in dims:
            torch._dynamo.mark_dynamic(tensor, dim)
