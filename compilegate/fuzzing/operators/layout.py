"""Views and copies: order, shape, strides, joining and padding."""

from __future__ import annotations

from compilegate.fuzzing.operators.registry import operator
from compilegate.fuzzing.scope import INTEGERS, Scope, Shape, Size, constant

_BITS = {"float32": "int32", "float64": "int64", "float16": "int16", "bfloat16": "int16"}


def _swap(shape: Shape, one: int, other: int) -> Shape:
    sizes = list(shape)
    sizes[one], sizes[other] = sizes[other], sizes[one]
    return tuple(sizes)


def _with(shape: Shape, dim: int, *sizes: Size) -> Shape:
    return (*shape[:dim], *sizes, *shape[dim + 1 :])


@operator("layout", 2)
def transpose(s: Scope) -> object:
    """Swap two dimensions."""
    x = s.pick(lambda one: one.dim >= 2)
    if x is None:
        return None
    one, other = s.rng.sample(range(x.dim), 2)
    how = s.rng.choice(("transpose", "transpose", "swapaxes", "movedim"))
    if how == "movedim":
        sizes = list(x.shape)
        sizes.insert(other, sizes.pop(one))
        shape: Shape = tuple(sizes)
    else:
        shape = _swap(x.shape, one, other)
    text = f"{x.name}.{how}({s.signed(one, x)}, {s.signed(other, x)})"
    return s.make(how, text, [x], shape, x.dtype, view_of=x)


@operator("layout", 1)
def permute(s: Scope) -> object:
    """Permute all dimensions."""
    x = s.pick(lambda one: one.dim >= 3)
    if x is None:
        return None
    order = s.rng.sample(range(x.dim), x.dim)
    shape = tuple(x.shape[index] for index in order)
    return s.make("permute", f"{x.name}.permute{tuple(order)}", [x], shape, x.dtype, view_of=x)


