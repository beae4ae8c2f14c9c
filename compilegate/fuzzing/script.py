"""The script of a finding, which runs with torch alone, and its entry for the zoo of known bugs."""

from __future__ import annotations

import re

from compilegate.fuzzing.outcome import Symptom
from compilegate.fuzzing.program import SIZES, Program, builder_lines, zoo_text
from compilegate.judging.toml_values import toml

_STAGES = {
    "eager": "Dynamo",
    "aot_eager": "AOTAutograd",
    "aot_eager_decomp_partition": "decompositions or partitioning",
    "inductor": "Inductor",
}
_DYNAMIC = {"static": "False", "auto": "None", "dynamic": "True", "marked": "None"}

_CHECK = '''
def run(module, n, double=False):
    torch.manual_seed(SEED + n)
    given = [moved(made) for made in inputs(n)]
    given = [made.double() if double and made.is_floating_point() else made for made in given]
    if TRAIN:
        given = [g.detach().requires_grad_(g.is_floating_point()) for g in given]
    if MARK and module is not None and not double:
        for index, dims in DIMS.items():
            for dim in dims:
                torch._dynamo.maybe_mark_dynamic(given[index], dim)
    with torch.set_grad_enabled(TRAIN):
        made = module(*given)
    found = list(made) if isinstance(made, tuple) else [made]
    shared = sharing([*found, *given, *module.buffers()])
    if TRAIN:
        roots = [each for each in found if each.requires_grad]
        torch.manual_seed(SEED)
        starts = [torch.randn(each.shape).to(each) for each in roots]
        if roots:
            torch.autograd.backward(roots, starts)
        held = module._orig_mod if hasattr(module, "_orig_mod") else module
        found += [leaf.grad for leaf in (*given, *held.parameters())]
    return found + given + list(module.buffers()), shared


def moved(tensor):
    """The tensor on DEVICE, with its strides, which a copy would lose."""
    if DEVICE == "cpu":
        return tensor
    size = tensor.untyped_storage().nbytes() // tensor.element_size()
    memory = tensor.as_strided((size,), (1,), 0).to(DEVICE).untyped_storage()
    layout = tensor.storage_offset(), tensor.shape, tensor.stride()
    return torch.empty(0, dtype=tensor.dtype, device=DEVICE).set_(memory, *layout)


def sharing(tensors):
    """Which tensors share memory: outputs, inputs, buffers."""
    places = [t.untyped_storage().data_ptr() if t.numel() else 0 for t in tensors]
    pairs = itertools.combinations(range(len(places)), 2)
    return [(i, j) for i, j in pairs if places[i] == places[j] != 0]


def build(double=False):
    torch.manual_seed(SEED)
    module = Program().to(DEVICE).train(TRAIN)
    return module.double() if double else module


def far(ours, theirs, truth):
    """Whether compiled code differs from eager by more than rounding explains."""
    if ours is None or theirs is None:
        return ours is not theirs
    if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        return True
    strides = [(t.stride(i), t.size(i)) for t in (ours, theirs) for i in range(t.dim())]
    middle = len(strides) // 2
    if any(a != b for a, b in zip(strides[:middle], strides[middle:]) if a[1] > 1):
        return True
    if not ours.is_floating_point():
        return not torch.equal(ours, theirs)
    if any(not torch.equal(f(ours), f(theirs)) for f in (torch.isnan, torch.isposinf)):
        return True
    eager, compiled = (t.detach().double().nan_to_num() for t in (ours, theirs))
    exact = eager if truth is None else truth.detach().double().nan_to_num()
    if exact.shape != eager.shape:
        exact = eager
    scale = exact.square().mean().sqrt()
    rounding = 64 * torch.finfo(ours.dtype).eps * scale + 4 * (eager - exact).abs().max()
    return bool(((compiled - exact).abs() > rounding).any())


def main():
    eager, compiled, wrong = build(), build(), False
    compiled = torch.compile(compiled, backend=BACKEND, dynamic=DYNAMIC)
    try:
        exact = build(double=True)
    except RuntimeError:
        exact = None
    for n in CALLS:
        ours, shared = run(eager, n)
        try:
            theirs, shared_too = run(compiled, n)
        except Exception as error:
            print(f"eager returns, compiled raises {type(error).__name__}: {str(error)[:2000]}")
            return 1
        try:
            truths, _ = run(exact, n, double=True)
        except Exception:
            truths = [None] * len(ours)
        for index, three in enumerate(zip(ours, theirs, truths)):
            if far(*three):
                wrong = True
                print(f"result {index} with n = {n}:")
                for name, value in zip(("eager", "compiled", "float64"), three):
                    strides = value.stride() if value is not None else None
                    print(f"  {name:<9}{value}, strides {strides}")
        if shared != shared_too:
            wrong = True
            print(f"results that share memory with n = {n}: eager {shared}, compiled {shared_too}")
    print("compiled code is", "WRONG" if wrong else "right")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
'''


def stage_named(backend: str) -> str:
    """Return the part of the compiler that the last backend of the ladder adds."""
    return _STAGES[backend]


def script_text(program: Program, line: str, seed: int) -> str:
    """Return a script that shows the finding with torch alone, and exits with 1.

    Args:
        program: The reduced program.
        line: The complaint.
        seed: The seed of its weights and inputs.
    """
    sizes = (SIZES[0], SIZES[0], SIZES[1], SIZES[0]) if program.varies else (SIZES[0],) * 2
    dims = {i: v.dims for i, v in enumerate(program.inputs) if v.dims and program.varies}
    lines = [
        f'"""{program.name}: {_plain(line)}"""',
        "",
        "import itertools",
        "import sys",
        "",
        "import torch",
        "from torch import nn",
        "from torch.nn import functional as F",
        "",
        f'DEVICE, BACKEND = "{program.device}", "{program.backend}"',
        f"SEED, DYNAMIC = {seed}, {_DYNAMIC[program.dynamic]}",
        f"TRAIN, MARK = {program.phase == 'train'}, {program.dynamic == 'marked'}",
        f"CALLS, DIMS = {sizes}, {dims}",
        "",
        "",
        *builder_lines(program),
        "",
    ]
    return "\n".join(lines) + _CHECK


def _plain(line: str) -> str:
    """Return a line that may stand in a docstring."""
    return " ".join(line.replace("\\", "/").replace('"', "'").split())


def entry_text(program: Program, symptom: Symptom) -> str:
    """Return a file for ``--zoo``, with the entry for a budgets file as a comment."""
    entry = [
        "# [[expected_failure]]",
        f"# model = {toml(program.name)}",
        f"# {_fails_in(symptom)}",
        f"# reason = {toml(_plain(symptom.line)[:90])}",
        "",
    ]
    return "\n".join(entry) + zoo_text([program])


def _fails_in(symptom: Symptom) -> str:
    """Return the key of an expected failure, and what it names: an aspect or a stage."""
    match symptom.kind:
        case "gradients":
            return 'aspect = "gradients"'
        case "state":
            return 'aspect = "side_effects"'
        case "crash" | "hang":
            return 'stage = "crash"'
        case "raises":
            stage = re.search(r" in stage (\w+)", symptom.line)
            return f"stage = {toml(stage[1] if stage else 'compile')}"
        case _:
            return 'aspect = "forward"'
