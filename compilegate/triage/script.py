"""The script that shows a culprit with torch alone, and exits with 1 if compiled code is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from compilegate.fuzzing.program import Program, builder_lines
from compilegate.records.case import Case

#: What a script checks.
VALUES, BREAKS, RECOMPILES = "values", "breaks", "recompiles"

_DYNAMIC = {"static": False, "auto": None, "dynamic": True, "marked": None}
_MODES = {"reduce_overhead": "reduce-overhead", "max_autotune": "max-autotune"}
_AUTOCAST = {"bf16": "torch.bfloat16", "f16": "torch.float16"}
_CAST = {"bf16_weights": "torch.bfloat16", "f16_weights": "torch.float16"}


@dataclass(frozen=True, kw_only=True)
class Script:
    """A script, and how it was made.

    Attributes:
        text: The script.
        origin: From what it was made, in words.
        program: The reduced program; None for a script that holds the recipe of the model.
    """

    text: str
    origin: str
    program: Program | None = None


def of_program(program: Program, case: Case, title: str) -> str:
    """Return a script that shows what a reduced program does.

    Args:
        program: The program.
        case: The case that it was reduced from.
        title: What is wrong, in one line.
    """
    train, lines = program.phase == "train", [*builder_lines(program)]
    return _script(lines, case, title, VALUES, (), train=train, backend=program.backend)


def of_recipe(
    lines: Sequence[str],
    case: Case,
    title: str,
    check: str,
    sizes: Sequence[Mapping[str, int]],
    *,
    seed: int = 0,
    backend: str = "inductor",
) -> str:
    """Return a script that holds the recipe of a model.

    Args:
        lines: The lines that define the function ``recipe``.
        case: The case.
        title: What is wrong, in one line.
        check: What the script checks.
        sizes: The sizes of each call, for a recipe that lists no calls of its own.
        seed: The seed of weights and inputs.
        backend: The compiler backend.
    """
    train = case.phase == "train"
    return _script(lines, case, title, check, sizes, train=train, seed=seed, backend=backend)


def _script(
    lines: Iterable[str],
    case: Case,
    title: str,
    check: str,
    sizes: Sequence[Mapping[str, int]],
    *,
    train: bool,
    backend: str,
    seed: int = 0,
) -> str:
    body = "\n".join(lines)
    options: dict[str, object] = {"dynamic": _DYNAMIC[case.dynamic]}
    if check == BREAKS:
        options["fullgraph"] = True
    if (mode := _MODES.get(case.mode)) and backend == "inductor":
        options["mode"] = mode
    flags = {
        "train": train,
        "example": "Example(" in body,
        "calls": "Call(" in body,
        "before": "before=" in body,
        "after": "after=" in body,
        "F": bool(re.search(r"\bF\.", body)),
        "recompiles": check == RECOMPILES,
        "module": "nn.Module" in body or "Example(" in body,
    }
    autocast, cast = _AUTOCAST.get(case.precision), _CAST.get(case.weights)
    around = f", torch.autocast({case.device!r}, {autocast}, enabled=dtype is None)"
    given = {
        "$TITLE": plain(title),
        "$BACKEND": repr(backend),
        "$SEED": str(seed),
        "$OPTIONS": ", ".join(f"{name}={value!r}" for name, value in options.items()),
        "$SIZES": str([dict(each) for each in sizes]),
        "$TRAIN": str(train),
        "$AROUND": around if autocast else "",
        "$DTYPE": f"dtype or {cast}" if cast else "dtype",
        "$DEVICE": repr(case.device),
        "$BODY": body,
    }
    text = "\n".join(_chosen(_TEMPLATE, flags))
    for mark, value in given.items():
        text = text.replace(mark, value)
    return text


def _chosen(template: str, flags: Mapping[str, bool]) -> Iterator[str]:
    """Yield the lines of a template. Those that end in ``#: FLAG`` need the flag, or its lack."""
    for line in template.splitlines():
        text, mark, flag = line.partition("  #: ")
        if not mark or flags[flag.removeprefix("not ")] != flag.startswith("not "):
            yield text


def plain(line: str) -> str:
    """Return a line that may stand in a docstring."""
    return " ".join(line.replace("\\", "/").replace('"', "'").split())


