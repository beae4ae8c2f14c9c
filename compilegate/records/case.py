"""The case: one model on one device under one setting, and the id that names it everywhere.

An id is its seven values joined by dashes, ``whole`` left out at the end::

    resnet50-cuda-infer-bf16-default-static
    vit_b_16-cpu-train-f32-default-auto-regional
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product

#: The axes after the model's name, in the order of an id, each with its values.
AXES: dict[str, tuple[str, ...]] = {
    "device": ("cpu", "cuda"),
    "phase": ("infer", "train"),
    "precision": ("f32", "bf16", "f16"),
    "mode": ("default", "reduce_overhead", "max_autotune", "max_autotune_no_cudagraphs"),
    "dynamic": ("static", "auto", "dynamic", "marked"),
    "scope": ("whole", "regional"),
}

DEVICES = AXES["device"]

#: Modes that search for kernels: minutes a case, so they carry the marker ``slow``.
AUTOTUNE_MODES = ("max_autotune", "max_autotune_no_cudagraphs")

#: Modes that record CUDA graphs.
GRAPH_MODES = ("reduce_overhead", "max_autotune")

#: What a CPU does not have: half-precision autocast worth the name, and CUDA graphs.
_NOT_ON_CPU = {"f16", "reduce_overhead", "max_autotune_no_cudagraphs"}

MODEL_NAME = re.compile(r"[a-z0-9_.]+")


#: How many known names a message shows, where no name is near.
_SHOWN = 6


class UnknownNameError(ValueError):
    """An unknown name. The text suggests the nearest known one."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        known = list(known)
        nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        if nearest:
            hint = f"; did you mean {nearest[0]!r}?"
            hint += f" (known: {', '.join(known)})" if len(known) == 2 else ""  # either is near
        elif len(known) <= 8:
            hint = f"; known: {', '.join(known)}"
        else:
            hint = f"; known: {', '.join(known[:_SHOWN])}, … ({len(known)} in all)"
        super().__init__(f"unknown {what} {name!r}{hint}")


@dataclass(frozen=True)
class Case:
    """A model under a setting. Its id formats and parses both ways."""

    model: str
    device: str
    phase: str
    precision: str
    mode: str
    dynamic: str
    scope: str = "whole"

    @cached_property
    def id(self) -> str:
        """The name of the case, everywhere."""
        fields = [self.model, *(getattr(self, axis) for axis in AXES)]
        return "-".join(fields[:-1] if self.scope == "whole" else fields)

    @classmethod
    def parse(cls, case_id: str) -> Case:
        """The case of an id.

        Raises:
            ValueError: The id has the wrong number of fields or names an impossible combination.
            UnknownNameError: A field is not a value of its axis.
        """
        model, *values = case_id.split("-")
        if len(values) not in (len(AXES) - 1, len(AXES)) or not MODEL_NAME.fullmatch(model):
            raise ValueError(
                f"malformed case id {case_id!r}: expected model-{'-'.join(AXES)}, "
                "for instance resnet18-cpu-infer-f32-default-static (the scope 'whole' is left out)"
            )
        if len(values) == len(AXES):
            if values[-1] == "whole":
                raise ValueError(f"malformed case id {case_id!r}: the scope 'whole' is left out")
        else:
            values.append("whole")
        for (axis, known), value in zip(AXES.items(), values, strict=True):
            if value not in known:
                raise UnknownNameError(f"{axis} in case id {case_id!r}:", value, known)
        case = cls(model, *values)
        if not case.possible:
            raise ValueError(f"impossible case {case_id!r}: {case._why_impossible()}")
        return case

    @property
    def possible(self) -> bool:
        """Whether the setting exists: the device can run it, and it means something.

        Marks stand on the model's inputs; blocks compiled one by one never see them.
        """
        on_device = self.device != "cpu" or _NOT_ON_CPU.isdisjoint((self.precision, self.mode))
        return on_device and (self.scope, self.dynamic) != ("regional", "marked")

    def _why_impossible(self) -> str:
        absent = sorted(_NOT_ON_CPU & {self.precision, self.mode})
        if self.device == "cpu" and absent:
            return f"there is no {absent[0]} on cpu"
        return "blocks that are compiled separately have no marked dimensions"

    @property
    def setting(self) -> str:
        """The part of the id after the device."""
        return self.id.split("-", 2)[2]

    @property
    def autotunes(self) -> bool:
        """Whether the mode searches for kernels, which takes minutes."""
        return self.mode in AUTOTUNE_MODES

    @property
    def uses_cuda_graphs(self) -> bool:
        """Whether the mode records CUDA graphs and replays them."""
        return self.device == "cuda" and self.mode in GRAPH_MODES

    def __str__(self) -> str:
        return self.id


# Parts of an id alone. A stored run may come from a version whose axes have other values.


def case_id_of(nodeid: str) -> str:
    """The case id in pytest's id of a test; empty where there is none."""
    return nodeid.partition("[")[2].rstrip("]")


def suite_of(nodeid: str) -> str:
    """The aspect in a test's node id; empty if the test is in no suite.

    The id of one test differs from a checkout to an installed wheel; the name of its file and its
    parameter do not.
    """
    file = nodeid.partition("::")[0].rpartition("/")[2]
    is_judged = file.startswith("test_") and bool(case_id_of(nodeid))
    return file.removeprefix("test_").removesuffix(".py") if is_judged else ""


def model_of(case_id: str) -> str:
    """The model in a case id."""
    return case_id.partition("-")[0]


def device_of(case_id: str) -> str:
    """The device in a case id."""
    return case_id.split("-")[1]


def precision_of(case_id: str) -> str:
    """The precision in a case id."""
    return case_id.split("-")[3]


def possible_cases(model: str, device: str, *, marked: bool, regional: bool) -> Iterator[Case]:
    """Every possible case of a model on a device, in id order.

    Args:
        model: The model's name.
        device: ``cpu`` or ``cuda``.
        marked: Whether the model declares dimensions that may vary.
        regional: Whether the model declares repeated blocks.
    """
    for _, *setting in product((device,), *list(AXES.values())[1:]):
        case = Case(model, device, *setting)
        if (
            case.possible
            and (marked or case.dynamic != "marked")
            and (regional or case.scope != "regional")
        ):
            yield case
