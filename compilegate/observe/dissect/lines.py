"""The first line of the user's code at which compiled code computes something else.

Dynamo notes in each node of a graph which line made it, and AOTAutograd keeps the note. So results
are compared line by line: those of eager, which a ``TorchFunctionMode`` sees, with those of
Dynamo's graphs, and those of Dynamo's graphs with those of AOTAutograd's.
"""

from __future__ import annotations

import contextlib
import linecache
import operator
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import fx, nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from compilegate.observe import nested
from compilegate.observe.capture import compile_log, compiling
from compilegate.observe.capture.source_place import place
from compilegate.observe.dissect import changed_names
from compilegate.observe.dissect.graph import Frame, frames_of
from compilegate.observe.dissect.line_results import (
    LineResults,
    differs_from_dynamo,
    differs_from_eager,
)
from compilegate.observe.model.calls import PlannedCall, input_tensors
from compilegate.observe.model.forward import select_output
from compilegate.observe.model.subject import Subject
from compilegate.records.part import LineDiffers
from compilegate.zoo.example import Call

_TORCH = Path(torch.__file__).parent
#: Functions of the module ``operator`` that write to their first argument.
_WRITING = {
    *("setitem", "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul"),
    *("iand", "ior", "ixor", "ilshift", "irshift"),
}
#: The text of a class of PyTorch.
_OF_TORCH = "<class 'torch."
#: Folders whose code calls PyTorch's functions for the user's.
_AROUND = (*(f"{path}{os.sep}" for path in (_TORCH, Path(__file__).parents[1])), "<")


def first_difference(
    build: Callable[[], Subject], calls: Sequence[PlannedCall], backend: str
) -> LineDiffers:
    """Return the first line whose result is wrong in the last of some calls.

    Args:
        build: Builds the model.
        calls: The calls up to the one that shows the failure.
        backend: *eager* to compare Dynamo's graphs with eager, *aot_eager* to compare AOTAutograd's
            graphs with Dynamo's.
    """
    dynamo, eager = _in_graphs(build(), calls, _of_dynamo), _in_eager(build(), calls)
    if backend == "eager":
        found = differs_from_eager(dynamo, eager)
    else:
        found = differs_from_dynamo(_in_graphs(build(), calls, _of_aot), dynamo)
    return replace(found, touched=eager.touched, changed=eager.changed)


def _in_eager(subject: Subject, calls: Sequence[PlannedCall]) -> LineResults:
    results = LineResults()
    watching = _Watching(results, subject)
    subject.run = watching.run

    @contextlib.contextmanager
    def watched() -> Iterator[None]:
        before = sys.gettrace()
        with results.kept(), watching:
            sys.settrace(lambda frame, event, _: _following(results, frame))
            try:
                yield
            finally:
                sys.settrace(before)

    _make(calls, subject, watched())
    return results


def _in_graphs(
    subject: Subject, calls: Sequence[PlannedCall], backend: Callable[[LineResults], Any]
) -> LineResults:
    results = LineResults()
    compile_log.reset()
    options = compiling.options(subject.case, "eager") | {"backend": backend(results)}
    subject.run = torch.compile(subject.module, **options)
    with compiling.configured(subject.example.config):
        _make(calls, subject, results.kept())
    compile_log.reset()
    return results


def _make(
    calls: Sequence[PlannedCall], subject: Subject, around: AbstractContextManager[None]
) -> None:
    """Make calls, the last of them in a context."""
    for planned in calls[:-1]:
        subject.call(subject.prepare(planned), planned.index)
    subject.call(subject.prepare(calls[-1]), calls[-1].index, around=around)


def _of_dynamo(results: LineResults) -> Any:
    return lambda graph, _: _Interpreter(graph, results).run


def _of_aot(results: LineResults) -> Any:
    def forward(graph: fx.GraphModule, _: Any) -> Any:
        return make_boxed_func(_Interpreter(graph, results).run)

    return aot_autograd(fw_compiler=forward, bw_compiler=lambda graph, _: make_boxed_func(graph))


