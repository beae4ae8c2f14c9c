"""Python around tensors: branches on sizes, loops, contexts, transforms, own gradients."""

from __future__ import annotations

from compilegate.fuzzing.operators.registry import operator
from compilegate.fuzzing.scope import Scope


@operator("control", 1.5)
def branch(s: Scope) -> object:
    """Branch on a size."""
    x = s.floating(least=1)
    if x is None or (dim := s.dimension(x)) is None:
        return None
    limit = s.rng.choice((4, 5, 6))
    text = (
        f"if {x.name}.shape[{dim}] > {limit}:\n    {{}} = {x.name} * 2\n"
        f"else:\n    {{}} = {x.name} - {x.name}.shape[{dim}]"
    )
    return s.make("branch on a size", text, [x], x.shape, x.dtype, whole=True)


@operator("control", 1.5)
def condition(s: Scope) -> object:
    """Branch on a value, with torch.cond."""
    x = s.exact(least=1)
    if x is None or (s.trains and s.chance(0.7)):
        return None
    one, other = s.rng.choice(
        (("sin()", "cos()"), ("exp().sin()", "abs()"), ("flip(0)", "clone()"))
    )
    text = f"torch.cond({x.name}.sum() > 0, lambda a: a.{one}, lambda a: a.{other}, ({x.name},))"
    return s.make("cond", text, [x], x.shape, x.dtype)


@operator("control", 1.5)
def loop(s: Scope) -> object:
    """Sum slices in a Python loop."""
    x = s.floating(least=1)
    if x is None or min(x.shape[0]) < 2:
        return None
    text = (
        f"{{}} = {x.name}[0] * 0\nfor i in range(2):\n    {{}} = {{}} * 0.5 + {x.name}[i] * (i + 1)"
    )
    return s.make("loop", text, [x], x.shape[1:], x.dtype, whole=True)


@operator("control", 1)
def sizes(s: Scope) -> object:
    """Compute with sizes."""
    x = s.floating(least=1)
    if x is None or (dim := s.dimension(x)) is None:
        return None
    size, there = f"{x.name}.shape[{dim}]", f"device={x.name}.device"
    text = s.rng.choice(
        (
            f"{x.name} * ({size} // 2) / ({size} % 3 + 1)",
            f"{x.name} + torch.arange({size}, dtype={x.name}.dtype, {there}).sum()",
            f"{x.name} / {size} ** 0.5",
            f"{x.name} * max({size} - 5, 1)",
            f"{x.name} + torch.full((), {size} * 1.5)",
            f"{x.name} - torch.linspace(0, 1, {size}, {there}).mean()",
        )
    )
    rough = x.rough
    if x.dtype != "float32":
        return None
    return s.make("size arithmetic", text, [x], x.shape, x.dtype, rough=rough)


@operator("control", 1.2)
def without_gradients(s: Scope) -> object:
    """Compute without gradients."""
    x = s.floating()
    if x is None:
        return None
    text = f"with torch.no_grad():\n    {{}} = {x.name}.cos() * 2"
    return s.make("no_grad", text, [x], x.shape, x.dtype, whole=True)


@operator("control", 1.2)
def own_gradient(s: Scope) -> object:
    """Apply a function with its own backward."""
    x = s.exact()
    if x is None:
        return None
    name = s.rng.choice(("Halved", "Straight"))
    return s.make(name, f"{name}.apply({x.name})", [x], x.shape, x.dtype, needs=(name,))


@operator("control", 1.2)
def transformed(s: Scope) -> object:
    """Apply a transform of functions."""
    x = s.pick(lambda one: one.dtype == "float32" and one.dim >= 2)
    if x is None:
        return None
    name = x.name
    text, shape = s.rng.choice(
        (
            (f"torch.vmap(lambda a: a.sin() * a.mean())({name})", x.shape),
            (f"torch.func.grad(lambda a: a.sin().sum())({name})", x.shape),
            (f"torch.vmap(lambda a: a.cumsum(0), in_dims=1, out_dims=1)({name})", x.shape),
            (f"torch.func.jvp(torch.tanh, ({name},), ({name} * 0 + 1,))[1]", x.shape),
        )
    )
    return s.make("func", text, [x], shape, x.dtype)


@operator("control", 1)
def autocast(s: Scope) -> object:
    """Multiply in bfloat16 by autocast."""
    x = s.pick(lambda one: one.dtype == "float32" and one.dim == 2)
    if x is None:
        return None
    name = x.name
    within = f"with torch.autocast({name}.device.type, torch.bfloat16):"
    text = f"{within}\n    {{}} = {name} @ {name}.mT"
    shape = (x.shape[0], x.shape[0])
    return s.make("autocast", text, [x], shape, "bfloat16", whole=True)


@operator("control", 1)
def recomputed(s: Scope) -> object:
    """Compute under activation checkpointing."""
    x = s.floating()
    if x is None:
        return None
    text = (
        "torch.utils.checkpoint.checkpoint("
        f"lambda a: a.sin().exp() * a, {x.name}, use_reentrant=False)"
    )
    return s.make("checkpoint", text, [x], x.shape, x.dtype)
