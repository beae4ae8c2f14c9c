"""Layers: products, convolutions, pooling, norms, attention, interpolation, losses."""

from __future__ import annotations

from compilegate.fuzzing.operators.elementwise import named
from compilegate.fuzzing.operators.registry import operator
from compilegate.fuzzing.program import Value
from compilegate.fuzzing.scope import Scope, Shape, Size, Variable, constant


def _full(s: Scope, *, least: int, most: int = 5) -> Variable | None:
    """Return a tensor in float32."""
    return s.pick(lambda one: one.dtype == "float32" and least <= one.dim <= most)


def images(s: Scope) -> Variable | None:
    """Return a batch of images in float32, or make one of something else."""
    found = s.pick(
        lambda one: (
            one.dtype == "float32"
            and one.dim == 4
            and min(one.shape[2]) >= 4
            and min(one.shape[3]) >= 4
        )
    )
    if found is not None or s.chance(0.5):
        return found
    x = s.pick(
        lambda one: (
            one.dtype == "float32"
            and one.dim in (2, 3)
            and min(one.shape[-1]) >= 4
            and min(one.shape[-2]) >= 4
        )
    )
    if x is None:
        return None
    index = "None, None" if x.dim == 2 else "None"
    ones = (constant(1),) * (4 - x.dim)
    return s.make("view", f"{x.name}[{index}]", [x], (*ones, *x.shape), x.dtype, view_of=x)


@operator("neural", 2)
def linear(s: Scope) -> object:
    """Apply a linear layer."""
    x = _full(s, least=1)
    if x is None:
        return None
    width = s.size()
    weight = s.parameter(width, x.shape[-1])
    if weight is None:
        return None
    bias = s.parameter(width, scale=1.0) if s.chance(0.5) else None
    shape = (*x.shape[:-1], width)
    extra = f", {bias.name}" if bias else ""
    text = f"F.linear({x.name}, {weight.name}{extra})"
    return s.make("linear", text, [x, weight, *([bias] if bias else [])], shape, "float32")


@operator("neural", 2)
def product(s: Scope) -> object:
    """Multiply matrices."""
    x = _full(s, least=2, most=4)
    if x is None:
        return None
    y = s.pick(
        lambda one: (
            one.dtype == "float32"
            and one.dim == x.dim
            and one.shape[:-2] == x.shape[:-2]
            and one.shape[-2] == x.shape[-1]
        )
    )
    if y is None:
        other = s.rng.choice((f"{x.name}.mT", f"{x.name}.transpose(-1, -2).contiguous()"))
        text, shape = f"{x.name} @ {other}", (*x.shape[:-1], x.shape[-2])
        return s.make("matmul", text, [x], shape, "float32")
    shape = (*x.shape[:-1], y.shape[-1])
    text = f"torch.matmul({x.name}, {y.name})"
    if x.dim == 3 and s.chance(0.4):
        text = s.rng.choice(
            (
                f"torch.bmm({x.name}, {y.name})",
                f"torch.einsum('bij,bjk->bik', {x.name}, {y.name})",
                f"torch.baddbmm({x.name}.mean(), {x.name}, {y.name}, beta=0.5, alpha=2)",
            )
        )
    elif x.dim == 2 and s.chance(0.4):
        text = f"torch.addmm({y.name}[0] * 0.3, {x.name}, {y.name}, beta=0.7, alpha=1.5)"
    return s.make("matmul", text, [x, y], shape, "float32")


@operator("neural", 1)
def attention(s: Scope) -> object:
    """Attend."""
    x = _full(s, least=3, most=4)
    if x is None:
        return None
    causal = s.rng.choice(("", ", is_causal=True", ", scale=0.3"))
    name = x.name
    text = f"F.scaled_dot_product_attention({name}, {name}.sin(), {name}.flip(-2){causal})"
    return s.make("attention", text, [x], x.shape, "float32")


