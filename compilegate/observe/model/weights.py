"""Check that a builder returns the same weights each time: only then can sides be compared."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import nn

from compilegate.observe.model.cast_weights import in_double
from compilegate.observe.model.subject import Subject

#: This many elements of each tensor are compared, evenly spaced: other weights differ everywhere.
_ELEMENTS = 1024
#: Two builds may round differently, by this many units of the dtype's resolution.
_ROUNDING = 16.0


def sample(subject: Subject) -> dict[str, torch.Tensor]:
    """Return a few elements of each parameter and buffer, by name."""
    tensors = {
        **{f"parameter {name}": parameter for name, parameter in subject.parameters().items()},
        **{f"buffer {name}": buffer for name, buffer in subject.buffers().items()},
    }
    return {name: _sample(tensor) for name, tensor in tensors.items() if _is_plain(tensor)}


def _is_plain(tensor: torch.Tensor) -> bool:
    kinds = (torch.Tensor, nn.Parameter)
    return type(tensor) in kinds and tensor.layout is torch.strided and not tensor.is_quantized


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach().reshape(-1)
    return flat[:: max(flat.numel() // _ELEMENTS, 1) | 1].clone()


def refuse_others(
    first: Mapping[str, torch.Tensor],
    second: Mapping[str, torch.Tensor],
    written: Collection[str] = (),
) -> None:
    """Refuse weights that differ between two builds under the same seed.

    Args:
        first: The sample of one build.
        second: The sample of the other build.
        written: The names that a call writes to. Buffers among them need no values before it.

    Raises:
        ValueError: A tensor differs; the message names the first.
    """
    for name, ours in first.items():
        if name.startswith("buffer ") and name in written:
            continue
        if _differ(ours, second.get(name)):
            raise ValueError(
                f"the builder returns different weights each time: {name} differs between two "
                "builds under one seed; draw weights from torch's, Python's or NumPy's generator"
            )


def _differ(ours: torch.Tensor, theirs: torch.Tensor | None) -> bool:
    if theirs is None or ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return True
    if not (ours.is_floating_point() or ours.is_complex()):
        return not torch.equal(ours, theirs)
    known, other = (in_double(side).nan_to_num(0.0, 0.0, 0.0) for side in (ours, theirs))
    allowed = _ROUNDING * torch.finfo(ours.dtype).eps * float(known.norm())
    return float((known - other).norm()) > allowed
