"""What one call of a subject did, written down as copies that later calls cannot change."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from compilegate.observe import nested
from compilegate.observe.model.random_draws import Tape

#: The name under which the state of the random generator stands.
GENERATOR = "random generator"
#: How names of the last call's outputs begin, among the state of the next one.
KEPT = "kept "
#: Stands for a tensor that PyTorch refuses to read because a CUDA graph has reused its memory.
OVERWRITTEN = "overwritten by a later call of a CUDA graph: reading it raises"
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass
class Result:
    """What one call did.

    Attributes:
        output: Leaves of the output by path; tensors are copies.
        layout: Of every output tensor, what a copy does not keep: stride, requires_grad, device.
        nesting: The output's structure as text.
        aliases: Groups of outputs, inputs and state that share memory, outputs only with others.
        gradients: By the names of parameters and inputs; None where no gradient arrived.
        before: What the call may change besides, before it. See :meth:`Subject.state`.
        state: The same after it.
        written: Names of the tensors in it, and of parameters, that were written to or replaced,
            whatever the value.
        stayed: Names of those tensors that are the same object in the same memory after it, with
            the same strides, and that require a gradient as before.
        moved: What is another one of those that are not: ``memory``, ``stride``, ``requires_grad``.
        parameters: Parameters after it that it wrote to; all where actions around the calls may.
        started: What these were before, as far as it is known.
        tape: The random tensors that it drew, if they were recorded.
        found_inf: Whether scaled gradients overflowed, as ``GradScaler`` sees it.
        error: What it raised instead.
    """

    output: dict[str, Any] = field(default_factory=dict)
    layout: dict[str, dict[str, str]] = field(default_factory=dict)
    nesting: str = ""
    aliases: frozenset[frozenset[str]] = frozenset()
    gradients: dict[str, torch.Tensor | None] = field(default_factory=dict)
    before: dict[str, Any] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    written: frozenset[str] = frozenset()
    stayed: frozenset[str] = frozenset()
    moved: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, torch.Tensor] = field(default_factory=dict)
    started: dict[str, torch.Tensor] = field(default_factory=dict)
    tape: Tape | None = None
    found_inf: bool = False
    error: Exception | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors in it."""
        parts = (self.output, self.gradients, self.before, self.state, self.parameters)
        leaves = (leaf for part in parts for leaf in part.values())
        return sum(leaf.nbytes for leaf in leaves if isinstance(leaf, torch.Tensor))

    @property
    def draws(self) -> bool:
        """Whether the call drew random numbers."""
        return self.error is None and self.before[GENERATOR] != self.state[GENERATOR]


class Placed:
    """Tensors by name, where they are: what a copy does not keep, and others may rely on.

    Args:
        leaves: What a call may change, by name. It is kept alive, or an address might be given
            again to what takes its place.
    """

    def __init__(self, leaves: Mapping[str, Any]) -> None:
        self._tensors = {n: leaf for n, leaf in leaves.items() if isinstance(leaf, torch.Tensor)}
        self._places = {name: _place_of(tensor) for name, tensor in self._tensors.items()}

    def until(self, later: Placed) -> tuple[frozenset[str], dict[str, str]]:
        """Which tensors stayed, and what is another one of those that did not."""
        moved = {
            name: ", ".join(_changed(place, later._places[name]))
            for name, place in self._places.items()
            if name in later._places
        }
        stayed = (n for n, what in moved.items() if not what and self._is_same(n, later))
        return frozenset(stayed), {name: what for name, what in moved.items() if what}

    def _is_same(self, name: str, later: Placed) -> bool:
        return self._tensors[name] is later._tensors[name]


def _changed(place: Mapping[str, Any], later: Mapping[str, Any]) -> Iterator[str]:
    """What is another one; where a tensor does not tell its memory, that is not known."""
    for what, value in place.items():
        known = what != "memory" or None not in (value, later[what])
        if known and later[what] != value:
            yield what


def _place_of(tensor: torch.Tensor) -> dict[str, Any]:
    strided = tensor.layout is torch.strided
    return {
        "memory": nested.storage_key(tensor),
        "stride": tensor.stride() if strided else None,
        "requires_grad": tensor.requires_grad,
    }


