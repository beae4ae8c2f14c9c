"""The result of one call of a subject, as copies that later calls cannot change."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.torch_version import TorchVersion
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from compilegate.observe import nested, objects
from compilegate.observe.model.random_draws import DrawRecording
from compilegate.zoo.example import Call

if TYPE_CHECKING:
    from compilegate.observe.model.shared_state import Moment

#: The name of the random generator among the state.
GENERATOR = "random generator"
#: The prefix of the names of the last call's outputs among the state of the next call.
KEPT = "kept "
#: How those of the first two calls begin, in later calls without CUDA graphs.
EARLY = ("first ", "second ")
#: Replaces a tensor that PyTorch refuses to read because a CUDA graph has reused its memory.
OVERWRITTEN = "overwritten by a later replay of a CUDA graph: reading it raises"
#: Whether healthy code is known to return the objects that eager returns. TorchVersion compares
#: versions, not text.
KNOWS_IDENTITIES = TorchVersion(torch.__version__) >= "2.15"
#: The property that says what a tensor leaves to those who read it: ``x.conj()`` computes nothing.
LAZY = "conjugate or negative bit"


@dataclass
class Result:
    """Everything that one call did.

    Attributes:
        output: The leaves of the output by path; tensors are copies.
        rest: The leaves of what ``Example.output`` did not pick, by path.
        layout: The properties of every tensor in ``output`` and ``rest`` that a copy loses: its
            stride, requires_grad, device and so on.
        nesting: The structure of the output as text.
        aliases: Groups of tensors that share memory. Each group contains at least one output.
        identities: Groups of paths that lead to one container, object or tensor. Each contains at
            least one path of the output; the others are of arguments and buffers.
        gradients: The gradients by the names of parameters, inputs and other leaves of autograd;
            None if none arrived.
        gradient_layouts: The layout of each gradient: ``strided`` or ``sparse_coo``.
        began: The variables that all sides share, as they were before the call.
        before: The state before the call. See :class:`.call_state.CallState`.
        state: The state after the call.
        written: The names of state tensors and parameters that the call wrote to or replaced, even
            if their values stayed the same.
        stayed: The names of state tensors and parameters that are the same object in the same
            memory after the call, with the same strides and the same ``requires_grad``. Also the
            memory around inputs that the call did not write to.
        moved: The changed properties of the others: ``memory``, ``stride``, ``requires_grad``, and
            the ``content`` of memory around inputs.
        strides: The strides of each state tensor after the call, as text.
        sharing: Groups of state tensors and parameters that share memory after the call. None with
            CUDA graphs, whose replays write to the memory of what they left before.
        tracked: The names of new state tensors that require gradients.
        parameters: The parameters that the call wrote to, after it. If actions around the calls may
            write to parameters, all of them.
        started: The values of these parameters before the call, if they are known.
        recording: The random tensors that the call drew, if they were recorded.
        found_inf: Whether scaled gradients overflowed, as ``GradScaler`` determines it.
        error: The exception that the call raised.
        swaps_weights: Whether the action before the call changed parameters or buffers.
        blocks: The numbers that blocks got. See :class:`.CallFacts`.
    """

    output: dict[str, Any] = field(default_factory=dict)
    rest: dict[str, Any] = field(default_factory=dict)
    layout: dict[str, dict[str, str]] = field(default_factory=dict)
    nesting: str = ""
    aliases: frozenset[frozenset[str]] = frozenset()
    identities: frozenset[frozenset[str]] = frozenset()
    gradients: dict[str, torch.Tensor | None] = field(default_factory=dict)
    gradient_layouts: dict[str, str] = field(default_factory=dict)
    began: Moment | None = None
    before: dict[str, Any] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    written: frozenset[str] = frozenset()
    stayed: frozenset[str] = frozenset()
    moved: dict[str, str] = field(default_factory=dict)
    strides: dict[str, str] = field(default_factory=dict)
    sharing: frozenset[frozenset[str]] | None = None
    tracked: frozenset[str] = frozenset()
    parameters: dict[str, torch.Tensor] = field(default_factory=dict)
    started: dict[str, torch.Tensor] = field(default_factory=dict)
    recording: DrawRecording | None = None
    found_inf: bool = False
    error: Exception | None = None
    swaps_weights: bool = False
    blocks: tuple[dict[str, float], ...] = ()

    @property
    def nbytes(self) -> int:
        """The size of all tensors in the result, in bytes."""
        parts = (self.output, self.rest, self.gradients, self.before, self.state, self.parameters)
        leaves = (leaf for part in parts for leaf in part.values())
        return sum(leaf.nbytes for leaf in leaves if isinstance(leaf, torch.Tensor))

    @property
    def draws(self) -> bool:
        """Whether the call drew random numbers."""
        return self.error is None and self.before[GENERATOR] != self.state[GENERATOR]


class Placed:
    """The places of tensors: the properties that a copy loses and that other code may rely on.

    Args:
        leaves: The state that a call may change, by name. The object keeps it alive, because a new
            tensor could get the address of a freed one.
    """

    def __init__(self, leaves: Mapping[str, Any]) -> None:
        self._tensors = {n: leaf for n, leaf in leaves.items() if isinstance(leaf, torch.Tensor)}
        self._places = {name: _place_of(tensor) for name, tensor in self._tensors.items()}

    def until(self, later: Placed) -> tuple[frozenset[str], dict[str, str]]:
        """Return the names of tensors that stayed, and the changed properties of the others."""
        moved = {
            name: ", ".join(_changed(place, later._places[name]))
            for name, place in self._places.items()
            if name in later._places
        }
        stayed = (n for n, what in moved.items() if not what and self._is_same(n, later))
        return frozenset(stayed), {name: what for name, what in moved.items() if what}

    def new_with_grad(self, earlier: Placed) -> frozenset[str]:
        """Return the names of tensors that require gradients and were not there before."""
        new = self._tensors.keys() - earlier._tensors.keys()
        return frozenset(name for name in new if self._tensors[name].requires_grad)

    def _is_same(self, name: str, later: Placed) -> bool:
        return self._tensors[name] is later._tensors[name]


def _changed(place: Mapping[str, Any], later: Mapping[str, Any]) -> Iterator[str]:
    """Yield the changed properties. Memory counts only if both tensors have an address."""
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


def copies(leaves: Mapping[str, Any]) -> dict[str, Any]:
    """Return copies of leaves, by name. The copies have no autograd history."""
    return {name: copy_of(leaf) for name, leaf in leaves.items()}


def copy_of(leaf: Any) -> Any:
    """Return a copy of a leaf.

    A tensor becomes a dense copy without autograd history, a NumPy array a tensor, and a set one
    that cannot change. The result is OVERWRITTEN if a later call of a CUDA graph has reused the
    memory of the tensor.
    """
    if isinstance(leaf, set):
        return frozenset(leaf)
    if not isinstance(leaf, torch.Tensor):
        return _copy_of_array(leaf) if objects.is_array(leaf) else leaf
    dense = clone_of(leaf)
    if dense is None:
        return OVERWRITTEN
    if dense.layout is torch.jagged:
        dense = dense.values()
    dense = dense if dense.layout is torch.strided else dense.to_dense()
    if dense.is_floating_point() and dense.element_size() == 1:  # few operators take such numbers
        dense = dense.float()
    if dense.dtype is torch.complex32:
        dense = dense.to(torch.complex64)
    # As plain tensors, copies do not run the operators of a builder's own subclass.
    return dense if is_traceable_wrapper_subclass(dense) else dense.as_subclass(torch.Tensor)


def clone_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return a copy of a tensor; None if a later call of a CUDA graph has reused its memory."""
    try:
        return tensor.detach().clone()
    except RuntimeError as error:
        if "CUDAGraphs that has been overwritten" in str(error):
            return None
        raise


