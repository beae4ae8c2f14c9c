"""Reductions, scans, norms, sorting."""

from __future__ import annotations

from compilegate.fuzzing.operators.elementwise import named
from compilegate.fuzzing.operators.registry import operator
from compilegate.fuzzing.scope import Scope, Variable, constant

_FLOAT = (
    *("{x}.sum({d})", "{x}.mean({d})", "{x}.amax({d})", "{x}.amin({d})", "{x}.logsumexp({d})"),
    *("{x}.norm(dim={d})", "torch.linalg.vector_norm({x}, 1, {d})", "{x}.nansum({d})"),
    *("torch.linalg.vector_norm({x}, float('inf'), {d})", "{x}.nanmean({d})"),
)
_EXACT = (
    *(
        "{x}.max({d})[0]",
        "{x}.min({d}).values",
        "{x}.median({d}).values",
        "{x}.kthvalue(1, {d})[0]",
    ),
    *("{x}.prod({d})", "{x}.nanmedian({d})[0]", "torch.aminmax({x}, dim={d})[1]"),
)
#: They divide by the number of elements less one.
_SPREAD = ("{x}.var({d})", "{x}.std({d})", "torch.var_mean({x}, {d}, correction=0)[1]")
_SCANS = (
    *("{x}.cumsum({d})", "{x}.softmax({d})", "{x}.log_softmax({d})", "F.normalize({x}, dim={d})"),
    *("F.softmin({x}, dim={d})", "{x}.logcumsumexp({d})", "({x}.tanh() * 1.2).cumprod({d})"),
)
_EXACT_SCANS = (
    *("{x}.sort({d})[0]", "{x}.cummax({d})[0]", "{x}.sort({d}, descending=True).values"),
    *("{x}.cummin({d}).values", "torch.msort({x})", "{x}.sort(dim={d}, stable=True)[1]"),
    *("{x}.argsort({d})", "{x}.cummax({d})[1]", "{x}.renorm(2, {d}, 1.5)"),
)
_WHOLE = ("{x}.sum()", "{x}.mean()", "{x}.max()", "{x}.norm()", "{x}.min()", "{x}.logsumexp(0)")


def _without(x: Variable, dim: int, *, keeps: bool) -> tuple[tuple[int, ...], ...]:
    rest = x.shape[dim + 1 :]
    return (*x.shape[:dim], constant(1), *rest) if keeps else (*x.shape[:dim], *rest)


@operator("reductions", 4)
def reduce_one(s: Scope) -> object:
    """Reduce one dimension."""
    exact = s.chance(0.4)
    x = s.exact(least=1) if exact else s.floating(least=1)
    if x is None or (dim := s.dimension(x)) is None:
        return None
    text = s.rng.choice(_EXACT if exact else _FLOAT)
    if exact and s.chance(0.4):
        if min(x.shape[dim]) < 2:
            return None
        text = s.rng.choice(_SPREAD)
    keeps = s.chance(0.3) and text.endswith("({d})")
    text = text.replace("({d})", "({d}, keepdim=True)") if keeps else text
    shape = _without(x, dim, keeps=keeps)
    return s.make(named(text), text.format(x=x.name, d=s.signed(dim, x)), [x], shape, x.dtype)


@operator("reductions", 1)
def reduce_several(s: Scope) -> object:
    """Reduce two dimensions, or all."""
    x = s.floating(least=1)
    if x is None:
        return None
    if x.dim < 2 or s.chance(0.4):
        text = s.rng.choice(_WHOLE[:-1])
        if x.rough and text[4:7] in ("max", "min"):
            return None
        return s.make(named(text), text.format(x=x.name), [x], (), x.dtype)
    dims = sorted(s.rng.sample(range(x.dim), 2))
    shape = tuple(size for index, size in enumerate(x.shape) if index not in dims)
    text = s.rng.choice(("{x}.sum({d})", "{x}.mean({d})", "{x}.amax({d})", "{x}.logsumexp({d})"))
    return s.make(named(text), text.format(x=x.name, d=tuple(dims)), [x], shape, x.dtype)


