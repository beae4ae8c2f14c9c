"""Indexing, gathering, scattering, embeddings."""

from __future__ import annotations

from compilegate.fuzzing.operators.registry import operator
from compilegate.fuzzing.scope import Scope, Shape, Size, Variable, constant


def _numbers(s: Scope, length: int, below: int, *, distinct: bool = False) -> list[int]:
    """Return indices below a size, some of them from the end."""
    if distinct:
        return s.rng.sample(range(below), min(length, below))
    return [
        s.rng.randrange(-below, below) if s.chance(0.2) else s.rng.randrange(below)
        for _ in range(length)
    ]


def _index(of: Variable, numbers: list[int]) -> str:
    """Return a constant index into a variable as text."""
    return f"torch.tensor({numbers}, device={of.name}.device)"


def _replaced(shape: Shape, dim: int, *sizes: Size) -> Shape:
    return (*shape[:dim], *sizes, *shape[dim + 1 :])


def _any(s: Scope) -> tuple[Variable, int, int] | None:
    """Return a tensor, one of its dimensions, and the least size of it."""
    x = s.pick(lambda one: one.dim >= 1)
    if x is None or (dim := s.dimension(x)) is None:
        return None
    return x, dim, min(x.shape[dim])


@operator("indexing", 2)
def rows(s: Scope) -> object:
    """Index a dimension by constants."""
    if (found := _any(s)) is None:
        return None
    x, dim, least = found
    length = s.rng.choice((1, 2, 3, 5))
    numbers = _numbers(s, length, least)
    index = _index(x, numbers)
    how = s.rng.choice(("index", "index", "index_select", "list", "two"))
    shape = _replaced(x.shape, dim, constant(length))
    if how == "index_select":
        text = f"{x.name}.index_select({dim}, {index} % {least})"
    elif how == "list":
        text = f"{x.name}[{':, ' * dim}{numbers}]"
    elif how == "two" and dim + 1 < x.dim:
        other = _index(x, _numbers(s, length, min(x.shape[dim + 1])))
        text = f"{x.name}[{':, ' * dim}{index}, {other}]"
        shape = (*x.shape[:dim], constant(length), *x.shape[dim + 2 :])
    else:
        text = f"{x.name}[{':, ' * dim}{index}]"
    return s.make("index", text, [x], shape, x.dtype)


@operator("indexing", 2)
def gathered(s: Scope) -> object:
    """Gather along a dimension, by indices that are computed."""
    if (found := _any(s)) is None:
        return None
    x, dim, least = found
    index = s.pick(
        lambda one: (
            one.dtype in ("int64", "int32", "int8")
            and one.dim == x.dim
            and all(
                max(a) <= min(b)
                for a, b in zip(_replaced(one.shape, dim), _replaced(x.shape, dim), strict=True)
            )
        )
    )
    if index is None:
        text = f"{x.name}.argsort({dim})"
        if x.rough or x.dtype == "bool":
            return None
        text = f"{x.name}.gather({dim}, {text})"
        return s.make("gather argsort", text, [x], x.shape, x.dtype)
    which = f"({index.name}.long() % {least})"
    if s.chance(0.3) and _replaced(index.shape, dim) == _replaced(x.shape, dim):
        text = f"torch.take_along_dim({x.name}, {which}, {dim})"
        return s.make("take_along_dim", text, [x, index], index.shape, x.dtype)
    text = f"{x.name}.gather({s.signed(dim, x)}, {which})"
    return s.make("gather", text, [x, index], index.shape, x.dtype)


@operator("indexing", 1)
def filled(s: Scope) -> object:
    """Fill rows at constant indices, or write one row, into a copy."""
    if (found := _any(s)) is None:
        return None
    x, dim, least = found
    row = s.pick(lambda one: one.shape == _replaced(x.shape, dim) and one.dtype == x.dtype)
    if row is not None and s.chance(0.5):
        text = f"{x.name}.select_scatter({row.name}, {dim}, {s.rng.choice((0, -1, least - 1))})"
        return s.make("select_scatter", text, [x, row], x.shape, x.dtype)
    index = _index(x, _numbers(s, s.rng.choice((1, 2)), least, distinct=True))
    text = f"{x.name}.index_fill({dim}, {index}, 1)"
    return s.make("index_fill", text, [x], x.shape, x.dtype)


@operator("indexing", 1.5)
def added(s: Scope) -> object:
    """Write rows at constant indices, into a copy."""
    if (found := _any(s)) is None or found[0].dtype == "bool":
        return None
    x, dim, least = found
    length = min(s.rng.choice((1, 2, 3)), least)
    shape = _replaced(x.shape, dim, constant(length))
    source = s.pick(lambda one: one.shape == shape and one.dtype == x.dtype)
    part = source.name if source else f"({x.name}.narrow({dim}, 0, {length}) * 2)"
    how = s.rng.choice(("index_add", "index_copy", "index_reduce"))
    index = _index(x, _numbers(s, length, least, distinct=how != "index_add"))
    index = f"{index} % {least}"
    more = s.rng.choice(("", ", alpha=2")) if how == "index_add" else ""
    if how == "index_reduce":
        kind = s.rng.choice(("amax", "amin", "mean" if x.is_float else "amax"))
        more = f', "{kind}", include_self={s.chance(0.5)}'
    text = f"{x.name}.{how}({dim}, {index}, {part}{more})"
    return s.make(how, text, [x, *([source] if source else [])], x.shape, x.dtype)