class _Watching(TorchFunctionMode):
    """Keeps the results of all functions of PyTorch that the user's code calls.

    It also notes which line makes each output, and which is the first to read each other tensor.
    """

    def __init__(self, results: LineResults, subject: Subject) -> None:
        super().__init__()
        self._results, self._subject = results, subject
        model = subject.module
        named = model.named_modules() if isinstance(model, nn.Module) else ()
        self._paths: dict[int, str] = {id(module): path for path, module in named}
        self._given: dict[int, str] = {}
        self._makers: dict[int, tuple[weakref.ref[torch.Tensor], str]] = {}

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model."""
        subject = self._subject
        given = input_tensors(Call(args, kwargs)) | subject.parameters()
        given |= {f"buffer {name}": value for name, value in subject.buffers().items()}
        self._given = {id(tensor): name for name, tensor in given.items()}
        returned = subject.module(*args, **kwargs)
        output = select_output(subject.example, returned)
        for path, leaf in nested.leaves(output, "output", nested.Opening()):
            known, line = self._makers.get(id(leaf), (None, ""))
            if known is not None and known() is leaf:
                self._results.touched[path] = line
        return returned

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if not _is_uninitialized(func.__name__):
            frame = _users(sys._getframe(1))
            lines = _lines_of(frame)
            self._results.add(lines, made, module=self._module_of(frame))
            self._note(lines, (args, kwargs), made)
        return made

    def _note(self, lines: Sequence[Frame], given: Any, made: Any) -> None:
        text = f"{lines[-1].source}: {lines[-1].text}" if lines else ""
        for tensor in pytree.tree_leaves(given) if text else ():
            if (name := self._given.get(id(tensor))) is not None:
                self._results.touched.setdefault(name, text)
        for tensor in pytree.tree_leaves(made) if text else ():
            if isinstance(tensor, torch.Tensor):
                self._makers[id(tensor)] = weakref.ref(tensor), text

    def _module_of(self, frame: FrameType | None) -> str:
        """Return the path of the submodule whose method a frame is in; empty if there is none."""
        while frame is not None:
            path = self._paths.get(id(frame.f_locals.get("self")))
            if path is not None:
                return path
            frame = _users(frame.f_back)
        return ""


class _Interpreter(fx.Interpreter):
    """Runs a graph, and keeps what it is given and the results of its nodes."""

    def __init__(self, graph: fx.GraphModule, results: LineResults) -> None:
        super().__init__(graph)
        self._results = results

    def run_node(self, n: fx.Node) -> Any:
        made = super().run_node(n)
        if n.op == "placeholder":
            self._results.add((), made)
        elif (
            n.op.startswith("call_") and not self._takes_apart(n) and not _is_uninitialized(n.name)
        ):
            function = getattr(n.target, "__name__", str(n.target))
            frames = () if _is_uninitialized(function) else frames_of(n)
            self._results.add(frames, made, module=_module_of(n), writes=_writes(function))
        return made

    def _takes_apart(self, node: fx.Node) -> bool:
        """Whether a node takes a tensor out of a tuple, for which eager calls nothing."""
        if node.target is not operator.getitem:
            return False
        (container, _), _ = self.fetch_args_kwargs_from_env(node)
        return not isinstance(container, torch.Tensor)


def _module_of(node: fx.Node) -> str:
    """Return the path of the innermost submodule that a node is from and PyTorch does not have.

    Dynamo notes ``L['self'].blocks.0`` and its class.
    """
    stack: Iterable[tuple[str, Any]] = node.meta.get("nn_module_stack", {}).values()
    own: list[str] = [path for path, kind in stack if not str(kind).startswith(_OF_TORCH)]
    return own[-1].partition("].")[2] if own else ""


def _writes(function: str) -> bool:
    """Whether a function writes to a tensor, by its name."""
    return function in _WRITING or (function.endswith("_") and not function.endswith("__"))


def _is_uninitialized(function: str) -> bool:
    """Whether a function returns whatever is in memory: ``empty``, ``new_empty`` and alike."""
    return "empty" in function


def _users(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of the user's code; None if there is none."""
    while frame is not None and frame.f_code.co_filename.startswith(_AROUND):
        frame = frame.f_back
    return frame


def _lines_of(frame: FrameType | None) -> Sequence[Frame]:
    """Return the line that a frame is at, after the line of the user's code that called it."""
    if frame is None:
        return ()
    called, caller = _place(frame), _users(frame.f_back)
    return (called,) if caller is None else (_place(caller), called)


def _place(frame: FrameType) -> Frame:
    file, line = frame.f_code.co_filename, frame.f_lineno
    return Frame(file, line, frame.f_code.co_name, linecache.getline(file, line).strip())


def _following(results: LineResults, frame: FrameType) -> Any:
    """Note the lines that a frame runs, if it is the user's."""
    code = frame.f_code
    if code.co_filename.startswith(_AROUND):
        return None

    def note(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            file, line = code.co_filename, frame.f_lineno
            at = place(file, line, code.co_name)
            results.reached.add(at.source)
            changed = changed_names.in_file(file).get(line, ()) if at.owner != "python" else ()
            for name in changed:
                known = results.changed.setdefault(name, [])
                if (text := f"{at.source}: {linecache.getline(file, line).strip()}") not in known:
                    known.append(text)
        return note

    return note