def _copy_of_array(leaf: Any) -> Any:
    array = sys.modules["numpy"].array(leaf)
    try:
        return torch.from_numpy(array)
    except TypeError:  # strings, dates or objects
        return str(array.tolist())


def layout_of(tensor: torch.Tensor) -> dict[str, str]:
    """Return a tensor's properties except its values, without strides of dimensions of size 1."""
    return {
        "type": "Tensor" if isinstance(tensor, torch.nn.Parameter) else type(tensor).__name__,
        "shape": _shape_of(tensor),
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "stride": strides_of(tensor),
        "device": tensor.device.type,
        "requires_grad": str(tensor.requires_grad),
        "attributes": str(own_attributes(tensor)),
        LAZY: _lazy_bits_of(tensor),
    }


def _lazy_bits_of(tensor: torch.Tensor) -> str:
    """Return which of the two bits are set, as text."""
    if tensor.layout is not torch.strided:
        return "none"
    bits = {"conjugate": tensor.is_conj(), "negative": tensor.is_neg()}
    return ", ".join(name for name, is_set in bits.items() if is_set) or "none"


def _shape_of(tensor: torch.Tensor) -> str:
    """Return a tensor's shape as text; of a jagged one, with the lengths of its rows.

    The ragged size itself is a symbol, and each tensor has another one.
    """
    if tensor.layout is not torch.jagged:
        return str(tuple(tensor.shape))
    offsets: torch.Tensor = tensor.offsets()  # type: ignore[attr-defined]  # jagged ones have it
    lengths = offsets.diff().tolist()
    return str(tuple(size if type(size) is int else lengths for size in tensor.shape))


