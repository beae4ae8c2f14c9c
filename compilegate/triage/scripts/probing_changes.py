"""What a probing call changes, as code of a script: the script has torch alone.

:mod:`compilegate.observe.model.probes` makes the same changes where a case is observed.
"""

from __future__ import annotations

_BACKWARDS = "[*range(t.dim())][::-1]"
_FORMATS = "{4: torch.channels_last, 5: torch.channels_last_3d}"
_GAPS = "t * torch.nan if t.is_floating_point() else t.flatten()[0].expand_as(t)"

#: An expression of the changed tensor, given ``t``, for each memory layout.
_LAYOUTS = {
    "transposed inputs": f"t.permute({_BACKWARDS}).contiguous().permute({_BACKWARDS})",
    "inputs with the channels last": (
        f"t.contiguous(memory_format={_FORMATS}.get(t.dim(), torch.preserve_format))"
    ),
    "every second element of a larger memory, with an offset": (
        f"torch.stack([{_GAPS}, t], -1)[..., 1]"
    ),
    "inputs expanded from one row": "t[:1].clone().expand_as(t) if t.dim() else t",
    "inputs whose rows overlap in memory": (
        "t.contiguous().as_strided(t.shape, (1, *t.contiguous().stride()[1:])) "
        "if t.dim() > 1 and (t.is_floating_point() or t.is_complex() or t.dtype == torch.bool) "
        "else t"
    ),
}

_LARGEST = "torch.finfo(torch.float32).max"
#: What is written into the middle of each of the first rows.
_ELEMENTS = {
    "NaN in the first row": "torch.nan,",
    "infinities in two rows": "torch.inf, -torch.inf",
    "large numbers": "2.0**54, -(2.0**53)",
    "numbers near the largest": f"2**-10 * {_LARGEST}, -(2**-11) * {_LARGEST}",
}

#: By what floating tensors are multiplied.
_FACTORS = {"numbers 32 times as large": "32", "numbers 1,024 times smaller": "2**-10"}

#: What the backward starts from.
_LOSSES = {
    "a loss of every second row of the first output": """\
roots, cotangents = roots[:1], cotangents[:1]
[t[1::2].zero_() for t in cotangents if t.dim()]""",
    "a loss of the last output alone": "roots, cotangents = roots[-1:], cotangents[-1:]",
    "a loss with one gradient for all rows": (
        "cotangents = [\n"
        "    (t[:1] / len(t) ** 0.5).expand_as(t) if t.dim() else t for t in cotangents\n"
        "]"
    ),
    "an infinite loss": (
        "[t.__setitem__((0,) * t.dim(), torch.inf) for t in cotangents if t.numel()]"
    ),
}


def change_of(probe: str, dtype: str = "float32") -> str:
    """Return the body of a function of ``t`` that changes a tensor; empty for no change.

    Args:
        probe: The name of the probing call.
        dtype: The narrowest dtype in which the case computes.
    """
    if probe in _LAYOUTS:
        return f"return {_LAYOUTS[probe]}"
    if factor := _FACTORS.get(probe):
        return f"return {factor} * t if t.is_floating_point() else t"
    if probe in _ELEMENTS:
        return _written("row[row.numel() // 2] = value", _ELEMENTS[probe])
    if probe == "a row of zeros and one of denormals":
        values = f"0.0, torch.finfo(torch.{dtype}).smallest_normal / 4"
        return _written("row[::2], row[1::2] = -value, value", values)
    return _OF_OTHERS.get(probe, "")


def cotangents_of(probe: str) -> str:
    """Return code that changes ``roots`` and ``cotangents`` of a backward; empty for no change.

    Args:
        probe: The name of the probing call.
    """
    return _LOSSES.get(probe, "")


def setting_of(probe: str) -> str:
    """Return code that changes ``module`` before the last call; empty for no change.

    Args:
        probe: The name of the probing call.
    """
    return _SETTINGS.get(probe, "")


_STILL = """\
def swap(t):
    for dim in reversed(range(t.dim())):
        first = t.narrow(dim, 0, 1).clone()
        at = (t != first).byte().argmax(dim, keepdim=True)
        if at.any():
            other = t.gather(dim, at)
            t.scatter_(dim, at, first)
            t.narrow(dim, 0, 1).copy_(other)
            return True

still = [t for t in module.parameters() if not (module.training and t.requires_grad)]
still = [t for t in (*still, *module.buffers()) if t.numel()]
with torch.no_grad():
    for t in still:
"""

#: Code that changes what a module holds.
_SETTINGS = {
    "other numbers in modules": """\
for m in module.modules():
    for name, number in vars(m).items():
        if type(number) is float and number and abs(number) < torch.inf:
            vars(m)[name] = 0.75 * number if abs(number) >= 0.01 else 0.01""",
    "other integers in buffers": _STILL
    + """\
        if not (t.is_floating_point() or t.is_complex() or t.dtype == torch.bool):
            swap(t)""",
    "other masks and zeros in buffers": _STILL
    + """\
        factors = 1 + torch.arange(t.numel(), device=t.device).view(t.shape) % 5 / 256
        if t.dtype == torch.bool:
            if not swap(t) and t.numel() > 1:
                dim = [dim for dim in range(t.dim()) if t.shape[dim] > 1][-1]
                t.narrow(dim, 0, 1).logical_not_()
        elif t.is_floating_point() and not t.any():
            t.copy_(0.125 * factors)
        elif t.is_floating_point() and t.abs().max() >= 1e4:
            swap(t)
        elif t.is_complex() or (t.is_floating_point() and module.training):
            t.mul_(factors)""",
}


def _written(write: str, values: str) -> str:
    return f"""\
if not t.is_floating_point() or not t.dim():
    return t
rows = t.contiguous().clone().view(len(t), -1)
for row, value in zip(rows, ({values})):
    {write}
return rows.view(t.shape)"""


#: What changes tensors that are not floating.
_OF_OTHERS = {
    "integers at both ends of their range": """\
if t.dtype.is_floating_point or t.dtype == torch.bool or not t.dim():
    return t
rows, limits = t.contiguous().clone().view(len(t), -1), torch.iinfo(t.dtype)
ends = (limits.max, -limits.max if limits.min else 0)
for row, value in zip(rows, ends):
    row[row.numel() // 2] = value
for row, value in zip(list(rows[-2:])[::-1], ends):
    row[-1] = value
return rows.view(t.shape)""",
    "a row of False and one of True": """\
if t.dtype != torch.bool or not t.dim():
    return t
rows = t.contiguous().clone()
for row, value in zip(rows[:2], (False, True)):
    row.fill_(value)
return rows""",
}
