"""Writes in place: to inputs, buffers, views, and parts of them."""

from __future__ import annotations

from compilegate.fuzzing.operators.elementwise import broadcast
from compilegate.fuzzing.operators.registry import operator
from compilegate.fuzzing.program import Value
from compilegate.fuzzing.scope import FLOATS, Scope, Variable, constant

_FLOAT = (
    *("{x}.add_(1)", "{x}.mul_(0.5)", "{x}.sin_()", "{x}.neg_()", "{x}.clamp_(-1, 1)"),
    *("{x}.relu_()", "{x}.sub_(0.25)", "{x}.tanh_()", "{x}.fill_(0.5)", "{x}.zero_()", "{x} += 2"),
    *("{x}.abs_()", "{x}.square_()", "{x}.sigmoid_()", "F.relu({x}, inplace=True)", "{x} *= 3"),
    *("{x}.copy_({x}.flip(0))", "{x}.copy_({x} * 2)", "F.silu({x}, inplace=True)", "{x}.div_(2)"),
)
_INTEGER = (
    *("{x}.add_(1)", "{x}.mul_(2)", "{x}.neg_()", "{x}.bitwise_and_(5)", "{x}.clamp_(-2, 3)"),
    *("{x} += 2", "{x}.fill_(3)", "{x} //= 2", "{x}.sub_(3)", "{x}.remainder_(4)", "{x} <<= 1"),
)


def _target(s: Scope, *, least: int = 0) -> Variable | None:
    """Return a tensor that may be written to."""
    leaves = {v.name for v in s.values if v.kind == "parameter"}
    if s.trains:
        leaves |= {v.name for v in s.values if v.kind == "input"}
    return s.pick(
        lambda one: (
            not one.overlaps
            and one.dim >= least
            and one.dtype != "bool"
            and one.name not in leaves
            and not (s.trains and one.root in leaves)
        )
    )


@operator("mutation", 3)
def whole(s: Scope) -> object:
    """Change a tensor."""
    x = _target(s)
    if x is None:
        return None
    text = s.rng.choice(_FLOAT if x.is_float else _INTEGER)
    if "flip" in text and not x.dim:
        return None
    s.write(text.replace("{x}", "x"), text.format(x=x.name), x)
    return x


@operator("mutation", 3)
def with_another(s: Scope) -> object:
    """Change a tensor by another one.

    A view of the same memory is copied first. Eager does not always notice that it reads what it
    has just written.
    """
    x = _target(s, least=1)
    if x is None:
        return None
    y = s.pick(
        lambda one: (
            (one.dtype == x.dtype or (x.is_float and one.dtype in FLOATS))
            and broadcast(x.shape, one.shape) == x.shape
        )
    )
    if y is None:
        return None
    text = s.rng.choice(
        ("{x}.add_({y})", "{x}.mul_({y})", "{x}.copy_({y})", "{x}.sub_({y})", "{x} += {y}")
    )
    shares = y.name != x.name and (y.root or y.name) == (x.root or x.name)
    other = f"{y.name}.clone()" if shares else y.name
    s.write(text.replace("{x}", "x").replace("{y}", "y"), text.format(x=x.name, y=other), x, [y])
    return x


@operator("mutation", 4)
def part(s: Scope) -> object:
    """Change a part of a tensor."""
    x = _target(s, least=1)
    if x is None or (dim := s.dimension(x)) is None:
        return None
    size = min(x.shape[dim])
    before = ":, " * dim
    index = s.rng.choice(("0", "-1", "1:", ":-1", "::2", "1::2", "[0, -1]", "..."))
    if size < 2 and index in ("1:", ":-1", "1::2", "[0, -1]"):
        return None
    piece = f"{x.name}[{before}{index}]" if index != "..." else f"{x.name}[...]"
    value = s.rng.choice(("0", "1", "2"))
    text = s.rng.choice(
        (
            f"{piece} = {value}",
            f"{piece} += {value}",
            f"{piece} *= 2",
            f"{piece} = {piece} * 2 + 1",
            f"{piece} = {x.name}.flip({dim})[{before}{index}]",
            f"{piece}.add_({value})" if "[0" not in index else f"{piece} -= 3",
            f"{piece}.copy_({piece}.flip(0))" if "[0" not in index else f"{piece} = 3",
        )
    )
    if ".flip(0)" in text and x.dim == 1 and index in ("0", "-1"):
        return None
    s.write(text.replace(x.name, "x").replace(before, ""), text, x)
    return x