def strides_of(tensor: torch.Tensor) -> str:
    """Return a tensor's strides as text, without those of dimensions of size 1."""
    strides: object = tensor.layout
    if tensor.layout is torch.strided and type(tensor) in (torch.Tensor, torch.nn.Parameter):
        pairs = zip(tensor.shape, tensor.stride(), strict=True)
        strides = tuple(stride if size > 1 else "-" for size, stride in pairs)
        strides = strides if tensor.numel() else "empty"
    return str(strides).replace("'", "")


def own_attributes(tensor: torch.Tensor) -> dict[str, object]:
    """Return the plain attributes that a model has given to a tensor, by name."""
    held = sorted(getattr(tensor, "__dict__", {}).items())
    plain = (bool, int, float, str, type(None))
    return {n: value for n, value in held if not n.startswith("_") and isinstance(value, plain)}


def tensors_on(tensor: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the tensors that a model has given to a tensor as attributes, by name."""
    held = sorted(getattr(tensor, "__dict__", {}).items())
    return {
        name: value
        for name, value in held
        if not name.startswith("_") and isinstance(value, torch.Tensor)
    }


def aliases_of(
    outputs: Mapping[str, torch.Tensor], others: Mapping[str, torch.Tensor]
) -> frozenset[frozenset[str]]:
    """Return the groups of tensors that share memory and contain an output."""
    groups = sharing_of({**others, **outputs})
    return frozenset(group for group in groups if group & outputs.keys())


def identities_of(
    output: Any, call: Call, others: Mapping[str, torch.Tensor] | None
) -> frozenset[frozenset[str]]:
    """Return the groups of paths that lead to one object and contain one of the output.

    There are none before 2.15.

    A caller who changes a list or a cache that a model returns changes the one that it has given.
    One who calls ``output.requires_grad_()`` or ``output.resize_()`` may change an input.

    Args:
        output: What a call returned.
        call: The arguments of the call.
        others: Other tensors that it may return, by name. None leaves out all tensors.
    """
    if not KNOWS_IDENTITIES:
        return frozenset()
    groups: dict[int, set[str]] = {}
    for path, values in {"output": [output], "input": [call.args, call.kwargs]}.items():
        for value in values:
            for at, held in nested.mutable(value, path, nested.Opening()):
                groups.setdefault(id(held), set()).add(at)
            if others is not None:
                for at, tensor in nested.tensors(value, path, nested.Opening()).items():
                    groups.setdefault(id(tensor), set()).add(at)
    for name, tensor in (others or {}).items():
        groups.setdefault(id(tensor), set()).add(name)
    several = (frozenset(group) for group in groups.values() if len(group) > 1)
    return frozenset(group for group in several if any(path.startswith("output") for path in group))


def sharing_of(tensors: Mapping[str, torch.Tensor]) -> frozenset[frozenset[str]]:
    """Return the groups of tensors that share memory."""
    groups: dict[int, set[str]] = {}
    for name, tensor in tensors.items():
        if (key := nested.storage_key(tensor)) is not None:
            groups.setdefault(key, set()).add(name)
    return frozenset(frozenset(group) for group in groups.values() if len(group) > 1)
