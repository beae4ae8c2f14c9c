"""Compare one call: compiled code with eager, and both with the reference.

Exact properties come first, between eager and compiled code: structure, shapes, dtypes, strides,
aliasing, the places of NaN and infinity, integers and booleans. Then follow floating values, each
tensor relative to its own scale in the reference. The result consists of facts; the suites decide
what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._dynamo import exc

from compilegate.observe import error_text, objects
from compilegate.observe.compare import exact, places
from compilegate.observe.compare.eager_noise import Sample
from compilegate.observe.compare.layouts import compare_layouts, without_undecided_shapes
from compilegate.observe.compare.values import NOTHING_KNOWN, compare_values
from compilegate.observe.model.equality import PLAIN, is_same
from compilegate.observe.model.global_state import CHANGED_BY_LOADING
from compilegate.observe.model.result import KEPT, OVERWRITTEN, Result
from compilegate.observe.model.state import STRUCTURE
from compilegate.observe.model.wrapped import in_parts
from compilegate.records.call import Checked, Difference

#: What Dynamo appends to the message of an error.
_APPENDED = re.compile(r"\s*\n\s*from user code:[\s\S]*")


@dataclass(frozen=True)
class CallResults:
    """The results of one call: of eager, of compiled code and of the references.

    Attributes:
        eager: The eager call.
        compiled: The compiled call.
        references: The reference and its alternative. Each tensor is compared with the one that
            eager is closer to.
        samples: Nudged eager runs of the same call: see ``eager_noise``.
        half: Whether the case computes in half precision, or in TF32, whose mantissa is as short.
        same_message: Whether compiled code must raise with eager's message, too.
    """

    eager: Result
    compiled: Result
    references: Sequence[Result] = ()
    samples: Sequence[Sample] = ()
    half: bool = False
    same_message: bool = False

    def compare(
        self,
        values: Callable[[Result], Mapping[str, Any]],
        known: Checked,
        *,
        by_rows: bool = False,
        by_slices: bool = False,
    ) -> Checked:
        """Compare named values of each result. See :func:`compare_values`.

        Args:
            values: Returns the values of a result, by name.
            known: The result of the same comparison with fewer samples.
            by_rows: Whether to examine rows and columns, too.
            by_slices: Whether to examine slices along each dimension, too.
        """
        return compare_values(
            values(self.eager),
            values(self.compiled),
            [values(reference) for reference in self.references],
            [(values(sample.result), sample.nudge) for sample in self.samples],
            half=self.half,
            by_rows=by_rows,
            by_slices=by_slices,
            known=known,
        )


def compare_outputs(
    call: CallResults, *, by_rows: bool = False, known: Checked = NOTHING_KNOWN
) -> Checked:
    """Compare the outputs of one call.

    Args:
        call: The results of the call.
        by_rows: Whether to examine rows and columns, too.
        known: The result of the same comparison with fewer samples.
    """
    eager, compiled = call.eager, call.compiled
    raised = _raised(eager, compiled)
    if raised is None and call.same_message and not _has_same_message(eager, compiled):
        raised = _unlike_errors(eager, compiled)
    if raised is not None:
        return Checked(differences=(raised,))
    differences, shapes = without_undecided_shapes(
        compare_layouts(eager, compiled),
        eager,
        [*call.references, *(sample.result for sample in call.samples)],
    )
    # The result holds NumPy arrays as tensors, without a layout.
    for path in eager.output.keys() - eager.layout.keys():
        ours, theirs = eager.output[path], compiled.output.get(path)
        if isinstance(ours, torch.Tensor) and isinstance(theirs, torch.Tensor):
            differences += exact.unlike(path, ours, theirs)
    lost, gained = eager.aliases - compiled.aliases, compiled.aliases - eager.aliases
    if lost or gained:
        differences.append(exact.difference("output", "aliasing", _groups(lost), _groups(gained)))
    elif eager.identities != compiled.identities:
        sides = (eager, compiled), (compiled, eager)
        texts = [_outermost(one.identities - other.identities) for one, other in sides]
        differences.append(exact.difference("output", "identity", *texts))
    values = call.compare(lambda result: result.output, known, by_rows=by_rows, by_slices=True)
    values += call.compare(lambda result: result.rest, known)
    opaque = tuple(
        f"{path} ({type(leaf).__name__})"
        for path, leaf in eager.output.items()
        if not isinstance(leaf, (torch.Tensor, float, *PLAIN))
    )
    return replace(
        values,
        differences=(*differences, *values.differences),
        decisions=(*shapes, *values.decisions),
        opaque=opaque,
    )


def compare_gradients(call: CallResults, *, known: Checked = NOTHING_KNOWN) -> Checked:
    """Compare the gradients of parameters and floating inputs after one call.

    Gradients that overflowed on both sides are not compared: no optimizer would use them.

    Args:
        call: The results of the call.
        known: The result of the same comparison with fewer samples.
    """
    eager, compiled = call.eager, call.compiled
    if eager.error is not None or compiled.error is not None or overflowed(eager, compiled):
        return Checked()
    layouts = tuple(
        exact.difference(f"gradient {name}", "layout", layout, compiled.gradient_layouts[name])
        for name, layout in eager.gradient_layouts.items()
        if compiled.gradient_layouts.get(name, layout) != layout
    )
    # In single precision, a ReLU that opens changes the gradients of one channel alone.
    values = call.compare(_gradients, known, by_slices=call.half)
    return replace(values, differences=(*layouts, *values.differences))


def overflowed(eager: Result, compiled: Result) -> bool:
    """Whether scaled gradients overflowed on both sides. On one side only, it is a difference."""
    return eager.found_inf and compiled.found_inf


def compare_state(call: CallResults, *, known: Checked = NOTHING_KNOWN) -> Checked:
    """Compare the state after one call.

    State that eager does not change must stay the same, bit by bit and in the same memory, because
    other tensors may share it. State that neither side changes is only counted. An earlier output
    of a CUDA graph may be unreadable, but no other tensor in the memory of the graph. If both sides
    raise, only the switches of the process are compared: ``with`` restores them in any case.

    Args:
        call: The results of the call.
        known: The result of the same comparison with fewer samples.
    """
    eager, compiled = call.eager, call.compiled
    if (eager.error is None) != (compiled.error is None):
        return Checked()
    forgiven = {name for name, value in compiled.state.items() if _is_of_a_graph(name, value)}
    forgiven |= {name for name in CHANGED_BY_LOADING if _has_changed(eager, name)}
    judged = [name for name in eager.state if name not in forgiven]
    changed = [n for n in judged if n in eager.written or _has_changed(eager, n)]
    touched = [
        exact.touched(name, compiled.before[name], compiled.state.get(name))
        for name in judged
        if name not in changed and _has_changed(compiled, name) and name in compiled.before
    ]
    touched += [
        exact.difference(name, "version", "raises it", "writes without raising it")
        for name in judged
        if _is_unnoticed(name, eager, compiled)
    ]
    touched += [
        exact.difference(name, what, "leaves it unchanged", "changes it")
        for name, what in compiled.moved.items()
        if name in eager.stayed
    ]
    touched += [
        exact.difference(name, "version", "leaves it", "raises it without a change")
        for name in judged
        if _is_raised_alone(name, eager, compiled)
    ]
    untouched = [*places.unlike(eager, compiled, judged)]
    untouched += [
        exact.difference(
            name, "requires_grad", *(name in side.tracked for side in (eager, compiled))
        )
        for name in eager.tracked ^ compiled.tracked
        if all(isinstance(side.state.get(name), torch.Tensor) for side in (eager, compiled))
    ]
    present = eager.state.keys() | compiled.before.keys()
    changed += [n for n in compiled.state if n not in present and not _is_private(n)]
    changed += [n for n in compiled.state if n in eager.before and n not in eager.state]

    def of(result: Result) -> dict[str, Any]:
        return in_parts({name: result.state[name] for name in changed if name in result.state})

    values = call.compare(of, known)
    tensors = sum(isinstance(value, torch.Tensor) for value in eager.state.values())
    differences = _without_repetition([*touched, *values.differences, *untouched])
    errors = tuple(
        replace(error, unwritten=error.name in compiled.before)
        if not _has_changed(compiled, error.name)
        else error
        for error in values.errors
    )
    return replace(values, tensors=tensors, differences=differences, errors=errors)


def _without_repetition(differences: Sequence[Difference]) -> tuple[Difference, ...]:
    """Leave out that the structure of a value differs where a part of it is shown to differ."""
    parts = [one.where for one in differences if not one.where.endswith(STRUCTURE)]

    def is_shown(whole: str) -> bool:
        value = whole.removesuffix(STRUCTURE)
        return value != whole and any(part.startswith((f"{value}.", f"{value}[")) for part in parts)

    return tuple(one for one in differences if not is_shown(one.where))


def _is_unnoticed(name: str, eager: Result, compiled: Result) -> bool:
    """Whether compiled code writes what eager writes, too, but autograd would not notice.

    It compares the version of a tensor with that of a saved one. Inference tensors have none. A
    buffer counts if it stays in its memory on both sides.
    """
    value = eager.state[name]
    stays = name in eager.stayed and name in compiled.stayed
    return (
        (name.startswith("input") or (name.startswith("buffer ") and stays))
        and isinstance(value, torch.Tensor)
        and name in eager.before
        and name in eager.written
        and name not in compiled.written
        and name in compiled.state
        and _has_changed(compiled, name)
    )


def _is_raised_alone(name: str, eager: Result, compiled: Result) -> bool:
    """Whether compiled code raises the version of an input that eager leaves alone.

    Autograd then refuses a tensor that was saved before. Buffers do not count: eager batch norm
    writes to its running statistics without raising their version.
    """
    stays = name in eager.stayed and name in compiled.stayed
    return (
        name.startswith("input")
        and stays
        and name in compiled.written
        and name not in eager.written
        and not _has_changed(eager, name)
        and not _has_changed(compiled, name)
    )


def _is_of_a_graph(name: str, value: Any) -> bool:
    """Whether a state value is an earlier output whose memory a CUDA graph has reused."""
    return name.startswith(KEPT) and value is OVERWRITTEN


def _is_private(name: str) -> bool:
    """Whether an attribute is private: torch.compile adds private attributes to modules."""
    kind, _, path = name.partition(" ")
    return kind == "attribute" and any(part.startswith("_") for part in path.split("."))


def _has_changed(result: Result, name: str) -> bool:
    return (
        name not in result.before
        or name not in result.state
        or not is_same(result.before[name], result.state[name])
    )


def _gradients(result: Result) -> dict[str, Any]:
    return {f"gradient {name}": value for name, value in result.gradients.items()}


def _raised(eager: Result, compiled: Result) -> Difference | None:
    """The difference if one side raised and the other did not raise an error of the same class."""
    if eager.error is None and compiled.error is None:
        return None
    kind, kinds = type(eager.error), type(compiled.error).__mro__
    alike = eager.error is not None and any(objects.alike(kind, one) for one in kinds)
    if alike and not _is_compilers_own(compiled.error):
        return None
    return _unlike_errors(eager, compiled)


def _unlike_errors(eager: Result, compiled: Result) -> Difference:
    return exact.difference("call", "raises", _error_text(eager.error), _error_text(compiled.error))


def _has_same_message(eager: Result, compiled: Result) -> bool:
    """Whether the errors of both sides have one message.

    Operators without data word their errors differently, so that an error from these counts. Where
    Dynamo raises one while it traces, it appends the line of the user.
    """
    of_operators = isinstance(compiled.error, exc.TorchRuntimeError)
    return of_operators or str(eager.error) == _APPENDED.sub("", str(compiled.error))


def _is_compilers_own(error: Exception | None) -> bool:
    """Whether the compiler failed, not the model. Its errors are RuntimeErrors, too."""
    return isinstance(error, (exc.BackendCompilerFailed, exc.InternalTorchDynamoError))


def raised_alike(eager: Result, compiled: Result) -> str:
    """Return the error that both sides raised, as text; empty if they did not."""
    if eager.error is None or _raised(eager, compiled) is not None:
        return ""
    return _error_text(eager.error)


def _error_text(error: Exception | None) -> str:
    return error_text.with_kind(error) if error else "nothing"


def _groups(aliases: frozenset[frozenset[str]]) -> str:
    groups = sorted(" = ".join(sorted(group)) for group in aliases)
    return "; ".join(groups) or "no shared memory"


def _outermost(identical: frozenset[frozenset[str]]) -> str:
    """Return the group of the shortest paths: what an object holds is the same with it."""
    groups = [" is ".join(sorted(group)) for group in identical]
    return min(groups, key=lambda text: (len(text), text), default="another object")
