"""Operators on single elements: functions, arithmetic, comparisons, casts, choices."""

from __future__ import annotations

from compilegate.fuzzing.operators.registry import operator
from compilegate.fuzzing.scope import FLOATS, HALVES, INTEGERS, Scope, Shape, Variable, promoted

#: Smooth functions of a floating tensor, on a domain in which they are well conditioned.
SMOOTH = (
    *("torch.sin({x})", "torch.cos({x})", "torch.tanh({x})", "torch.sigmoid({x})", "{x}.erf()"),
    *("torch.atan({x})", "F.softplus({x})", "F.silu({x})", "F.gelu({x})", "F.mish({x})"),
    *('F.gelu({x}, approximate="tanh")', "F.elu({x}, alpha=0.7)", "F.celu({x}, alpha=1.3)"),
    *("F.selu({x})", "F.hardswish({x})", "F.hardtanh({x}, -0.5, 0.8)", "F.relu6({x} * 3)"),
    *("F.leaky_relu({x}, 0.2)", "F.logsigmoid({x})", "{x}.sinc()", "{x}.square()", "-{x}"),
    *("{x}.abs()", "torch.exp(-{x}.abs())", "torch.log1p({x}.abs())", "(abs({x}) + 0.1).sqrt()"),
    *("torch.rsqrt({x}.abs() + 0.5)", "1 / ({x}.abs() + 0.5)", "{x}.asinh()", "F.relu({x})"),
    *("{x}.clamp(-0.7, 1.1)", "{x}.clamp(min=0.3)", "torch.expm1({x}.clamp(max=2))"),
    *("F.softshrink({x}, 0.3)", "F.tanhshrink({x})", "{x}.nan_to_num(0.5)", "F.softsign({x})"),
    *("F.hardsigmoid({x} * 2)", "torch.exp2({x}.clamp(-2, 2))", "{x}.deg2rad() * 9"),
    *("torch.log2({x}.abs() + 0.2)", "({x}.abs() + 1.1).acosh()", "({x}.tanh() * 0.9).atanh()"),
)
#: Functions that need full precision: their kernels in half precision are few.
SPECIAL = (
    *("torch.lgamma({x}.abs() + 1)", "torch.digamma({x}.abs() + 1)", "torch.special.i0({x})"),
    *("torch.erfinv({x}.tanh() * 0.9)", "torch.special.ndtr({x})", "torch.special.entr({x}.abs())"),
    *("torch.special.log_ndtr({x})", "torch.special.i1e({x})", "torch.special.erfcx({x}.abs())"),
    *("torch.logit({x}.sigmoid(), eps=0.1)", "torch.polygamma(1, {x}.abs() + 1)"),
)
#: Functions that jump.
JUMPS = (
    *("torch.round({x})", "torch.floor({x} * 2)", "{x}.ceil()", "{x}.trunc()", "torch.frac({x})"),
    *("torch.sign({x})", "F.hardshrink({x}, 0.4)", "F.threshold({x}, 0.1, -2.0)"),
    *("torch.round({x}, decimals=1)", "{x}.fmod(0.75)", "torch.remainder({x}, 0.6)", "{x} % 0.7"),
    *("{x} // 0.5", "torch.div({x}, 0.3, rounding_mode='trunc')", "{x}.frac()"),
)
SCALARS = (
    *("{x} + 1.5", "2 - {x}", "{x} * 0.37", "{x} / 3", "{x} ** 2", "3 * {x} - 1", "{x} / 1.0"),
    *("({x}.abs() + 0.1) ** 0.5", "({x}.abs() + 0.1) ** -1.5", "0.5 ** {x}.clamp(-3, 3)"),
    *("torch.add({x}, 1, alpha=2)", "torch.rsub({x}, 1.5)", "{x} * True", "{x} + {x}"),
)
#: Arithmetic of two floating tensors that broadcast.
BINARY = (
    *("{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / ({y}.abs() + 0.5)", "torch.maximum({x}, {y})"),
    *("torch.minimum({x}, {y})", "torch.fmax({x}, {y})", "torch.add({x}, {y}, alpha=0.3)"),
    *("torch.where({x} > 0, {x}, {y})", "{x}.lerp({y}, 0.3)", "torch.sub({x}, {y}, alpha=2)"),
)
BINARY_SPECIAL = (
    *("torch.atan2({x}, {y})", "torch.hypot({x}, {y})", "torch.copysign({x}, {y}.nan_to_num())"),
    *("torch.logaddexp({x}, {y})", "torch.xlogy({x}.abs(), {y}.abs() + 0.2)"),
    *("({x}.abs() + 0.2) ** {y}.clamp(-2, 2)", "torch.remainder({x}, {y}.abs() + 0.5)"),
    *("torch.fmod({x}, {y}.abs() + 0.5)", "torch.clamp({x}, {y}, {y} + 0.5)"),
    *("torch.heaviside({x}, {y})", "torch.float_power({x}.abs(), 1.5).to({x}.dtype) + {y}"),
    *("torch.addcmul({x}, {y}, {y}, value=0.5)", "torch.addcdiv({x}, {y}, {y}.abs() + 1)"),
    *("torch.div({x}, {y}.abs() + 0.5, rounding_mode='floor')", "torch.logaddexp2({x}, {y})"),
    *(
        "torch.special.xlog1py({x}, {y}.abs())",
        "torch.special.zeta({x}.abs() + 1.5, {y}.abs() + 1)",
    ),
)
#: Functions of a tensor of integers.
INTEGER = (
    *("{x} + 3", "{x} * 2 - 1", "-{x}", "{x}.abs()", "{x} // 2", "{x} % 3", "~{x}", "{x} & 5"),
    *("{x} | 2", "{x} ^ 3", "{x} << 1", "{x} >> 1", "{x}.clamp(-2, 4)", "{x}.sign()", "5 - {x}"),
    *("torch.div({x}, 3, rounding_mode='trunc')", "{x}.fmod(4)", "{x}.square()", "{x} // -3"),
    *("torch.bitwise_left_shift({x}, 2)", "{x} ** 2", "{x}.remainder(-4)", "{x}.relu()"),
)
INTEGERS_OF_TWO = (
    *("{x} + {y}", "{x} - {y}", "{x} * {y}", "torch.maximum({x}, {y})", "{x} & {y}", "{x} | {y}"),
    *("{x} ^ {y}", "{x} // ({y}.abs() + 1)", "{x} % ({y}.abs() + 1)", "{x} << ({y} & 3)"),
    *("torch.where({x} > {y}, {x}, {y})", "torch.fmod({x}, {y}.abs() + 1)", "{x} >> ({y} & 3)"),
    *("torch.gcd({x}, {y})", "{x} ** ({y} & 3)", "torch.minimum({x}, {y})"),
)
COMPARISONS = ("{x} < {y}", "{x} >= {y}", "torch.ne({x}, {y})", "{x} == {y}", "torch.gt({x}, {y})")


