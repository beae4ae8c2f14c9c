"""Slim records: observations without the parts that comparisons and reports never read.

A run of ten thousand cases is hundreds of megabytes, most of them errors of single tensors. A slim
record decodes several times as fast as the complete one. Each slim type is derived from its record
and the fields that it leaves out; a type checker sees the record itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from compilegate.records.call import CallFacts, Checked, TensorError
from compilegate.records.observation import Observation
from compilegate.records.verdict import Verdict

#: The groups of tensors of a call.
GROUPS: tuple[Literal["outputs", "gradients", "state"], ...] = ("outputs", "gradients", "state")

#: The fields that each slim record leaves out.
LEFT_OUT: dict[type, frozenset[str]] = {
    TensorError: frozenset(
        {
            "eager_quantile",
            "compiled_quantile",
            "rows",
            "eager_own",
            "eager_rows",
            "compiled_rows",
            "eager_high_rows",
            "compiled_high_rows",
            "column",
            "eager_column",
            "compiled_column",
            "slices",
            "samples",
            "always_zero",
            "worst_index",
            "worst_values",
        }
    ),
    Checked: frozenset({"tensors", "ties", "opaque", "decisions", "pooled"}),
    CallFacts: frozenset({"numbers", "rest", "overflowed", "overlaps", "blocks"}),
    Observation: frozenset(
        {
            "draws",
            "randomness",
            "signal",
            "input_gradients",
            "written_inputs",
            "left_out",
            "spent_s",
            "output",
        }
    ),
    Verdict: frozenset({"details"}),
}


def _slim(record: type, nested: Mapping[Any, Any] | None = None, *, gc: bool = True) -> type:
    """Derive a slim type from a record.

    Args:
        record: The dataclass; :data:`LEFT_OUT` has it.
        nested: The slim types of the records that its fields hold.
        gc: Whether its instances can take part in a reference cycle.
    """
    hints = get_type_hints(record)
    kept = [field for field in fields(record) if field.name not in LEFT_OUT[record]]
    return msgspec.defstruct(
        f"Slim{record.__name__}",
        [(f.name, _replaced(hints[f.name], nested or {}), _default(f)) for f in kept],
        frozen=True,
        kw_only=True,
        gc=gc,
    )


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return msgspec.field(default_factory=field.default_factory)
    return msgspec.NODEFAULT if field.default is MISSING else field.default


def _replaced(hint: Any, nested: Mapping[Any, Any]) -> Any:
    """A field's type with the slim types in the place of their records."""
    if hint in nested:
        return nested[hint]
    parts = get_args(hint)
    if not any(part in nested for part in parts):
        return hint
    return get_origin(hint)[tuple(_replaced(part, nested) for part in parts)]


if TYPE_CHECKING:
    SlimTensor = TensorError
    SlimChecked = Checked
    SlimCall = CallFacts
    SlimObservation = Observation
    SlimVerdict = Verdict
else:
    SlimTensor = _slim(TensorError, gc=False)
    SlimChecked = _slim(Checked, {TensorError: SlimTensor})
    SlimCall = _slim(CallFacts, {Checked: SlimChecked})
    SlimObservation = _slim(Observation, {CallFacts: SlimCall})
    SlimVerdict = _slim(Verdict, gc=False)


def slim_observation(observation: Observation) -> SlimObservation:
    """Return the slim record of a complete observation."""
    return msgspec.convert(observation, SlimObservation, from_attributes=True)


def slim_verdict(verdict: Verdict) -> SlimVerdict:
    """Return the slim record of a complete verdict."""
    return msgspec.convert(verdict, SlimVerdict, from_attributes=True)
