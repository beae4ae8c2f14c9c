"""The worker of the practice ``export``: loads programs, and calls them without the model's code.

It imports torch, and the modules of the classes that a program takes or returns: PyTorch demands
that they are imported before a program is loaded.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch._inductor
from torch import fx
from torch.utils import _pytree

from compilegate.observe import error_text, failures, nested
from compilegate.observe.capture import compiling
from compilegate.observe.model.calls import input_tensors
from compilegate.observe.practices.fresh_process import announce, answer_in, job_in
from compilegate.zoo.example import Call

#: What a user calls to load a program from a file.
LOADERS: Mapping[str, Callable[[Path], Callable[..., Any]]] = {
    "torch.export.load": lambda file: torch.export.load(file).module(),
    "torch._inductor.aoti_load_package": lambda file: torch._inductor.aoti_load_package(str(file)),
    "torch.jit.load": torch.jit.load,
}


def main(folder: Path) -> None:
    """Load the programs of a job, and make its calls with each of them.

    The job has ``programs``: the file of each by its loader, ``calls``: their ``args`` and
    ``kwargs``, ``modules``: the names of those to import, and ``tf32``. The answer has what each
    call of each program returned, up to the first that raises.
    """
    job = job_in(folder)
    compiling.allow_tf32(job["tf32"])
    torch.set_grad_enabled(False)
    for module in job["modules"]:
        with contextlib.suppress(ImportError):  # the loader then says what it misses
            importlib.import_module(module)
    # A program may write to its arguments: each has its own.
    answer_in(
        folder,
        {
            loader: [*_answers(loader, folder / file, job_in(folder)["calls"])]
            for loader, file in job["programs"].items()
        },
    )


def _answers(
    loader: str, file: Path, calls: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the answer of each call, or the error that ends them.

    Each call is the first of a program that was loaded for it, since a call may update buffers.
    """
    announce(f"{loader}, then {len(calls)} calls")
    try:
        for call in calls:
            yield _answer(LOADERS[loader](file), call["args"], call["kwargs"])
    except Exception as error:
        yield {
            "raised": error_text.with_kind(error),
            "traceback": failures.traceback_of(error),
        }


def _answer(
    program: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Make a call twice, and return the answers. The second one depends on what the first kept."""
    again = copy.deepcopy((args, kwargs))
    return {**_made(program, args, kwargs), "again": _made(program, *again)}


def _made(
    program: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Make a call, and return its output, its arguments afterwards, and the program's buffers."""
    output = program(*args, **kwargs)
    buffers = dict(program.named_buffers()) if isinstance(program, fx.GraphModule) else {}
    made = {
        "leaves": _pytree.tree_leaves(output),
        "nesting": nested.structure(output),
        "inputs": input_tensors(Call(args, kwargs)),
        "buffers": {name: buffer.detach() for name, buffer in buffers.items()},
    }
    return copy.deepcopy(made)  # the next call may write to what this one returned