@operator("indexing", 2)
def scattered(s: Scope) -> object:
    """Scatter along a dimension, into a copy."""
    if (found := _any(s)) is None:
        return None
    x, dim, least = found
    source = s.pick(
        lambda one: (
            one.dtype == x.dtype
            and one.dim == x.dim
            and all(
                max(a) <= min(b)
                for a, b in zip(_replaced(one.shape, dim), _replaced(x.shape, dim), strict=True)
            )
        )
    )
    if source is None or x.dtype == "bool":
        return None
    how = s.rng.choice(("scatter_add", "scatter_reduce", "scatter_reduce"))
    part = source.name
    each = " * ".join(f"({part}.shape[{i}])" for i in range(source.dim))
    count = f"torch.arange({each}, device={part}.device)"
    index = f"(({count} * 7) % {least}).reshape({part}.shape)"
    more = ""
    if how == "scatter_reduce":
        kind = s.rng.choice(("sum", "amax", "amin", "mean", "prod"))
        if kind == "mean" and not x.is_float:
            return None
        more = f', "{kind}", include_self={s.chance(0.5)}'
    text = f"{x.name}.{how}({dim}, {index}, {source.name}{more})"
    return s.make(how + more[:6], text, [x, source], x.shape, x.dtype)


@operator("indexing", 1.5)
def placed(s: Scope) -> object:
    """Write a part into a copy: slice_scatter, diagonal_scatter, index_put."""
    if (found := _any(s)) is None:
        return None
    x, dim, least = found
    if s.chance(0.5) and least >= 3:
        sizes = tuple(-(-(one - 1) // 2) for one in x.shape[dim])
        shape = _replaced(x.shape, dim, sizes)
        part = s.pick(lambda one: one.shape == shape and one.dtype == x.dtype)
        source = part.name if part else f"{x.name}[{':, ' * dim}:-1:2] * 2"
        if part is None and x.dtype == "bool":
            return None
        text = f"{x.name}.slice_scatter({source}, {dim}, 1, None, 2)"
        if part is None:
            source = f"{x.name}.narrow({dim}, 0, {x.name}[{':, ' * dim}1::2].shape[{dim}]) * 2"
            text = f"{x.name}.slice_scatter({source}, {dim}, 1, None, 2)"
        return s.make("slice_scatter", text, [x, *([part] if part else [])], x.shape, x.dtype)
    index = _index(x, _numbers(s, s.rng.choice((2, 3)), min(x.shape[0])))
    accumulate = s.chance(0.6)
    if not x.is_float or not accumulate:
        return None
    number = s.rng.choice(("0.5", "-2.0"))
    value = f"torch.tensor({number}, dtype={x.name}.dtype, device={x.name}.device)"
    text = f"{x.name}.index_put(({index},), {value}, accumulate=True)"
    return s.make("index_put accumulate", text, [x], x.shape, x.dtype)


@operator("indexing", 1.5)
def embedded(s: Scope) -> object:
    """Look up rows of a parameter."""
    index = s.pick(lambda one: one.dtype in ("int64", "int32") and one.dim <= 2)
    if index is None:
        return None
    width = constant(s.rng.choice((3, 8, 16)))
    table = s.parameter(constant(7), width, scale=1.0)
    if table is None:
        return None
    how = s.rng.choice(("", "", ", padding_idx=2", ", padding_idx=-1"))
    text = f"F.embedding({index.name} % 7, {table.name}{how})"
    if index.dim == 2 and s.chance(0.3):
        mode = s.rng.choice(("sum", "mean", "max"))
        text = f'F.embedding_bag({index.name} % 7, {table.name}, mode="{mode}")'
        shape = (index.shape[0], width)
        return s.make(f"embedding_bag {mode}", text, [index, table], shape, "float32")
    return s.make("embedding", text, [index, table], (*index.shape, width), "float32")


@operator("indexing", 1)
def searched(s: Scope) -> object:
    """Find places among sorted numbers, or make them one-hot."""
    if s.chance(0.4):
        index = s.pick(lambda one: one.dtype == "int64" and one.dim <= 3)
        if index is None:
            return None
        text = f"F.one_hot({index.name} % 4, 4)"
        return s.make("one_hot", text, [index], (*index.shape, constant(4)), "int64")
    x = s.exact()
    if x is None:
        return None
    right = s.rng.choice(("", ", right=True"))
    bounds = f"torch.tensor([-1.0, -0.2, 0.3, 1.5], device={x.name}.device)"
    text = f"torch.bucketize({x.name}, {bounds}{right})"
    if x.dtype != "float32":
        return None
    return s.make("bucketize", text, [x], x.shape, "int64")


@operator("indexing", 1)
def masked(s: Scope) -> object:
    """Use a mask or positions of a whole tensor."""
    x = s.floating(least=1)
    if x is None:
        return None
    least = 1
    for size in x.shape:
        least *= min(size)
    if s.chance(0.5):
        text = f"torch.take({x.name}, {_index(x, _numbers(s, 4, least))})"
        return s.make("take", text, [x], (constant(4),), x.dtype)
    if x.rough:
        return None
    text = f"{x.name}.masked_scatter({x.name} > 0, {x.name}.flip(0))"
    return s.make("masked_scatter", text, [x], x.shape, x.dtype)