@operator("layout", 1.5)
def merge(s: Scope) -> object:
    """Merge dimensions, or split one."""
    x = s.pick(lambda one: one.dim >= 1)
    if x is None:
        return None
    if x.dim >= 2 and s.chance(0.6):
        dim = s.rng.randrange(x.dim - 1)
        joined = tuple(a * b for a, b in zip(x.shape[dim], x.shape[dim + 1], strict=True))
        shape = (*x.shape[:dim], joined, *x.shape[dim + 2 :])
        return s.make(
            "flatten", f"{x.name}.flatten({dim}, {dim + 1})", [x], shape, x.dtype, view_of=x
        )
    found = s.dimension(x, constant_only=True)
    if found is None:
        return None
    size = x.shape[found][0]
    divisors = [part for part in (2, 3, 4, 8, 11) if size % part == 0]
    if not divisors:
        return None
    part = s.rng.choice(divisors)
    shape = _with(x.shape, found, constant(part), constant(size // part))
    text = f"{x.name}.unflatten({s.signed(found, x)}, ({part}, -1))"
    return s.make("unflatten", text, [x], shape, x.dtype, view_of=x)


@operator("layout", 1)
def reshape_whole(s: Scope) -> object:
    """Flatten everything, or reshape to two dimensions."""
    x = s.pick(lambda one: one.dim >= 2)
    if x is None:
        return None
    whole: Size = constant(1)
    for size in x.shape[:-1]:
        whole = tuple(a * b for a, b in zip(whole, size, strict=True))
    last = x.shape[-1]
    if s.chance(0.4):
        whole = tuple(a * b for a, b in zip(whole, last, strict=True))
        return s.make("reshape", f"{x.name}.reshape(-1)", [x], (whole,), x.dtype, view_of=x)
    text = f"{x.name}.reshape(-1, {x.name}.shape[-1])"
    return s.make("reshape", text, [x], (whole, last), x.dtype, view_of=x)


@operator("layout", 1.5)
def units(s: Scope) -> object:
    """Add, remove or expand a dimension of one element."""
    x = s.pick()
    if x is None:
        return None
    singles = [index for index, size in enumerate(x.shape) if set(size) == {1}]
    if singles and s.chance(0.7):
        dim = s.rng.choice(singles)
        if s.chance(0.4):
            shape = _with(x.shape, dim)
            return s.make("squeeze", f"{x.name}.squeeze({dim})", [x], shape, x.dtype, view_of=x)
        size = s.size()
        sizes = ["-1"] * x.dim
        sizes[dim] = str(size[0])
        text = f"{x.name}.expand({', '.join(sizes)})"
        return s.make(
            "expand", text, [x], _with(x.shape, dim, size), x.dtype, view_of=x, overlaps=True
        )
    dim = s.rng.randint(0, x.dim)
    shape = (*x.shape[:dim], constant(1), *x.shape[dim:])
    return s.make("unsqueeze", f"{x.name}.unsqueeze({dim})", [x], shape, x.dtype, view_of=x)


@operator("layout", 3)
def cut(s: Scope) -> object:
    """Slice a dimension, with a step or from the end, or take one index."""
    x = s.pick(lambda one: one.dim >= 1)
    if x is None or (dim := s.dimension(x)) is None:
        return None
    size = x.shape[dim]
    before = ":, " * dim
    if s.chance(0.2):
        index = s.rng.choice((0, -1, min(size) - 1))
        text = f"{x.name}[{before}{index}]"
        return s.make("select", text, [x], _with(x.shape, dim), x.dtype, view_of=x)
    if min(size) < 3:
        return None
    start = s.rng.choice((0, 1, 1, 2))
    step = s.rng.choice((1, 1, 2, 3))
    end = s.rng.choice((0, 0, 1)) if min(size) - start > 1 else 0
    sizes = tuple(-(-(one - start - end) // step) for one in size)
    if min(sizes) < 1:
        return None
    bounds = f"{start or ''}:{-end if end else ''}" + (f":{step}" if step > 1 else "")
    if step == 1 and len(set(size)) == 1 and s.chance(0.3):
        text = f"{x.name}.narrow({dim}, {start}, {sizes[0]})"
        return s.make("narrow", text, [x], _with(x.shape, dim, sizes), x.dtype, view_of=x)
    text = f"{x.name}[{before}{bounds}]"
    return s.make("slice", text, [x], _with(x.shape, dim, sizes), x.dtype, view_of=x)


@operator("layout", 1.2)
def windows(s: Scope) -> object:
    """Take windows that may overlap, a diagonal, or arbitrary strides."""
    x = s.pick(lambda one: one.dim >= 1)
    if x is None:
        return None
    if x.dim >= 2 and s.chance(0.3):
        rest = x.shape[2:]
        size = tuple(map(min, x.shape[0], x.shape[1]))
        text = f"{x.name}.diagonal(0, 0, 1)"
        return s.make("diagonal", text, [x], (*rest, size), x.dtype, view_of=x)
    found = s.dimension(x)
    if found is None or min(x.shape[found]) < 4:
        return None
    width, step = s.rng.choice(((2, 1), (3, 2), (2, 3), (2, 2)))
    sizes = tuple((one - width) // step + 1 for one in x.shape[found])
    shape = (*_with(x.shape, found, sizes), constant(width))
    text = f"{x.name}.unfold({found}, {width}, {step})"
    overlaps = step < width
    return s.make("unfold", text, [x], shape, x.dtype, view_of=x, overlaps=overlaps)


@operator("layout", 0.8)
def strided(s: Scope) -> object:
    """View fresh memory with strides of one's own."""
    x = s.pick(lambda one: one.dim >= 1 and not one.root and min(map(min, one.shape)) > 0)
    if x is None:
        return None
    least = 1
    for size in x.shape:
        least *= min(size)
    if least < 8 or any(value.name == x.name for value in s.values):
        return None
    rows, columns, one, other, offset = s.rng.choice(
        ((2, 3, 3, 1, 0), (2, 2, 1, 3, 2), (3, 2, 2, 1, 1), (2, 3, 1, 2, 1), (3, 2, 1, 1, 0))
    )
    text = f"{x.name}.contiguous().as_strided(({rows}, {columns}), ({one}, {other}), {offset})"
    shape = (constant(rows), constant(columns))
    overlaps = (one, other) == (1, 1)
    return s.make("as_strided", text, [x], shape, x.dtype, view_of=x, overlaps=overlaps)


@operator("layout", 1.5)
def moved(s: Scope) -> object:
    """Flip, roll, rotate: copies in another order."""
    x = s.pick(lambda one: one.dim >= 1)
    if x is None or (dim := s.dimension(x)) is None:
        return None
    shift = s.rng.choice((1, -1, 2, -3))
    texts = [("flip", f"{x.name}.flip({s.signed(dim, x)})", x.shape)]
    texts += [("roll", f"{x.name}.roll({shift}, {s.signed(dim, x)})", x.shape)]
    if x.dim >= 2:
        one, other = s.rng.sample(range(x.dim), 2)
        texts += [
            ("roll", f"{x.name}.roll(({shift}, 1), ({one}, {other}))", x.shape),
            ("rot90", f"{x.name}.rot90(1, ({one}, {other}))", _swap(x.shape, one, other)),
            ("flip", f"{x.name}.flip(({one}, {other}))", x.shape),
        ]
        if x.dtype != "bool":
            diagonal = s.rng.choice((0, 1, -1))
            texts += [(how, f"{x.name}.{how}({diagonal})", x.shape) for how in ("tril", "triu")]
    operator_name, text, shape = s.rng.choice(texts)
    return s.make(operator_name, text, [x], shape, x.dtype)


@operator("layout", 1.5)
def repeated(s: Scope) -> object:
    """Repeat a tensor or its elements."""
    x = s.pick(lambda one: 1 <= one.dim <= 3)
    if x is None or (dim := s.dimension(x)) is None:
        return None
    times = s.rng.choice((2, 3))
    shape = _with(x.shape, dim, tuple(size * times for size in x.shape[dim]))
    counts = [1] * x.dim
    counts[dim] = times
    how, text = s.rng.choice(
        (
            ("repeat", f"{x.name}.repeat{tuple(counts)}"),
            ("tile", f"{x.name}.tile({tuple(counts)})"),
            ("repeat_interleave", f"{x.name}.repeat_interleave({times}, {dim})"),
        )
    )
    return s.make(how, text, [x], shape, x.dtype)


@operator("layout", 2)
def joined(s: Scope) -> object:
    """Concatenate or stack."""
    x = s.pick(lambda one: one.dim >= 1)
    if x is None or (dim := s.dimension(x)) is None:
        return None
    y = s.pick(
        lambda one: (
            one.dim == x.dim
            and one.dtype == x.dtype
            and _with(one.shape, dim) == _with(x.shape, dim)
        )
    )
    if y is None:
        return None
    if x.shape == y.shape and s.chance(0.4):
        at = s.rng.randint(0, x.dim)
        shape = (*x.shape[:at], constant(2), *x.shape[at:])
        text = f"torch.stack(({x.name}, {y.name}), {at})"
        return s.make("stack", text, [x, y], shape, x.dtype)
    both = tuple(a + b for a, b in zip(x.shape[dim], y.shape[dim], strict=True))
    text = f"torch.cat(({x.name}, {y.name}), {s.signed(dim, x)})"
    return s.make("cat", text, [x, y], _with(x.shape, dim, both), x.dtype)


@operator("layout", 1.2)
def parts(s: Scope) -> object:
    """Split, and take a part."""
    x = s.pick(lambda one: one.dim >= 1)
    if x is None or (dim := s.dimension(x, constant_only=True)) is None:
        return None
    size = x.shape[dim][0]
    if size < 2:
        return None
    how = s.rng.choice(("chunk", "split", "tensor_split"))
    if how == "chunk":
        first = -(-size // 2)
        text, length = f"{x.name}.chunk(2, {dim})[-1]", size - first
    elif how == "split":
        first = s.rng.randint(1, size - 1)
        text, length = f"{x.name}.split([{first}, {size - first}], {dim})[1]", size - first
    else:
        text, length = f"{x.name}.tensor_split(2, {dim})[0]", -(-size // 2)
    return s.make(how, text, [x], _with(x.shape, dim, constant(length)), x.dtype, view_of=x)


@operator("layout", 1.5)
def padded(s: Scope) -> object:
    """Pad, or cut off with a negative pad."""
    x = s.pick(lambda one: 1 <= one.dim <= 4 and one.dtype != "bool")
    if x is None:
        return None
    left, right = s.rng.choice(((1, 0), (0, 2), (1, 2), (-1, 1), (2, -1)))
    size = x.shape[-1]
    if min(size) < 4:
        left, right = abs(left), abs(right)
    mode = s.rng.choice(("constant", "constant", "reflect", "replicate", "circular"))
    if mode != "constant":
        if not (x.is_float and 2 <= x.dim <= 3 and min(size) >= 3):
            return None
        left, right = abs(left), abs(right)
    how = f', mode="{mode}"' if mode != "constant" else s.rng.choice(("", ", value=1.5"))
    how = "" if how.startswith(", value") and not x.is_float else how
    shape = (*x.shape[:-1], tuple(one + left + right for one in size))
    return s.make(f"pad {mode}", f"F.pad({x.name}, ({left}, {right}){how})", [x], shape, x.dtype)


@operator("layout", 1)
def copied(s: Scope) -> object:
    """Copy, or change the memory format."""
    x = s.pick()
    if x is None:
        return None
    if x.dim == 4 and s.chance(0.7):
        text = f"{x.name}.contiguous(memory_format=torch.channels_last)"
        return s.make("channels_last", text, [x], x.shape, x.dtype, view_of=x)
    how = s.rng.choice(("contiguous", "clone", "contiguous", "detach"))
    shares = x if how != "clone" else None
    if how == "detach":
        made = s.make("detach", f"{x.name}.detach()", [x], x.shape, x.dtype, view_of=x)
    else:
        made = s.make(how, f"{x.name}.{how}()", [x], x.shape, x.dtype, view_of=shares)
    return made


@operator("layout", 0.6)
def bits(s: Scope) -> object:
    """View the bits as another dtype of the same width, and undo it."""
    x = s.pick(lambda one: one.is_integer and one.dtype in INTEGERS[:3])
    if x is None:
        return None
    other = {"int64": "float64", "int32": "float32", "int16": "float16"}[x.dtype]
    if s.chance(0.5):
        text = f"{x.name}.view(torch.{other}).view(torch.{x.dtype})"
        return s.make("view dtype", text, [x], x.shape, x.dtype, view_of=x)
    narrow = {"int64": "int32", "int32": "int16", "int16": "int8"}[x.dtype]
    if not x.dim or x.root:
        return None
    shape = (*x.shape[:-1], tuple(2 * size for size in x.shape[-1]))
    text = f"{x.name}.contiguous().view(torch.{narrow})"
    return s.make("view dtype", text, [x], shape, narrow, view_of=x)
