"""The hooks of PyTorch through which a fault reaches compiled code and never eager code.

- Graphs of ATen operators, forward and backward: Inductor passes them to
  ``post_grad_custom_pre_pass``. The backend ``aot_eager_decomp_partition`` has the same graphs, and
  passes them to the compilers of ``aot_autograd``.
- The compiled callable: a backend around the requested one wraps what that returns to Dynamo.
- Settings of Dynamo and Inductor, and Inductor's table of decompositions.

A process plants one fault, or one after another where none changes settings. A fault that takes
effect leaves a mark in the folder that the variable
``COMPILEGATE_PLANTED`` names. A fault that finds nothing to change raises an error.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import torch._functorch.config
import torch._inductor.config
from torch import fx
from torch._dynamo.backends import registry
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor import compile_fx
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files

DECOMPOSED = "aot_eager_decomp_partition"

#: Changes a graph in place, and returns the number of changes, or None if it is for other graphs.
Surgery = Callable[[fx.Graph], int | None]
#: Compiled code that takes the inputs of a graph and returns the tuple of its outputs.
Compiled = Callable[..., Any]


class NothingToChangeError(RuntimeError):
    """The model has nothing that the fault could change, so planting it would test nothing."""


@dataclass
class Frame:
    """What Dynamo passes to the backend: the graph before autograd, and its inputs.

    Attributes:
        graph: The graph of ``torch`` functions.
        inputs: Example inputs: parameters, buffers, arguments of the call, and sizes.
        result_bytes: Bytes of all results of its forward graph together, once they are known.
    """

    graph: fx.Graph
    inputs: Sequence[Any]
    result_bytes: int = 0

    def parameters(self) -> list[int]:
        """Return the positions of the inputs that are parameters."""
        return [
            index
            for index, value in enumerate(self.inputs)
            if isinstance(value, torch.nn.Parameter)
        ]

    def given(self) -> list[int]:
        """Return the positions of the inputs that are floating-point arguments of the call."""
        sources = [node for node in self.graph.nodes if node.op == "placeholder"]
        return [
            index
            for index, (node, value) in enumerate(zip(sources, self.inputs, strict=True))
            if isinstance(value, torch.Tensor)
            and value.is_floating_point()
            and not isinstance(value, torch.nn.Parameter)
            and "self" not in node.name  # a buffer
        ]


@dataclass
class Plant:
    """The code of one fault. Any part may be missing.

    Attributes:
        configure: Changes settings of PyTorch. It is called once, and calls :func:`announce`.
        forward: Changes forward graphs.
        backward: Changes backward graphs.
        before: Receives each frame before the backend compiles it.
        wrap: Returns the callable that replaces the compiled code of a frame. It returns that code
            itself where it has nothing to change.
    """

    configure: Callable[[], None] | None = None
    forward: Surgery | None = None
    backward: Surgery | None = None
    before: Callable[[Frame], None] | None = None
    wrap: Callable[[Frame, Compiled], Compiled] | None = None


@dataclass
class _Process:
    """The fault that is planted in this process."""

    name: str = ""
    victim: str = ""
    frames: list[Frame] = field(default_factory=list)
    entry: Plant = field(default_factory=Plant)
    around: Callable[[Compiled], Compiled] | None = None


PLANTS: dict[str, Plant] = {}
_HERE = _Process()


def plant(part: str, name: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as one part of the fault of this name, or of its own."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        entry = PLANTS.setdefault(name or function.__name__, Plant())
        assert getattr(entry, part) is None, f"{part} of {name or function.__name__} is given twice"
        setattr(entry, part, function)
        return function

    return enter


def frame() -> Frame:
    """Return the frame that is being compiled."""
    return _HERE.frames[-1]


def announce(text: str) -> None:
    """Report to the session that the fault took effect."""
    print(f"planted {_HERE.name} in {_HERE.victim}: {text}", flush=True)
    if folder := os.environ.get("COMPILEGATE_PLANTED"):
        with Path(folder, f"{_HERE.name}.{_HERE.victim}").open("a") as mark:
            mark.write(f"{text}\n")


def install(name: str, victim: str) -> None:
    """Plant a fault in this process, at the first of several calls of a builder."""
    if _HERE.name:
        assert _HERE.name == name, "a process plants one fault"
        return
    _begin(_Process(name, victim, entry=PLANTS[name]))


def replace(name: str, victim: str, around: Callable[[Compiled], Compiled]) -> None:
    """Plant a fault in place of the one before, which may find nothing to change.

    Args:
        name: The name of its plant. One that changes settings is the last of its process.
        victim: The model.
        around: Replaces the compiled code of each frame, with or without the fault.
    """
    _begin(_Process(name, victim, entry=PLANTS[name], around=around))


def _begin(process: _Process) -> None:
    is_first = not _HERE.name
    vars(_HERE).update(vars(process))
    # Inductor runs no passes over a graph that it loads from a cache.
    torch._inductor.config.fx_graph_cache = False
    torch._functorch.config.enable_autograd_cache = False
    torch._inductor.config.post_grad_custom_pre_pass = _Pass()
    if is_first:
        _wrap_backends()
    if process.entry.configure is not None:
        process.entry.configure()


class _Pass(CustomGraphPass):
    """The fault as a custom pass of Inductor."""

    def __call__(self, graph: fx.Graph) -> None:
        _operate(graph)

    def uuid(self) -> Any:
        return (_HERE.name, get_hash_for_files(tuple(map(str, Path(__file__).parent.glob("*.py")))))


def _operate(graph: fx.Graph) -> None:
    is_backward = any(n.op == "placeholder" and "tangents" in n.name for n in graph.nodes)
    surgery = _HERE.entry.backward if is_backward else _HERE.entry.forward
    which = "backward" if is_backward else "forward"
    if surgery is None:
        return
    with torch.no_grad():
        changes = surgery(graph)
    if changes is None:
        return
    if not changes and _HERE.around is not None:
        return
    if not changes:
        raise NothingToChangeError(f"{_HERE.name} finds nothing to change in the {which} graph")
    graph.lint()
    announce(f"{changes} changes in the {which} graph")


def _wrap_backends() -> None:
    """Wrap Inductor's backend, and replace the decomposing backend by one with the fault."""
    inductor = compile_fx.compile_fx

    @functools.wraps(inductor)
    def faulty_inductor(graph: fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Any:
        if options.get("config_patches"):  # it sets them, and calls this again
            return inductor(graph, inputs, **options)
        return _compile(graph, inputs, functools.partial(inductor, **options))

    compile_fx.compile_fx = faulty_inductor

    def faulty_decomposed(graph: fx.GraphModule, inputs: Sequence[Any]) -> Any:
        return _compile(graph, inputs, _decomposed())

    registry.lookup_backend(DECOMPOSED)  # registers the backend if nothing has used it yet
    registry._COMPILER_FNS.pop(DECOMPOSED)
    registry.register_backend(faulty_decomposed, DECOMPOSED, ("debug",))


def _compile(graph: fx.GraphModule, inputs: Sequence[Any], backend: Any) -> Compiled:
    entry, seen = _HERE.entry, Frame(graph.graph, list(inputs))
    _HERE.frames.append(seen)
    if entry.before is not None:
        entry.before(seen)
        announce("before compiling")
    compiled: Compiled = backend(graph, inputs)
    if entry.wrap is not None and (faulty := entry.wrap(seen, compiled)) is not compiled:
        compiled = _marked(faulty)
    return compiled if _HERE.around is None else _HERE.around(compiled)


def _marked(call: Compiled) -> Compiled:
    """Return a callable that reports the fault in its first call."""
    calls = itertools.count()

    def announced(*inputs: Any) -> Any:
        if next(calls) == 0:
            announce("called")
        return call(*inputs)

    return announced


def _decomposed() -> Any:
    """Return ``aot_eager_decomp_partition`` with a fault that changes each graph before it runs."""

    def compiler(graph: fx.GraphModule, inputs: Sequence[Any]) -> Any:
        from functorch.compile import make_boxed_func

        _operate(graph.graph)
        graph.recompile()
        return make_boxed_func(graph.forward)

    return aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        decompositions=compile_fx.select_decomp_table,
        keep_inference_input_mutations=True,  # as in Inductor, whose graphs contain them
        partition_fn=functools.partial(min_cut_rematerialization_partition, compiler="inductor"),
    )
