"""Generates programs. Program number k of seed S is the same on each machine and PyTorch."""

from __future__ import annotations

import importlib
from dataclasses import replace
from random import Random

from compilegate.fuzzing.operators.registry import GROUPS, choose
from compilegate.fuzzing.program import SIZES, Dynamic, Program, Value
from compilegate.fuzzing.scope import Scope, Size, Variable, constant, expression

for _group in GROUPS:
    importlib.import_module(f"compilegate.fuzzing.operators.{_group}")

#: The backend for a share of the programs. Inductor takes about five times as long as the other.
QUICK, WHOLE = "aot_eager_decomp_partition", "inductor"
_DTYPES = {
    "float32": 10,
    "float64": 1,
    "bfloat16": 1,
    "float16": 1,
    "int64": 2,
    "int32": 1,
    "int8": 0.7,
    "uint8": 0.5,
    "int16": 0.3,
    "bool": 0.7,
}
#: Changes of the layout of an input, and the shapes of what they are applied to.
_LAYOUTS = ("plain", "plain", "plain", "transposed", "every second", "offset", "expanded")


def generate(
    seed: int, number: int, *, inductor_share: float = 0.5, device: str = "cpu"
) -> Program:
    """Return a program.

    Args:
        seed: The seed of all programs.
        number: The number of the program.
        inductor_share: The share of programs that Inductor compiles.
        device: Where it is compiled and called.
    """
    rng = Random(f"{seed}/{number}")
    backend = WHOLE if rng.random() < inductor_share else QUICK
    trains = rng.random() < 0.3
    varies = rng.random() < 0.5
    dynamic: Dynamic = "static"
    if varies:
        kinds: tuple[Dynamic, ...] = ("static", "auto", "dynamic", "marked")
        dynamic = rng.choices(kinds, (1, 3, 3, 1))[0]
    scope = Scope(rng, varies=varies, trains=trains)
    for index in range(rng.randint(1, 3)):
        _add_input(scope, index)
    calm = rng.random() < (0.7 if trains else 0.45)
    length = rng.randint(3, 9 if backend == QUICK else 12)
    tries = 0
    while len(scope.statements) < length and tries < 10 * length:
        tries += 1
        choose(rng, calm)(scope)
    program = Program(
        name=f"fuzz.{seed}.{number}",
        values=tuple(scope.values),
        statements=tuple(scope.statements),
        returns=_returned(scope),
        phase="train" if trains else "infer",
        dynamic=dynamic,
        backend=backend,
        device=device,
        varies=varies,
    )
    program = program.pruned()
    if program.dynamic == "marked" and not any(value.dims for value in program.inputs):
        program = replace(program, dynamic="static")
    return program


def _add_input(scope: Scope, index: int) -> None:
    rng = scope.rng
    dtype = rng.choices([*_DTYPES], [*_DTYPES.values()])[0] if index else "float32"
    shape: list[Size] = [
        scope.size() for _ in range(rng.choices((0, 1, 2, 3, 4), (1, 3, 6, 4, 3))[0])
    ]
    while len(shape) > 1 and _numel(shape) > 2000:
        shape[max(range(len(shape)), key=lambda i: shape[i])] = constant(rng.choice((2, 3, 5)))
    if scope.varies and (not index or scope.chance(0.5)):
        shape = [SIZES, *shape[1:]]
        if len(shape) > 1 and scope.chance(0.2):
            shape[0], shape[-1] = shape[-1], shape[0]
    sizes = [("n" if len(set(size)) > 1 else str(size[0])) for size in shape]
    dims = tuple(i for i, size in enumerate(shape) if len(set(size)) > 1)
    layout = rng.choice(_LAYOUTS) if shape else "plain"
    plain, overlaps = expression(dtype, sizes), False
    text = plain
    if layout == "transposed" and len(shape) > 1:
        turned = expression(dtype, [sizes[-1], *sizes[1:-1], sizes[0]])
        text = _on(turned, ".transpose(0, -1)")
    elif layout == "every second":
        text = _on(expression(dtype, [*sizes[:-1], f"{sizes[-1]} * 2"]), "[..., ::2]")
    elif layout == "offset":
        text = _on(expression(dtype, [f"{sizes[0]} + 1", *sizes[1:]]), "[1:]")
    elif layout == "expanded" and len(shape) > 1 and not dims:
        text = _on(expression(dtype, ["1", *sizes[1:]]), f".expand({', '.join(sizes)})")
        overlaps = True
    elif len(shape) == 4 and scope.chance(0.3):
        text = _on(text, ".to(memory_format=torch.channels_last)")
    name = f"x{index}"
    scope.add_value(
        Value(name=name, text=text, dims=dims, plain="" if text == plain else plain),
        Variable(
            name,
            tuple(shape),
            dtype,
            rough=dtype in ("bfloat16", "float16"),
            overlaps=overlaps,
            differentiable=scope.trains and dtype in ("float32", "float64", "bfloat16", "float16"),
        ),
    )


def _on(text: str, view: str) -> str:
    return (f"({text})" if " > " in text else text) + view


def _numel(shape: list[Size]) -> int:
    total = 1
    for size in shape:
        total *= max(size)
    return total


def _returned(scope: Scope) -> tuple[str, ...]:
    """Return what the program returns: what nothing else uses, and a few others."""
    read = {name for one in scope.statements for name in one.reads}
    made = [name for one in scope.statements for name in one.makes]
    ends = [name for name in made if name not in read]
    others = [name for name in made if name in read and scope.chance(0.15)]
    found = (*ends[-5:], *others[-2:])
    return found or (scope.variables[-1].name,)