def named(text: str) -> str:
    """Return the name of the operator in an expression, for a culprit."""
    return text.replace("{x}", "x").replace("{y}", "y").replace("{d}", "d")


def broadcast(one: Shape, other: Shape) -> Shape | None:
    """Return the shape of two that broadcast; None if they do not."""
    width = max(len(one), len(other))
    ones = ((1,) * len((one or other or ((1, 1),))[0]),)
    filled = [ones * (width - len(shape)) + shape for shape in (one, other)]
    found = []
    for mine, theirs in zip(*filled, strict=True):
        if set(mine) == {1}:
            found.append(theirs)
        elif set(theirs) == {1} or mine == theirs:
            found.append(mine)
        else:
            return None
    return tuple(found)


def partner(s: Scope, of: Variable, dtypes: tuple[str, ...], *, smooth: bool) -> Variable | None:
    """Return a variable that broadcasts with another."""
    return s.pick(
        lambda one: (
            one.dtype in dtypes
            and not (smooth and one.rough)
            and broadcast(of.shape, one.shape) is not None
        )
    )


@operator("elementwise", 4)
def smooth(s: Scope) -> object:
    """Apply a smooth function."""
    if (x := s.floating()) is None:
        return None
    text = s.rng.choice(SMOOTH)
    return s.make(named(text), text.format(x=x.name), [x], x.shape, x.dtype)


@operator("elementwise", 1.5)
def sharp(s: Scope) -> object:
    """Apply a function that jumps, or one for full precision."""
    if (x := s.exact()) is None:
        return None
    text = s.rng.choice((*JUMPS, *SPECIAL))
    return s.make(named(text), text.format(x=x.name), [x], x.shape, x.dtype)


@operator("elementwise", 1.5)
def scalar(s: Scope) -> object:
    """Compute with a Python number."""
    if (x := s.floating()) is None:
        return None
    text = s.rng.choice(SCALARS)
    return s.make(named(text), text.format(x=x.name), [x], x.shape, x.dtype)


@operator("elementwise", 4)
def binary(s: Scope) -> object:
    """Compute with two floating tensors."""
    special = s.chance(0.35)
    if (x := s.exact() if special else s.floating()) is None:
        return None
    if (y := partner(s, x, FLOATS, smooth=special)) is None:
        return None
    text = s.rng.choice(BINARY_SPECIAL if special else BINARY)
    if x.dtype != y.dtype and text.startswith(("{x}.lerp", "torch.where", "torch.heavi")):
        return None
    shape = broadcast(x.shape, y.shape)
    assert shape is not None
    dtype = _of_two(x, y)
    return s.make(named(text), text.format(x=x.name, y=y.name), [x, y], shape, dtype)