def _after(size: Size, kernel: int, stride: int, pad: int, dilation: int = 1) -> Size:
    return tuple((one + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1 for one in size)


@operator("neural", 2)
def convolution(s: Scope) -> object:
    """Convolve images, also transposed and in groups."""
    x = images(s)
    if x is None or len(set(x.shape[1])) > 1:
        return None
    channels = x.shape[1][0]
    kernel, stride, pad, dilation = s.rng.choice(
        ((3, 1, 1, 1), (2, 2, 0, 1), (3, 2, 1, 1), (1, 1, 0, 1), (2, 1, 1, 2))
    )
    if s.chance(0.3):
        weight = s.parameter(x.shape[1], constant(3), constant(kernel), constant(kernel))
        assert weight is not None
        extra = s.rng.choice((0, 1)) if stride > 1 else 0
        sides = [
            tuple((one - 1) * stride - 2 * pad + dilation * (kernel - 1) + extra + 1 for one in of)
            for of in x.shape[2:]
        ]
        if min(min(side) for side in sides) < 1:
            return None
        more = f"stride={stride}, padding={pad}, output_padding={extra}, dilation={dilation}"
        text = f"F.conv_transpose2d({x.name}, {weight.name}, {more})"
        shape = (x.shape[0], constant(3), *sides)
        return s.make("conv_transpose2d", text, [x, weight], shape, "float32")
    groups = channels if s.chance(0.3) else 1
    outs = channels * 2 if groups > 1 else s.rng.choice((2, 4, 8))
    k = constant(kernel)
    weight = s.parameter(constant(outs), constant(channels // groups), k, k)
    assert weight is not None
    sides = [_after(of, kernel, stride, pad, dilation) for of in x.shape[2:]]
    if min(min(side) for side in sides) < 1:
        return None
    more = f"stride={stride}, padding={pad}, dilation={dilation}, groups={groups}"
    text = f"F.conv2d({x.name}, {weight.name}, {more})"
    return s.make("conv2d", text, [x, weight], (x.shape[0], constant(outs), *sides), "float32")


@operator("neural", 2)
def pool(s: Scope) -> object:
    """Pool images."""
    x = images(s)
    if x is None:
        return None
    if s.chance(0.35):
        sides = (constant(s.rng.choice((1, 2, 3))), constant(s.rng.choice((2, 3, 5))))
        how = s.rng.choice(("adaptive_avg_pool2d", "adaptive_max_pool2d"))
        text = f"F.{how}({x.name}, ({sides[0][0]}, {sides[1][0]}))"
        return s.make(how, text, [x], (*x.shape[:2], *sides), "float32")
    kernel, stride, pad = s.rng.choice(((2, 2, 0), (3, 2, 1), (2, 1, 0), (3, 1, 1)))
    sides2 = [_after(of, kernel, stride, pad) for of in x.shape[2:]]
    how = s.rng.choice(("max", "avg", "avg", "lp"))
    if how == "max":
        text = f"F.max_pool2d({x.name}, {kernel}, {stride}, {pad})"
    elif how == "avg":
        more = s.rng.choice(("", ", count_include_pad=False", ", divisor_override=3"))
        text = f"F.avg_pool2d({x.name}, {kernel}, {stride}, {pad}{more})"
    else:
        sides2 = [_after(of, kernel, stride, 0) for of in x.shape[2:]]
        text = f"F.lp_pool2d({x.name}, 2, {kernel}, {stride})"
    return s.make(f"{how}_pool2d", text, [x], (*x.shape[:2], *sides2), "float32")


@operator("neural", 1)
def last_norm(s: Scope) -> object:
    """Normalise the last dimension."""
    x = _full(s, least=2, most=4)
    if x is None or min(x.shape[-1]) < 2:
        return None
    how = s.rng.choice(("layer_norm", "rms_norm"))
    weight = s.parameter(x.shape[-1], scale=1.0) if s.chance(0.5) else None
    more = f", {weight.name}" if weight else ""
    text = f"F.{how}({x.name}, ({x.name}.shape[-1],){more})"
    return s.make(how, text, [x, *([weight] if weight else [])], x.shape, "float32")


@operator("neural", 1)
def channel_norm(s: Scope) -> object:
    """Normalise channels."""
    x = _full(s, least=3, most=4)
    if x is None or len(set(x.shape[1])) > 1 or min(x.shape[-1]) < 2 or min(x.shape[0]) < 2:
        return None
    channels = x.shape[1][0]
    how = s.rng.choice(("group_norm", "batch_norm", "batch_norm", "instance_norm"))
    if how == "group_norm":
        groups = s.rng.choice([g for g in (1, 2, 4, 8, 3) if channels % g == 0])
        text = f"F.group_norm({x.name}, {groups})"
        return s.make(how, text, [x], x.shape, "float32")
    if how == "instance_norm":
        return s.make(how, f"F.instance_norm({x.name})", [x], x.shape, "float32")
    return _batch_norm(s, x, channels)


def _batch_norm(s: Scope, x: Variable, channels: int) -> object:
    count = sum(value.kind == "buffer" for value in s.values)
    names = [f"b{count}", f"b{count + 1}"]
    texts = [f"torch.zeros({channels})", f"torch.ones({channels})"]
    held = [
        s.add_value(
            Value(name=name, text=text, kind="buffer"),
            Variable(name, (constant(channels),), "float32"),
        )
        for name, text in zip(names, texts, strict=True)
    ]
    training = s.chance(0.7)
    text = f"F.batch_norm({x.name}, {names[0]}, {names[1]}, training={training})"
    return s.make("batch_norm", text, [x, *held], x.shape, "float32")


@operator("neural", 1.5)
def resized(s: Scope) -> object:
    """Interpolate, sample, shuffle pixels, fold."""
    x = images(s)
    if x is None:
        return None
    if s.chance(0.6):
        mode = s.rng.choice(("nearest", "bilinear", "bicubic", "nearest-exact", "area"))
        corners = s.rng.choice(("", ", align_corners=True")) if mode[:2] == "bi" else ""
        sides: Shape = (constant(s.rng.choice((3, 5, 8))), constant(s.rng.choice((4, 7))))
        how = f"size=({sides[0][0]}, {sides[1][0]})"
        if s.chance(0.4):
            sides = tuple(tuple(2 * one for one in of) for of in x.shape[2:])
            how = "scale_factor=2"
        text = f'F.interpolate({x.name}, {how}, mode="{mode}"{corners})'
        return s.make(f"interpolate {mode}", text, [x], (*x.shape[:2], *sides), "float32")
    if s.chance(0.4) and len({x.shape[2], x.shape[3]}) == 1:
        mode = s.rng.choice(("bilinear", "nearest"))
        padding = s.rng.choice(("zeros", "border", "reflection"))
        grid = f"torch.stack(({x.name}[:, 0].tanh(), {x.name}[:, -1].sin() * 1.2), -1)"
        more = f'mode="{mode}", padding_mode="{padding}", align_corners={s.chance(0.5)}'
        if mode == "nearest":
            return None
        return s.make(
            "grid_sample", f"F.grid_sample({x.name}, {grid}, {more})", [x], x.shape, "float32"
        )
    text = f"F.pixel_unshuffle({x.name}[:, :, :4, :4], 2)"
    channels = tuple(4 * one for one in x.shape[1])
    shape = (x.shape[0], channels, constant(2), constant(2))
    return s.make("pixel_unshuffle", text, [x], shape, "float32")


_LOSSES = (
    *("F.mse_loss({x}, {y})", "F.smooth_l1_loss({x}, {y}, beta=0.5)", "F.l1_loss({x}, {y})"),
    *("F.huber_loss({x}, {y}, delta=0.7)", "F.kl_div({x}.log_softmax(-1), {y}.softmax(-1))"),
    *(
        "F.binary_cross_entropy_with_logits({x}, {y}.sigmoid())",
        "F.soft_margin_loss({x}, {y}.sign())",
    ),
    *("F.cross_entropy({x}, {y}.softmax(1))", "F.cosine_similarity({x}, {y}, dim=-1).mean()"),
    *("F.pairwise_distance({x}, {y}).mean()", "F.poisson_nll_loss({x}, {y}.abs())"),
    *(
        "F.cross_entropy({x}, {y}.argmax(1), label_smoothing=0.1)",
        "F.gaussian_nll_loss({x}, {y}, {y}.abs() + 0.5)",
    ),
)


@operator("neural", 1)
def loss(s: Scope) -> object:
    """Compute a loss."""
    x = _full(s, least=2, most=3)
    if x is None or min(x.shape[1]) < 2:
        return None
    y = s.pick(lambda one: one.shape == x.shape and one.dtype == "float32" and one.name != x.name)
    if y is None:
        return None
    text = s.rng.choice(_LOSSES)
    return s.make(named(text), text.format(x=x.name, y=y.name), [x, y], (), "float32")


@operator("neural", 0.7)
def gated(s: Scope) -> object:
    """Split in two, and gate; or compute distances."""
    x = _full(s, least=2, most=4)
    if x is None:
        return None
    if s.chance(0.5):
        if len(set(x.shape[-1])) > 1 or x.shape[-1][0] % 2:
            return None
        half = constant(x.shape[-1][0] // 2)
        return s.make("glu", f"F.glu({x.name}, -1)", [x], (*x.shape[:-1], half), "float32")
    if x.dim > 3:
        return None
    text = f"torch.cdist({x.name}, {x.name}.flip(-1) + 1)"
    return s.make("cdist", text, [x], (*x.shape[:-1], x.shape[-2]), "float32")
