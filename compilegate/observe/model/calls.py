"""The calls of a case: their plan and their arguments."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch._inductor.config

from compilegate.observe import nested
from compilegate.observe.device import device as device_of
from compilegate.observe.model.probes import Probe
from compilegate.records.case import Case
from compilegate.zoo.example import Call, Example, check_arguments, check_dims, check_keywords

#: The index of the first probing call. No other call of a case has one as large.
FIRST_PROBE = 500


@dataclass(frozen=True)
class PlannedCall:
    """The plan of one call of a model.

    Attributes:
        index: The number of the call.
        sizes: The size of each named dimension that varies.
        moved: Whether the weights change before the call. In *infer* nothing else changes them.
        probe: A change to the arguments that hardly any test makes; None for most calls.
        overlaps: Whether the forward of another call runs between forward and backward of this one.
            The backward of the other call follows and adds to the gradients. The cotangents have
            another memory layout than the outputs.
    """

    index: int
    sizes: dict[str, int]
    moved: bool = False
    overlaps: bool = False
    probe: Probe | None = None

    @property
    def is_probing(self) -> bool:
        """Whether it is a probing call, or the same call without the change."""
        return self.index >= FIRST_PROBE


def sizes_of(case: Case, sizes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Return the sizes of each named dimension that a case tries.

    Under *static* each size is compiled by itself. The first and the last, which is mostly the
    largest, judge the same as all of them.

    Args:
        case: The case.
        sizes: The sizes that its model declares.
    """
    if case.dynamic != "static":
        return dict(sizes)
    return {name: tuple(dict.fromkeys((each[0], each[-1]))) for name, each in sizes.items()}


def _first_calls(device: str) -> int:
    """Return the number of calls at the first sizes.

    CUDA graphs are recorded in the second call and replayed in the third.
    """
    return 3 if device_of(device).records_graphs else 2


def planned_calls(
    example: Example, vary: dict[str, tuple[int, ...]], device: str
) -> list[PlannedCall]:
    """Plan the calls of the capture: those of the example, or a few at the first sizes."""
    calls = len(example.calls) or _first_calls(device)
    return [PlannedCall(index, _first_sizes(vary)) for index in range(calls)]


def first_call(vary: dict[str, tuple[int, ...]]) -> PlannedCall:
    """Plan the first call."""
    return PlannedCall(0, _first_sizes(vary))


def _first_sizes(vary: dict[str, tuple[int, ...]]) -> dict[str, int]:
    return {name: sizes[0] for name, sizes in vary.items()}


def varied_calls(
    example: Example, vary: dict[str, tuple[int, ...]], case: Case
) -> list[PlannedCall]:
    """Plan the calls at the other sizes, one dimension after the other.

    Where code is for all sizes, one call has other sizes in all dimensions at once: code may be
    wrong where two differ from those that it was compiled with.

    Then follow a call at the first sizes with other weights, and one at the first of the other
    sizes: they use compiled code again after code for other sizes exists. With CUDA graphs, that
    call records a graph, and one more call replays it. In *train*, another forward runs before the
    backward of the last call, whose cotangents have another memory layout. CUDA graph trees do not
    support such a forward, so cases with CUDA graphs have no such call. Where Inductor freezes
    weights, they do not change: frozen code keeps their values on purpose.

    The cases of a model share the results of the reference by call number. A call number means the
    same call in all cases that have it, apart from those of *static*, which try fewer sizes.

    Args:
        example: What the recipe returned. If it lists its own calls, no further calls follow.
        vary: The sizes of each named dimension.
        case: The case.
    """
    if example.calls:
        return []
    first, tried = _first_sizes(vary), sizes_of(case, vary)
    others = [{**first, name: size} for name, sizes in tried.items() for size in sizes[1:]]
    graphs, trains = case.uses_cuda_graphs, case.phase == "train"
    replays = graphs or (trains and device_of(case.device).records_graphs)
    index = itertools.count(_first_calls(case.device))
    calls = [PlannedCall(next(index), sizes) for sizes in (*others, *_together(case, tried))]
    calls.append(PlannedCall(next(index), first, moved=not freezes(example, case)))
    calls += [PlannedCall(next(index), sizes) for sizes in others[:1] * (2 if replays else 1)]
    if trains and not graphs and not has_fixed_inputs(example):
        calls.append(PlannedCall(next(index), first, overlaps=True))
    return calls