def _of_two(x: Variable, y: Variable) -> str:
    """Return the dtype of two tensors: one without dimensions counts only if it is of a kind."""
    if bool(x.dim) == bool(y.dim) or x.is_float != y.is_float:
        return promoted(x.dtype, y.dtype)
    return x.dtype if x.dim else y.dtype


@operator("elementwise", 2)
def integer(s: Scope) -> object:
    """Compute with integers."""
    if (x := s.pick(lambda one: one.is_integer)) is None:
        return None
    if s.chance(0.5):
        text = s.rng.choice(INTEGER)
        return s.make(named(text), text.format(x=x.name), [x], x.shape, x.dtype)
    if (y := partner(s, x, INTEGERS, smooth=False)) is None:
        return None
    text = s.rng.choice(INTEGERS_OF_TWO)
    shape = broadcast(x.shape, y.shape)
    assert shape is not None
    dtype = _of_two(x, y)
    return s.make(named(text), text.format(x=x.name, y=y.name), [x, y], shape, dtype)


@operator("elementwise", 1)
def comparison(s: Scope) -> object:
    """Compare two tensors, or look at one."""
    if (x := s.pick(lambda one: not one.rough)) is None:
        return None
    if s.chance(0.3) and x.is_float:
        text = s.rng.choice(
            ("{x} > 0.1", "torch.signbit({x}.nan_to_num())", "{x}.isnan()", "{x}.isfinite()")
        )
        return s.make(named(text), text.format(x=x.name), [x], x.shape, "bool")
    if (y := partner(s, x, (x.dtype,), smooth=True)) is None:
        return None
    text = s.rng.choice(COMPARISONS)
    shape = broadcast(x.shape, y.shape)
    assert shape is not None
    return s.make("compare", text.format(x=x.name, y=y.name), [x, y], shape, "bool")


@operator("elementwise", 0.8)
def logical(s: Scope) -> object:
    """Combine booleans."""
    if (x := s.pick(lambda one: one.dtype == "bool")) is None:
        return None
    if (y := partner(s, x, ("bool",), smooth=False)) is None:
        return None
    text = s.rng.choice(("{x} & {y}", "{x} | {y}", "{x} ^ {y}", "~{x}", "torch.logical_not({x})"))
    shape = x.shape if "{y}" not in text else broadcast(x.shape, y.shape)
    assert shape is not None
    return s.make(named(text), text.format(x=x.name, y=y.name), [x, y], shape, "bool")


@operator("elementwise", 2)
def cast(s: Scope) -> object:
    """Cast to another dtype; what does not fit is cut off before."""
    if (x := s.pick()) is None:
        return None
    dtype = s.rng.choice((*FLOATS, *INTEGERS, "bool"))
    if dtype == x.dtype or (x.rough and dtype not in FLOATS):
        return None
    text = x.name
    if x.is_float and dtype in INTEGERS:
        text = f"({x.name} * 3).clamp({0 if dtype == 'uint8' else -100}, 100)"
        if s.chance(0.3):
            text = text.replace("clamp", "nan_to_num().clamp")
    elif x.dtype in INTEGERS and dtype in HALVES:
        text = f"{x.name}.clamp(0, 100)"
    call = f"{text}.{dtype.replace('float16', 'half').replace('bhalf', 'bfloat16')}()"
    known = {"float32": "float", "float64": "double", "int64": "long", "int32": "int"}
    call = f"{text}.{known[dtype]}()" if dtype in known and s.chance(0.5) else call
    if f".{dtype}(" in call or s.chance(0.4):
        call = f"{text}.to(torch.{dtype})"
    return s.make(f"to {dtype}", call, [x], x.shape, dtype)


@operator("elementwise", 1)
def choice(s: Scope) -> object:
    """Choose by a mask."""
    if (mask := s.pick(lambda one: one.dtype == "bool")) is None:
        return None
    found = s.pick(lambda one: one.dtype != "bool" and broadcast(mask.shape, one.shape) is not None)
    if found is None:
        return None
    shape = broadcast(mask.shape, found.shape)
    assert shape is not None
    if s.chance(0.5) and shape == found.shape:
        text = f"{found.name}.masked_fill({mask.name}, 2)"
        return s.make("masked_fill", text, [found, mask], shape, found.dtype)
    other = "0.25" if found.is_float else "3"
    text = f"torch.where({mask.name}, {found.name}, {other})"
    return s.make("where", text, [mask, found], shape, found.dtype)


@operator("elementwise", 0.7)
def extremes(s: Scope) -> object:
    """Put infinities, NaN or signed zeros among the elements."""
    if (x := s.pick(lambda one: one.is_float and not one.rough and one.dim > 0)) is None:
        return None
    value = s.rng.choice(("float('nan')", "float('inf')", "-float('inf')", "-0.0", "0.0"))
    text = f"torch.where({x.name} > 0.8, {value}, {x.name})"
    return s.make(f"put {value}", text, [x], x.shape, x.dtype)
