"""Pads the inputs of a call to the sizes of a bucket, and cuts its outputs off.

A user whose sizes vary pads each input to the next of a few sizes, the *buckets*, so that as many
graphs are compiled as there are buckets. This is right only for models whose answer for an item
does not depend on the items that padding adds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.nn import functional

from compilegate.observe import error_text, nested
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.float64 import Lifting
from compilegate.observe.model.result import Result, layout_of
from compilegate.observe.model.subject import Subject
from compilegate.observe.phases.builder import Builder
from compilegate.zoo.example import Call, argument_of

#: In float64, rounding errors are far below this share of the largest value, and what padding
#: changes is far above: it is the square root of the precision.
_SAME = torch.finfo(torch.float64).eps ** 0.5


def pad(subject: Subject, call: Call, bucket: Mapping[str, int]) -> Call:
    """Return a call whose declared dimensions are padded with zeros.

    Args:
        subject: The model, whose example declares the dimensions.
        call: The call.
        bucket: The size of each named dimension afterwards.
    """
    padded: dict[int, torch.Tensor] = {}
    for argument, dims in subject.example.dims.items():
        tensor = argument_of(argument, call.args, call.kwargs)
        longer = padded.get(id(tensor), tensor)
        for dim, name in dims.items():
            more = bucket[name] - longer.shape[dim]
            after = longer.dim() - 1 - dim % longer.dim()  # pad() starts at the last dimension
            longer = functional.pad(longer, (*(0, 0) * after, 0, more))
        padded[id(tensor)] = longer
    args, kwargs = (
        nested.mapped(given, lambda tensor: padded.get(id(tensor), tensor))
        for given in (tuple(call.args), {**call.kwargs})
    )
    return replace(call, args=args, kwargs=kwargs)


def cut(padded: Result, like: Result) -> Result:
    """Return the result of a padded call with outputs of the shapes that another result has.

    Its strides, its objects and what shares memory are those of the other result, because padding
    and cutting off determine them.

    Args:
        padded: The result of the padded call.
        like: The result of the call without padding.
    """
    output = {path: _cut(leaf, like.output.get(path)) for path, leaf in padded.output.items()}
    layout = {path: {**kept} for path, kept in padded.layout.items()}
    for path in layout.keys() & like.layout.keys():
        leaf = output[path]
        layout[path] |= {"shape": layout_of(leaf)["shape"], "stride": like.layout[path]["stride"]}
    return replace(
        padded,
        output=output,
        layout=layout,
        aliases=like.aliases,
        identities=like.identities,
    )


def _cut(leaf: Any, like: Any) -> Any:
    if not (isinstance(leaf, torch.Tensor) and isinstance(like, torch.Tensor)):
        return leaf
    if leaf.dim() != like.dim():
        return leaf
    return leaf[tuple(slice(size) for size in like.shape)]


def reason_against(builder: Builder, sizes: Mapping[str, int], bucket: Mapping[str, int]) -> str:
    """Return why a model must not be padded; empty if padding leaves the rest unchanged.

    Eager decides in float64, where rounding is no excuse.

    Args:
        builder: Builds the model.
        sizes: The size of each named dimension.
        bucket: Their sizes after padding.
    """
    planned = PlannedCall(0, dict(sizes))
    plain, padded = builder(Lifting()), builder(Lifting())
    right = plain.call(plain.prepare(planned), planned.index)
    found = padded.call(pad(padded, padded.prepare(planned), bucket), planned.index)
    if error := right.error or found.error:
        return f"eager raises {error_text.with_kind(error)} in float64"
    for path, leaf in cut(found, right).output.items():
        if not _is_same(leaf, right.output.get(path)):
            return f"padding changes eager's {path}"
    return ""


def _is_same(found: Any, right: Any) -> bool:
    if not (isinstance(found, torch.Tensor) and isinstance(right, torch.Tensor)):
        return bool(found == right)
    if found.shape != right.shape:
        return False
    if not (right.is_floating_point() or right.is_complex()):
        return torch.equal(found, right)
    finite = right[right.isfinite()].abs()
    scale = float(finite.max()) if finite.numel() else 0.0
    return torch.allclose(found, right, rtol=0.0, atol=_SAME * scale, equal_nan=True)
