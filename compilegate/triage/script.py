"""The script that shows a culprit with torch alone: it exits with 1 where compiled code is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
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
    lines = [
        *builder_lines(program),
        "",
        "",
        "def recipe():",
        "    return Example(Program(), inputs=lambda: inputs(6))",
    ]
    sizes: list[Mapping[str, int]] = [{}, {}]
    train = program.phase == "train"
    return _script(lines, case, title, VALUES, sizes, train=train, backend=program.backend)


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
    if mode := _MODES.get(case.mode):
        options["mode"] = mode
    autocast, cast = _AUTOCAST.get(case.precision), _CAST.get(case.weights)
    imports = ["import sys", "", "import torch", "from torch import nn"]
    if re.search(r"\bF\.", body):
        imports.append("from torch.nn import functional as F")
    head = [
        f'"""{plain(title)}"""',
        "",
        *imports,
        "from torch.utils._pytree import tree_leaves, tree_map",
        "",
        f"BACKEND = sys.argv[1] if sys.argv[1:] else {backend!r}  # off: nothing is compiled",
        f"SEED, TRAIN, DEVICE, OPTIONS = {seed}, {train}, {case.device!r}, {options}",
        f"SIZES = {[dict(each) for each in sizes]}",
    ]
    if check == RECOMPILES:
        head.append("torch._dynamo.config.error_on_recompile = True")
    around = f", torch.autocast(DEVICE, {autocast}, enabled=dtype is None)" if autocast else ""
    harness = _HARNESS.replace("$AROUND", around)
    harness = harness.replace("$CAST", cast or "None")
    return "\n".join([*head, "", "", _SHIM, "", body, "", harness])


def plain(line: str) -> str:
    """Return a line that may stand in a docstring."""
    return " ".join(line.replace("\\", "/").replace('"', "'").split())


_SHIM = '''\
class Example:
    def __init__(self, module, inputs=(), kwargs=None, calls=(), **_):
        self.module, self.inputs, self.kwargs, self.calls = module, inputs, kwargs or {}, calls


class Call:
    def __init__(self, args=(), kwargs=None, before=None, after=None):
        self.args, self.kwargs, self.before, self.after = args, kwargs or {}, before, after

'''

_HARNESS = '''
def results(compiled=False, dtype=None):
    """Return what each call computes, by name: outputs, gradients, inputs and buffers."""
    torch.manual_seed(SEED)
    example, found, dtype_of = recipe(), {}, dtype or $CAST
    module = example.module
    if isinstance(module, nn.Module):
        module.train(TRAIN).to(DEVICE, dtype_of)
    run = torch.compile(module, backend=BACKEND, **OPTIONS) if compiled else module
    for n in range(len(example.calls or SIZES)):
        torch.manual_seed(SEED + 1 + n)
        made = [g(**SIZES[n]) if callable(g) else g for g in (example.inputs, example.kwargs)]
        call = example.calls[n] if example.calls else Call(*made)
        cast = lambda t: t.to(DEVICE, dtype_of if t.is_floating_point() else None)
        args, kwargs = tree_map(lambda t: cast(t) if isinstance(t, torch.Tensor) else t,
                                (call.args, call.kwargs))
        given = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        leaves = [t.requires_grad_() for t in given if TRAIN and t.is_floating_point() and t.is_leaf]
        leaves += module.parameters() if isinstance(module, nn.Module) else []
        if call.before:
            call.before(*[module][: call.before.__code__.co_argcount])
        try:
            with torch.set_grad_enabled(TRAIN)$AROUND:
                out = run(*args, **kwargs)
            outs = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor)]
            roots = [t for t in outs if t.requires_grad]
            if TRAIN and roots:
                torch.autograd.backward(roots, [torch.randn(t.shape).to(t) for t in roots])
        except Exception as error:
            print(f"call {n} raises {type(error).__name__}: {str(error)[:800]}")
            found[f"call {n}"] = ("raises", None)
            continue
        if call.after:
            call.after(*[out][: call.after.__code__.co_argcount])
        held = [*module.buffers()] if isinstance(module, nn.Module) else []
        for kind, all in (("output", outs), ("input", given), ("buffer", held),
                          ("gradient", [t.grad for t in leaves if TRAIN and t.grad is not None])):
            for i, t in enumerate(all):
                strides = [s for s, size in zip(t.stride(), t.shape) if size > 1]
                alias = [j for j, g in enumerate(given) if g.data_ptr() == t.data_ptr()]
                what = f"{t.dtype}, {tuple(t.shape)}, strides {strides}, memory of inputs {alias}"
                found[f"call {n}, {kind} {i}"] = (what, t.detach().clone())
    return found


def is_far(compiled, eager, exact):
    """Whether compiled code is further from float64 than rounding and eager's error explain."""
    if not eager.is_floating_point():
        return not torch.equal(compiled, eager)
    eps, exact = torch.finfo(eager.dtype).eps, eager if exact is None else exact
    if any(not torch.equal(f(compiled), f(eager)) for f in (torch.isnan, torch.isposinf)):
        return True
    ours, theirs, truth = (t.double().nan_to_num() for t in (compiled, eager, exact))
    bound = 64 * eps * truth.square().mean().sqrt() + 4 * (theirs - truth).abs().max()
    return bool(((ours - truth).abs() > bound).any())


eager = results()
exact = results(dtype=torch.double)
wrong = 0
for name, (what, value) in results(compiled=BACKEND != "off").items():
    before, theirs = eager.get(name, ("nothing", None))
    truth = exact.get(name, ("", None))[1]
    truth = truth if value is not None and truth is not None and truth.shape == value.shape else None
    if what != before or (value is not None and value.numel() and is_far(value, theirs, truth)):
        wrong += 1
        print(f"{name}:\\n  eager    {before} {theirs}\\n  compiled {what} {value}")
        print(f"  float64  {truth}")
print("compiled code is", f"WRONG in {wrong} results" if wrong else "right", "with", BACKEND)
sys.exit(bool(wrong))
'''
