"""The dropout mask of a fused attention kernel, which draws the mask and does not return it.

The mask depends on the state of the generator and on shapes, but not on numbers. With equal scores,
no probability is zero. Then the output for a value that is one at a single key is zero exactly
where the kernel dropped that key.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from compilegate.observe.device import device as device_of
from compilegate.observe.model.nudging import without_repeats

#: The first arguments of attention, and those of a kernel for sequences of unequal lengths.
_ARGUMENTS, _LENGTHS = ("query", "key", "value"), ("cu_seqlens_q", "cum_seq_q")
#: A bias below this hides a key.
_HIDES = -1e4
#: Attention that is computed step by step with the mask errs by less than this share of its scale.
#: With another mask, it errs by about the root of the share that is dropped.
_SAME = 1 / 16


def is_fused_attention(func: Any) -> bool:
    """Whether an operator is attention in one kernel, for sequences of equal lengths."""
    names = [argument.name for argument in func._schema.arguments]
    is_attention = tuple(names[:3]) == _ARGUMENTS and "dropout_p" in names
    return is_attention and not any(name in names for name in _LENGTHS)


def run(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, torch.Tensor | None]:
    """Run fused attention with dropout, and recover its mask.

    Args:
        func: The operator.
        args: Its arguments. Query, key and value are (..., heads, length, width).
        kwargs: Its arguments by name.

    Returns:
        What the operator returns, and the mask: True where it kept a probability, of shape
        (..., heads, queries, keys). The mask is None if attention step by step does not confirm it,
        or if it does not fit into memory.
    """
    names = [argument.name for argument in func._schema.arguments]
    attention = _Attention(func, {**dict(zip(names, args, strict=False)), **kwargs})
    result = func(*args, **kwargs)
    after = attention.device.generator_state()
    try:
        mask = attention.mask()
        return result, mask if attention.confirms(mask) else None
    except RuntimeError as error:  # the mask of a long sequence is larger than all else
        if not attention.device.is_out_of_memory(error):
            raise
        return result, None
    finally:
        attention.device.set_generator_state(after)


def _with_strides_of(tensor: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Return numbers with the strides of a tensor: kernels refuse a bias whose rows are unaligned.

    Args:
        tensor: Of any strides, such as a part of a padded tensor, or an expanded one.
        numbers: Of its shape. Where a stride is zero, they are equal.
    """
    once, first = without_repeats(tensor, numbers)
    placed = torch.empty_strided(
        once.shape, once.stride(), dtype=tensor.dtype, device=tensor.device
    )
    return placed.copy_(first).expand(tensor.shape)


class _Attention:
    """A call of fused attention, which is made again with other numbers of the same shapes.

    Args:
        func: The operator.
        given: Its arguments by name.

    Attributes:
        device: The device that it runs on.
    """

    def __init__(self, func: Any, given: dict[str, Any]) -> None:
        self._func, self._given = func, given
        self.device = device_of(given["query"].device.type)
        self._state = self.device.generator_state()
        self._bias: torch.Tensor | None = given.get("attn_bias")
        if self._bias is not None:
            hidden = torch.zeros_like(self._bias).masked_fill(self._bias < _HIDES, -math.inf)
            self._bias = _with_strides_of(self._bias, hidden)

    def mask(self) -> torch.Tensor:
        """Return the mask, a few keys at a time: as many as the value is wide."""
        query, key, value = (torch.zeros_like(self._given[name]) for name in _ARGUMENTS)
        keys, width = value.shape[-2:]
        kept = []
        for first in range(0, keys, width):
            some = value[..., first : first + width, :]
            some.diagonal(dim1=-2, dim2=-1).fill_(1.0)
            kept.append(self._output(query, key, value)[..., : some.shape[-2]] != 0)
            some.zero_()
        return torch.cat(kept, -1)

    def confirms(self, mask: torch.Tensor) -> bool:
        """Whether attention step by step gives what the kernel gives, in the first of the batch."""
        generator = torch.Generator(mask.device).manual_seed(0)
        query, key, value = (
            torch.zeros_like(self._given[name]).normal_(generator=generator) for name in _ARGUMENTS
        )
        fused = self._output(query, key, value)[:1].float()
        groups = query.shape[-3] // key.shape[-3]
        key, value = (one[:1].float().repeat_interleave(groups, -3) for one in (key, value))
        scale = self._given.get("scale") or 1 / math.sqrt(query.shape[-1])
        scores = scale * query[:1].float() @ key.mT
        if self._bias is not None:
            scores = scores + self._bias[:1]
        if self._given.get("is_causal"):
            later = torch.ones_like(scores, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, -math.inf)
        seen = scores.amax(-1, keepdim=True) > -math.inf
        kept = scores.softmax(-1) * mask[:1] / (1 - self._given["dropout_p"])
        steps = (kept @ value).where(seen, 0.0)
        off = (fused - steps).where(seen, 0.0)
        return bool(off.norm() <= _SAME * steps.norm())

    def _output(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        self.device.set_generator_state(self._state)
        bias = {} if self._bias is None else {"attn_bias": self._bias}
        given = {**self._given, "query": query, "key": key, "value": value, **bias}
        output: torch.Tensor = self._func(**given)[0]
        return output
