"""The calls of a case: which there are, and what they are given."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from compilegate.observe import nested
from compilegate.records.case import Case
from compilegate.zoo.example import Call, Example, check_arguments, check_dims, check_keywords


@dataclass(frozen=True)
class PlannedCall:
    """The ``index``-th call of a model, at ``sizes`` of what may vary.

    Attributes:
        index: Its number.
        sizes: Of what may vary.
        moved: Whether weights are others than before: in *infer* nothing else would move them.
        overlaps: Whether the forward of another call comes before its backward; that one's follows,
            and adds to its gradients. Cotangents lie in memory otherwise than outputs do.
    """

    index: int
    sizes: dict[str, int]
    moved: bool = False
    overlaps: bool = False


#: Calls at the first sizes. CUDA graphs are recorded in the second call and replayed in the third.
_FIRST_CALLS = {"cpu": 2, "cuda": 3}


def planned_calls(
    example: Example, vary: dict[str, tuple[int, ...]], device: str
) -> list[PlannedCall]:
    """The calls of the capture: the given ones, or a few at the first sizes, each of new values."""
    calls = len(example.calls) or _FIRST_CALLS[device]
    return [PlannedCall(index, _first_sizes(vary)) for index in range(calls)]


def first_call(vary: dict[str, tuple[int, ...]]) -> PlannedCall:
    """The first of all calls."""
    return PlannedCall(0, _first_sizes(vary))


def _first_sizes(vary: dict[str, tuple[int, ...]]) -> dict[str, int]:
    return {name: sizes[0] for name, sizes in vary.items()}


def varied_calls(
    example: Example, vary: dict[str, tuple[int, ...]], case: Case
) -> list[PlannedCall]:
    """The calls at every other size, one dimension after the other; none for given calls.

    Then the first sizes again, with other weights, and the first of the other ones: code that was
    compiled is used anew, once code for other sizes stands beside it. A CUDA graph of that size is
    recorded then, and replayed in a further call. In *train*, the last call has another forward
    before its backward (not with CUDA graphs, whose trees are not for that), and cotangents in
    another layout.

    Cases of a model share the results of the reference by their numbers: what is called under one
    number is the same in all of them, or is not called at all.

    Args:
        example: The recipe.
        vary: Sizes of what may vary.
        case: What they are calls of.
    """
    if example.calls:
        return []
    first = _first_sizes(vary)
    others = [{**first, name: size} for name, sizes in vary.items() for size in sizes[1:]]
    graphs, trains = case.uses_cuda_graphs, case.phase == "train"
    replays = graphs or (trains and case.device == "cuda")
    index = itertools.count(_FIRST_CALLS[case.device])
    calls = [PlannedCall(next(index), sizes) for sizes in others]
    calls.append(PlannedCall(next(index), first, moved=True))
    calls += [PlannedCall(next(index), sizes) for sizes in others[:1] * (2 if replays else 1)]
    if trains and not graphs and not has_fixed_inputs(example):
        calls.append(PlannedCall(next(index), first, overlaps=True))
    return calls


def items_of(call: Call, sizes: dict[str, int]) -> int:
    """What a call works on: the batch where that may vary, else the first dimension of its input.

    0 where there is no such thing.
    """
    if "batch" in sizes:
        return sizes["batch"]
    first = next((t for t in input_tensors(call).values() if t.dim()), None)
    return 0 if first is None else first.shape[0]


def arguments(example: Example, planned: PlannedCall) -> Call:
    """What the call is given, as the recipe has it."""
    if example.calls:
        given = example.calls[planned.index]
        return Call(given.args, given.kwargs, given.before, given.after)
    args, kwargs = _made(example.inputs, planned.sizes), _made(example.kwargs, planned.sizes)
    check_arguments("what inputs of Example returns", args)
    check_keywords("what kwargs of Example returns", kwargs)
    check_dims(example.dims, args, kwargs)
    return Call(args, kwargs)


def has_fixed_inputs(example: Example) -> bool:
    """Whether every call is given the same tensors."""
    return not (example.calls or callable(example.inputs) or callable(example.kwargs))


def fixed_arguments(example: Example) -> tuple[Any, ...]:
    """The arguments that are not made anew for each call."""
    return tuple(given for given in (example.inputs, example.kwargs) if not callable(given))


def is_driven(example: Example) -> bool:
    """Whether actions before the calls may change the model, stepping an optimizer, say."""
    return any(call.before is not None for call in example.calls)


def input_tensors(call: Call) -> dict[str, torch.Tensor]:
    """The tensors among the arguments: ``input[0]``, ``input.mask``."""
    return {n: leaf for n, leaf in input_leaves(call).items() if isinstance(leaf, torch.Tensor)}


def input_leaves(call: Call) -> dict[str, Any]:
    """Everything in the arguments, by path."""
    return dict([*nested.leaves(call.args, "input"), *nested.leaves(call.kwargs, "input")])


def reverse_rows(given: list[torch.Tensor]) -> None:
    """Give fixed inputs other values of the same kind, in place: their rows in reverse.

    Inputs that share memory with others or with themselves stay as they are.
    """
    keys = [nested.storage_key(tensor) for tensor in given]
    for key, tensor in zip(keys, given, strict=True):
        if key is not None and keys.count(key) == 1 and tensor.dim() and tensor.is_contiguous():
            with torch.no_grad():
                tensor.copy_(tensor.flip(0))


def invoke(action: Callable[..., Any], argument: Any) -> None:
    """Call an action with the argument, or with nothing if it takes none."""
    accepts = [
        p
        for p in inspect.signature(action).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)
        and p.default is p.empty
    ]
    action(*([argument] if accepts else []))


def _made(given: Any, sizes: dict[str, int]) -> Any:
    if not callable(given):
        return given
    accepted = inspect.signature(given).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in accepted.values())
    return given(**{name: size for name, size in sizes.items() if takes_any or name in accepted})