_TEMPLATE = '''\
"""$TITLE"""

import sys

import torch
from torch import nn
from torch.nn import functional as F  #: F
from torch.utils._pytree import tree_leaves, tree_map

BACKEND = sys.argv[1] if sys.argv[1:] else $BACKEND  # "off" compiles nothing
SIZES = $SIZES  # of each call  #: example
torch._dynamo.config.error_on_recompile = True  #: recompiles


class Call:  #: calls
    def __init__(self, args=(), kwargs=None, before=None, after=None):  #: calls
        self.args, self.kwargs, self.before, self.after = args, kwargs or {}, before, after  #: calls
  #: calls
  #: calls
class Example:  #: example
    def __init__(self, module, inputs=(), kwargs=None, calls=(), **_):  #: example
        self.module, self.inputs, self.kwargs, self.calls = module, inputs, kwargs or {}, calls  #: example
  #: example
  #: example
$BODY


def results(backend, dtype=None):
    torch.manual_seed($SEED)
    example, found = recipe(), {}  #: example
    module = example.module  #: example
    module, found = Program(), {}  #: not example
    if isinstance(module, nn.Module):  #: example
        module.to($DEVICE, $DTYPE).train($TRAIN)  #: example
    module.to($DEVICE, $DTYPE).train($TRAIN)  #: not example
    run = module if backend == "off" else torch.compile(module, backend=backend, $OPTIONS)
    for n in range(len(example.calls or SIZES)):  #: example
    for n in range(2):  #: not example
        torch.manual_seed($SEED + 1 + n)
        args, kwargs = inputs(6), {}  #: not example
        if example.calls:  #: calls
            args, kwargs = example.calls[n].args, example.calls[n].kwargs  #: calls
        else:  #: calls
            args, kwargs = (g(**SIZES[n]) if callable(g) else g for g in (example.inputs, example.kwargs))  #: calls
        args, kwargs = (g(**SIZES[n]) if callable(g) else g for g in (example.inputs, example.kwargs))  #: not calls
        def move(t): return t.to($DEVICE, ($DTYPE) if t.is_floating_point() else None) if isinstance(t, torch.Tensor) else t
        args, kwargs = tree_map(move, (args, kwargs))
        given = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        leaves = [t.requires_grad_() for t in given if t.is_floating_point() and t.is_leaf]  #: train
        held = [*module.parameters(), *module.buffers()] if isinstance(module, nn.Module) else []
        if example.calls and example.calls[n].before:  #: before
            action = example.calls[n].before  #: before
            action(*[module][: action.__code__.co_argcount])  #: before
        try:
            with torch.set_grad_enabled($TRAIN)$AROUND:
                out = run(*args, **kwargs)
            outs = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor)]
            roots = [t for t in outs if t.requires_grad]  #: train
            torch.autograd.backward(roots, [torch.randn(t.shape).to(t) for t in roots])  #: train
        except Exception as error:
            found[f"call {n}"] = (f"raises {type(error).__name__}: {str(error)[:400]}", None)
            continue
        if example.calls and example.calls[n].after:  #: after
            action = example.calls[n].after  #: after
            action(*[out][: action.__code__.co_argcount])  #: after
        grads = [t.grad for t in (*leaves, *held) if t.grad is not None]  #: train
        for kind, all in (("output", outs), ("input", given), ("state", held)):  #: not train
        for kind, all in (("output", outs), ("input", given), ("state", held), ("gradient", grads)):  #: train
            for i, t in enumerate(all):
                strides = [stride for stride, size in zip(t.stride(), t.shape) if size > 1]
                shared = [j for j, g in enumerate(given) if g.data_ptr() == t.data_ptr()]
                what = f"{t.dtype} {[*t.shape]}, strides {strides}, memory of inputs {shared}"
                found[f"call {n}, {kind} {i}"] = (what, t.detach().clone())
    return found


def is_far(compiled, eager, exact):  # by more than rounding and eager's own error
    if not eager.is_floating_point():
        return not torch.equal(compiled, eager)
    if any(not torch.equal(f(compiled), f(eager)) for f in (torch.isnan, torch.isposinf)):
        return True
    ours, theirs, truth = (t.double().nan_to_num() for t in (compiled, eager, exact))
    rounding = 64 * torch.finfo(eager.dtype).eps * truth.square().mean().sqrt()
    return bool(((ours - truth).abs() > rounding + 4 * (theirs - truth).abs().max()).any())


eager, exact, wrong = results("off"), results("off", torch.double), 0
for name, (what, value) in results(BACKEND).items():
    before, theirs = eager.get(name, ("no such result", None))
    truth = exact.get(name, (what, None))[1]
    truth = theirs if truth is None or truth.shape != theirs.shape else truth
    if what != before or (value is not None and value.numel() and is_far(value, theirs, truth)):
        wrong += 1
        print(f"{name}\\n  eager    {before} {theirs}\\n  compiled {what} {value}\\n  float64  {truth}")
print("compiled code is", f"WRONG in {wrong} results" if wrong else "right", "with", BACKEND)
sys.exit(bool(wrong))
'''