@operator("reductions", 1.5)
def reduce_integers(s: Scope) -> object:
    """Reduce integers or booleans."""
    x = s.pick(lambda one: not one.is_float and one.dim > 0)
    if x is None or (dim := s.dimension(x)) is None:
        return None
    texts = {
        "{x}.sum({d})": "int64",
        "{x}.amax({d})": x.dtype,
        "{x}.amin({d})": x.dtype,
        "{x}.any({d})": "uint8" if x.dtype == "uint8" else "bool",
        "{x}.all({d})": "uint8" if x.dtype == "uint8" else "bool",
        "{x}.count_nonzero({d})": "int64",
        "({x} != 0).sum({d}, dtype=torch.int32)": "int32",
    }
    if x.is_integer:
        texts |= {"{x}.prod({d})": "int64", "{x}.max({d})[0]": x.dtype}
    text = s.rng.choice([*texts])
    shape = _without(x, dim, keeps=False)
    return s.make(named(text), text.format(x=x.name, d=s.signed(dim, x)), [x], shape, texts[text])


@operator("reductions", 1)
def positions(s: Scope) -> object:
    """Find the position of an extreme."""
    x = s.exact(least=1)
    if x is None or (dim := s.dimension(x)) is None:
        return None
    text = s.rng.choice(("{x}.argmax({d})", "{x}.argmin({d})", "{x}.max({d})[1]"))
    shape = _without(x, dim, keeps=False)
    return s.make(named(text), text.format(x=x.name, d=s.signed(dim, x)), [x], shape, "int64")


@operator("reductions", 2.5)
def scan(s: Scope) -> object:
    """Keep the shape: scans, softmax, sorting."""
    exact = s.chance(0.4)
    x = s.exact(least=1) if exact else s.floating(least=1)
    if x is None or (dim := s.dimension(x)) is None:
        return None
    text = s.rng.choice(_EXACT_SCANS if exact else _SCANS)
    if "renorm" in text and x.dim < 2:
        return None
    is_index = text.endswith("[1]") or "argsort" in text
    dtype = "int64" if is_index else x.dtype
    return s.make(named(text), text.format(x=x.name, d=s.signed(dim, x)), [x], x.shape, dtype)


@operator("reductions", 0.7)
def scan_integers(s: Scope) -> object:
    """Scan integers."""
    x = s.pick(lambda one: one.is_integer and one.dim > 0)
    if x is None or (dim := s.dimension(x)) is None:
        return None
    text, dtype = s.rng.choice(
        (
            ("{x}.cumsum({d})", "int64"),
            ("{x}.cummax({d})[0]", x.dtype),
            ("{x}.sort({d})[0]", x.dtype),
            ("{x}.cumsum({d}, dtype=torch.int32)", "int32"),
        )
    )
    return s.make(named(text), text.format(x=x.name, d=s.signed(dim, x)), [x], x.shape, dtype)


@operator("reductions", 0.8)
def leading(s: Scope) -> object:
    """Take the largest elements."""
    x = s.exact(least=1)
    if x is None or (dim := s.dimension(x)) is None or min(x.shape[dim]) < 2:
        return None
    count = s.rng.randint(1, min(x.shape[dim]))
    which = s.rng.choice(("[0]", ".indices", "[0]"))
    shape = (*x.shape[:dim], constant(count), *x.shape[dim + 1 :])
    text = f"{x.name}.topk({count}, {s.signed(dim, x)}){which}"
    dtype = "int64" if which == ".indices" else x.dtype
    return s.make(f"topk{which}", text, [x], shape, dtype)


@operator("reductions", 0.6)
def differences(s: Scope) -> object:
    """Subtract neighbours."""
    x = s.floating(least=1)
    if x is None or (dim := s.dimension(x)) is None or min(x.shape[dim]) < 2:
        return None
    shorter = tuple(size - 1 for size in x.shape[dim])
    shape = (*x.shape[:dim], shorter, *x.shape[dim + 1 :])
    return s.make("diff", f"{x.name}.diff(dim={s.signed(dim, x)})", [x], shape, x.dtype)
