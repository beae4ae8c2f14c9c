"""What comparing and showing need of an observation, decoded several times as fast as all of it.

A run of ten thousand cases is hundreds of megabytes, most of them errors of single tensors. These
records leave out what nobody asks for here; their fields are those of
:mod:`compilegate.records.observation`, where they are explained.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from compilegate.records.call import Difference
from compilegate.records.observation import Capture, Failure, Observation, Status, Want
from compilegate.records.performance import CompileTime, Energy, Memory, Timing
from compilegate.records.verdict import Outcome


class Tensor(msgspec.Struct, frozen=True, gc=False):
    """How far a floating tensor is from the fp64 reference, eagerly and compiled."""

    name: str
    dtype: str
    numel: int
    scale: float
    eager_max: float
    eager_rms: float
    eager_projection: float
    compiled_max: float
    compiled_rms: float
    compiled_projection: float
    jumps: bool = False
    has_reference: bool = True


class Group(msgspec.Struct, frozen=True):
    """What comparing one group of tensors showed."""

    differences: tuple[Difference, ...] = ()
    errors: tuple[Tensor, ...] = ()


class Call(msgspec.Struct, frozen=True):
    """One call of the compiled model."""

    sizes: dict[str, int]
    outputs: Group
    gradients: Group
    state: Group
    raised: str = ""


#: The groups of tensors of a call.
GROUPS: tuple[Literal["outputs", "gradients", "state"], ...] = ("outputs", "gradients", "state")


class Digest(msgspec.Struct, frozen=True):
    """What was measured for a case, as far as it is compared or shown."""

    case: str
    status: Status
    failure: Failure | None = None
    wants: tuple[Want, ...] = ()
    backend: str = "inductor"
    cold: bool = False
    seed: int = 0
    fingerprint: str = ""
    parameters: int = 0
    reference: str = ""
    calls: tuple[Call, ...] = ()
    capture: Capture | None = None
    compile_time: CompileTime | None = None
    timing: Timing | None = None
    memory: Memory | None = None
    energy: Energy | None = None
    tf32: bool = False

    @classmethod
    def of(cls, observation: Observation) -> Digest:
        """The digest of a whole observation."""
        return msgspec.convert(observation, cls, from_attributes=True)


class Judged(msgspec.Struct, frozen=True, gc=False):
    """The verdict on one aspect of a case."""

    case: str
    aspect: str
    outcome: Outcome
    summary: str