def fingerprints(
    leaves: Mapping[str, Any], parameters: Mapping[str, torch.Tensor]
) -> dict[str, tuple[int, ...]]:
    """What differs where a tensor was written to or replaced, whatever the value.

    Identity and version, which autograd raises at each writing; and of parameters the sum of their
    bits, since writing through ``.data`` raises no version.

    Args:
        leaves: What a call may change, by name.
        parameters: Parameters by name.
    """
    sums = _sums_of_bits(parameters)
    return {
        name: (id(leaf), leaf._version, sums.get(name, 0))
        for name, leaf in {**leaves, **parameters}.items()
        if isinstance(leaf, torch.Tensor) and not leaf.is_inference()
    }


def _sums_of_bits(parameters: Mapping[str, torch.Tensor]) -> dict[str, int]:
    dense = {
        name: parameter.detach()
        for name, parameter in parameters.items()
        if type(parameter) is torch.nn.Parameter and parameter.layout is torch.strided
    }
    if not dense:
        return {}
    real = map(nested.real, dense.values())
    sums = torch.stack([tensor.view(_BITS[tensor.element_size()]).sum() for tensor in real])
    return dict(zip(dense, sums.tolist(), strict=True))


def copies(leaves: Mapping[str, Any]) -> dict[str, Any]:
    """Leaves by name, tensors copied without their history."""
    return {name: copy_of(leaf) for name, leaf in leaves.items()}


def copy_of(leaf: Any) -> Any:
    """A leaf; of a tensor, a dense copy without its history, and of a NumPy array a tensor.

    OVERWRITTEN of one in the memory of a CUDA graph that a later call has used again.
    """
    if not isinstance(leaf, torch.Tensor):
        return _copy_of_array(leaf)
    dense = clone_of(leaf)
    if dense is None:
        return OVERWRITTEN
    dense = dense if dense.layout is torch.strided else dense.to_dense()
    # What a builder's own kind of tensor does with another's, of another side, is not asked.
    return dense if is_traceable_wrapper_subclass(dense) else dense.as_subclass(torch.Tensor)


def clone_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """A copy; None of a tensor in the memory of a CUDA graph that a later call has used again."""
    try:
        return tensor.detach().clone()
    except RuntimeError as error:
        if "CUDAGraphs that has been overwritten" in str(error):
            return None
        raise


def _copy_of_array(leaf: Any) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(leaf, (numpy.ndarray, numpy.generic)):
        return leaf
    array = numpy.array(leaf)
    try:
        return torch.from_numpy(array)
    except TypeError:  # of strings, dates or objects
        return str(array.tolist())


def layout_of(tensor: torch.Tensor) -> dict[str, str]:
    """What is said of a tensor besides its values. Strides of dimensions of size 1 mean nothing."""
    strides: object = tensor.layout
    if tensor.layout is torch.strided and type(tensor) in (torch.Tensor, torch.nn.Parameter):
        pairs = zip(tensor.shape, tensor.stride(), strict=True)
        strides = tuple(stride if size > 1 else "-" for size, stride in pairs)
        strides = strides if tensor.numel() else "empty"
    return {
        "type": "Tensor" if isinstance(tensor, torch.nn.Parameter) else type(tensor).__name__,
        "shape": str(tuple(tensor.shape)),
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "stride": str(strides).replace("'", ""),
        "device": tensor.device.type,
        "requires_grad": str(tensor.requires_grad),
    }


def aliases_of(
    outputs: Mapping[str, torch.Tensor], others: Mapping[str, torch.Tensor]
) -> frozenset[frozenset[str]]:
    """Groups of tensors that share memory, of those with an output among them."""
    groups: dict[int, set[str]] = {}
    for name, tensor in {**others, **outputs}.items():
        if (key := nested.storage_key(tensor)) is not None:
            groups.setdefault(key, set()).add(name)
    return frozenset(
        frozenset(group) for group in groups.values() if len(group) > 1 and group & outputs.keys()
    )