def _together(case: Case, tried: Mapping[str, tuple[int, ...]]) -> list[dict[str, int]]:
    """Return the sizes of the call in which all dimensions differ from the first one.

    The least and the greatest size take turns, so that products of sizes stay in the range of the
    other calls: Inductor chooses kernels by such products, and guards on them.

    There are none under *static*, which compiles again for them, and where two sizes are equal:
    guards may make one number of them.
    """
    several = {name: sizes[1:] for name, sizes in tried.items() if len(sizes) > 1}
    picks = zip(several.items(), itertools.cycle((min, max)), strict=False)
    varying = {name: pick(sizes) for (name, sizes), pick in picks}
    sizes = {**_first_sizes(dict(tried)), **varying}
    is_distinct = len({*sizes.values()}) == len(sizes)
    return [sizes] if case.dynamic != "static" and len(varying) > 1 and is_distinct else []


def freezes(example: Example, case: Case) -> bool:
    """Whether Inductor writes weights into code. With grad mode on, it does not."""
    frozen = example.config.get("inductor.freezing", torch._inductor.config.freezing)
    return bool(frozen) and not example.with_grad and case.phase == "infer"


def items_of(call: Call, sizes: dict[str, int]) -> int:
    """Return the number of items in a call: its batch size, or the length of its first input.

    Without a batch size that varies, the length is that of the first dimension of the first tensor;
    0 if there is none.
    """
    if "batch" in sizes:
        return sizes["batch"]
    first = next((t for t in input_tensors(call).values() if t.dim()), None)
    return 0 if first is None else first.shape[0]


def arguments(example: Example, planned: PlannedCall) -> Call:
    """Return the arguments of a call as the recipe provides them."""
    if example.calls:
        given = example.calls[planned.index]
        return Call(given.args, given.kwargs, given.before, given.after)
    args = evaluate(example.inputs, planned.sizes)
    kwargs = evaluate(example.kwargs, planned.sizes)
    check_arguments("the value that inputs of Example returns", args)
    check_keywords("the value that kwargs of Example returns", kwargs)
    check_dims(example.dims, args, kwargs)
    return Call(args, kwargs)


def has_fixed_inputs(example: Example) -> bool:
    """Whether every call receives the same tensors."""
    return not (example.calls or callable(example.inputs) or callable(example.kwargs))


def gives_arguments(example: Example) -> bool:
    """Whether a recipe gives the arguments of its calls, and no function that makes them."""
    return bool(example.calls) or has_fixed_inputs(example)


def fixed_arguments(example: Example) -> tuple[Any, ...]:
    """Return the arguments that every call receives again."""
    return tuple(given for given in (example.inputs, example.kwargs) if not callable(given))


def is_driven(example: Example) -> bool:
    """Whether actions before the calls may change the model, for instance step an optimizer."""
    return any(call.before is not None for call in example.calls)


def input_tensors(call: Call) -> dict[str, torch.Tensor]:
    """Return the tensors among the arguments, by path: ``input[0]``, ``input.mask``."""
    return {n: leaf for n, leaf in input_leaves(call).items() if isinstance(leaf, torch.Tensor)}


def input_leaves(call: Call) -> dict[str, Any]:
    """Return all leaves of the arguments, by path."""
    return dict([*nested.leaves(call.args, "input"), *nested.leaves(call.kwargs, "input")])


def reverse_rows(given: list[torch.Tensor]) -> None:
    """Reverse the rows of fixed inputs in place, so that their values differ from call to call.

    Inputs that share memory with another input or with themselves keep their rows.
    """
    keys = [nested.storage_key(tensor) for tensor in given]
    for key, tensor in zip(keys, given, strict=True):
        if key is not None and keys.count(key) == 1 and tensor.dim() and tensor.is_contiguous():
            with torch.no_grad():
                tensor.copy_(tensor.flip(0))


def invoke(action: Callable[..., Any], argument: Any) -> None:
    """Call an action with the argument, or without it if the action takes none."""
    accepts = [
        p
        for p in inspect.signature(action).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)
        and p.default is p.empty
    ]
    action(*([argument] if accepts else []))


def evaluate(given: Any, sizes: Mapping[str, int]) -> Any:
    """Return arguments, which a recipe may give as a function of the sizes that it names."""
    if not callable(given):
        return given
    accepted = inspect.signature(given).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in accepted.values())
    return given(**{name: size for name, size in sizes.items() if takes_any or name in accepted})