@operator("mutation", 2.5)
def at_indices(s: Scope) -> object:
    """Write at indices, at a mask, or along a dimension."""
    x = _target(s, least=1)
    if x is None or (dim := s.dimension(x)) is None:
        return None
    least = min(x.shape[dim])
    one, two = s.rng.randrange(least), s.rng.randrange(least)
    name, like = x.name, f"dtype={x.name}.dtype, device={x.name}.device"

    def index(*numbers: int) -> str:
        return f"torch.tensor({[*numbers]}, device={name}.device)"

    texts = [
        f"{name}.index_fill_({dim}, {index(one, two)}, 2)",
        f"{name}.index_add_({dim}, {index(one)}, {name}.narrow({dim}, {two}, 1) * 2)",
        f"{name}.index_copy_({dim}, {index(one)}, {name}.narrow({dim}, {two}, 1).clone())",
        f"{name}.index_put_(({index(0, -1, 0)},), {name}[0] * 0 + 1, accumulate=True)",
        f"{name}[{index(0, -1)}] += 1",
    ]
    if not x.rough:
        texts += [
            f"{name}[{name} > 0] = 1",
            f"{name}.masked_fill_({name} > 0, 2)",
            f"{name}.index_put_(({name} > 0,), torch.tensor(3, {like}))",
        ]
    texts += [f"{name}.scatter_({dim}, torch.zeros_like({name}, dtype=torch.long), 2)"]
    text = s.rng.choice(texts)
    s.write(text.partition("(")[0].replace(name, "x"), text, x)
    return x


@operator("mutation", 2)
def through_view(s: Scope) -> object:
    """Change a tensor through a view that is not kept."""
    x = _target(s, least=1)
    if x is None or (dim := s.dimension(x)) is None:
        return None
    views = ["view_as({x})", "unsqueeze(0)", "detach()", "select({d}, 0)", "narrow({d}, 0, 1)"]
    views += ["transpose(0, -1)", "flatten()", "diagonal()", "T", "mT", "swapaxes(0, -1)[0]"]
    if x.dim < 2:
        views = views[:5]
    if x.dim != 2:
        views = [one for one in views if one not in ("T", "mT", "diagonal()")]
    if x.root:
        views = [one for one in views if one != "flatten()"]
    view = s.rng.choice(views)
    write = s.rng.choice(("add_(1)", "mul_(2)", "zero_()", "copy_({v} * 3)", "fill_(2)", "neg_()"))
    shown = f"{x.name}.{view.format(x=x.name, d=dim)}"
    text = f"{shown}.{write.format(v=shown)}"
    s.write(f"x.{view}.{write}".format(x="x", d="d", v="v"), text, x)
    return x


@operator("mutation", 1.2)
def buffer(s: Scope) -> object:
    """Change a buffer, and read it."""
    size = s.size()
    name = f"b{sum(value.kind == 'buffer' for value in s.values)}"
    dtype = s.rng.choice(("float32", "float32", "int64"))
    text = f"torch.zeros({size[0]}, dtype=torch.{dtype})"
    shape = (size,)
    found = s.add_value(Value(name=name, text=text, kind="buffer"), Variable(name, shape, dtype))
    if s.chance(0.5):
        s.write("b.add_(1)", f"{name}.add_(1)", found)
        return found
    x = s.pick(lambda one: one.shape == shape and one.dtype == dtype and one.name != name)
    if x is None:
        s.write("b += 1", f"{name}[::2] += 1", found)
    elif not (s.trains and x.differentiable):
        s.write("b.copy_(x)", f"{name}.copy_({x.name})", found, [x])
    return found


@operator("mutation", 1)
def in_order(s: Scope) -> object:
    """Change a copy through an alias, and return the copy: order matters."""
    x = s.pick(lambda one: one.dim >= 1 and one.dtype != "bool")
    if x is None:
        return None
    alias = s.rng.choice(("a.view(-1)", "a.detach()", "a[:1]", "a.T" if x.dim == 2 else "a[...]"))
    text = f"a = {x.name}.clone()\nb = {alias}\nb.mul_(2)\na.add_(1)\n{{}} = a - b.sum() * 0"
    if not x.is_float:
        text = text.replace("a - b.sum() * 0", "a")
    if "view" in alias:
        text = text.replace(".clone()", ".clone().contiguous()")
    return s.make("alias of a clone", text, [x], x.shape, x.dtype, whole=True)


@operator("mutation", 1)
def out_argument(s: Scope) -> object:
    """Write to a fresh tensor by ``out=``, or fill a fresh tensor."""
    x = s.pick(lambda one: one.dtype == "float32" and not one.differentiable and one.dim >= 1)
    if x is None:
        return None
    text = s.rng.choice(
        (
            f"{{}} = torch.empty_like({x.name})\ntorch.sin({x.name}, out={{}})",
            f"{{}} = torch.zeros_like({x.name})\n{{}}[::2] = {x.name}[::2]",
            f"{{}} = {x.name}.new_zeros({x.name}.shape)\n{{}}.add_({x.name}, alpha=2)",
            f"{{}} = torch.full_like({x.name}, 0.5)\n{{}}.T.mul_({x.name}.T)"
            if x.dim == 2
            else f"{{}} = torch.ones_like({x.name})\n{{}} *= {x.name}",
        )
    )
    return s.make("fill", text, [x], x.shape, x.dtype, whole=True)


@operator("mutation", 0.7)
def reshaped_in_place(s: Scope) -> object:
    """Change the shape of a fresh tensor in place."""
    x = s.pick(lambda one: one.dim == 2)
    if x is None:
        return None
    how = s.rng.choice(("t_()", "transpose_(0, 1)", "unsqueeze_(0)"))
    text = f"{{}} = {x.name} * 1\n{{}}.{how}"
    shape = (constant(1), *x.shape) if how[0] == "u" else x.shape[::-1]
    return s.make(how, text, [x], shape, x.dtype, whole=True)
