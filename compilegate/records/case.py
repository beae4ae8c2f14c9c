"""The case: one model on one device under one setting, and the id that names it everywhere.

An id is the model and its values joined by dashes. The last two axes are left out where they have
their usual value::

    resnet50-cuda-infer-bf16-default-static
    vit_b_16-cpu-train-f32-default-auto-regional
    gpt2-cpu-infer-f32-default-static-bf16_weights
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator
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
    "weights": ("f32_weights", "bf16_weights", "f16_weights", "int8_weights"),
}

DEVICES = AXES["device"]

#: The axes that an id leaves out where they have this value. Their values differ from each other's,
#: so that an id can have either.
LEFT_OUT = {"scope": "whole", "weights": "f32_weights"}

#: Number formats other than float32 that a module's weights can be cast to.
CAST_WEIGHTS = tuple(value for value in AXES["weights"] if value != LEFT_OUT["weights"])

#: The number format that a module computes in, if its weights are cast to that.
_COMPUTES_IN = {"bf16_weights": "bf16", "f16_weights": "f16"}

#: Weights that are not trained: a gradient in float16 needs float32 weights, and an integer has
#: none.
_NOT_TRAINED = {"f16_weights", "int8_weights"}

#: Modes that search for kernels: minutes a case, so they carry the marker ``slow``.
AUTOTUNE_MODES = ("max_autotune", "max_autotune_no_cudagraphs")

#: Modes that record CUDA graphs.
GRAPH_MODES = ("reduce_overhead", "max_autotune")

#: As many calls at one size replay a CUDA graph twice: the first compiles, the second records.
REPLAYING_CALLS = 4

#: What a CPU does not have: float16 worth the name, and CUDA graphs.
_NOT_ON_CPU = {"f16", "f16_weights", "reduce_overhead", "max_autotune_no_cudagraphs"}

MODEL_NAME = re.compile(r"[a-z0-9_.]+")


#: How many known names a message shows, where no name is near.
_SHOWN = 6


class UnknownNameError(ValueError):
    """An unknown name. The text suggests the nearest known one."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        known = list(known)
        swapped = [one for one in known if sorted(one) == sorted(name)]  # nearer than one lost
        nearest = swapped or difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        if nearest:
            hint = f"; did you mean {nearest[0]!r}?"
            hint += f" (known: {', '.join(known)})" if len(known) == 2 else ""  # either is near
        elif len(known) <= 8:
            hint = f"; known: {', '.join(known)}"
        else:
            hint = f"; known: {', '.join(known[:_SHOWN])}, … ({len(known)} in all)"
        super().__init__(f"unknown {what} {name!r}{hint}")


def torch_mode(mode: str) -> str:
    """Return the name that PyTorch has for a mode."""
    return mode.replace("_", "-")


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
    weights: str = "f32_weights"

    @cached_property
    def id(self) -> str:
        """The name of the case, everywhere."""
        values = {axis: getattr(self, axis) for axis in AXES}
        shown = (value for axis, value in values.items() if LEFT_OUT.get(axis) != value)
        return "-".join([self.model, *shown])

    @classmethod
    def parse(cls, case_id: str) -> Case:
        """The case of an id.

        Raises:
            ValueError: The id has the wrong number of fields or names an impossible combination.
            UnknownNameError: A field is not a value of its axis.
        """
        model, *values = case_id.split("-")
        least = len(AXES) - len(LEFT_OUT)
        if not least <= len(values) <= len(AXES) or not MODEL_NAME.fullmatch(model):
            usual = " and ".join(f"the {axis} {value!r}" for axis, value in LEFT_OUT.items())
            raise ValueError(
                f"malformed case id {case_id!r}: expected model-{'-'.join(AXES)}, "
                f"for instance resnet18-cpu-infer-f32-default-static ({usual} are left out)"
            )
        for (axis, known), value in zip(AXES.items(), values[:least], strict=False):
            if value not in known:
                raise UnknownNameError(f"{axis} in case id {case_id!r}:", value, known)
        case = cls(model, *values[:least], **_optional(case_id, values[least:]))
        if not case.possible:
            raise ValueError(f"impossible case {case_id!r}: {case._why_impossible()}")
        return case

    @property
    def possible(self) -> bool:
        """Whether the setting exists: the device can run it, and it means something.

        Marks stand on the model's inputs; blocks compiled one by one never see them.
        """
        return not self._why_impossible()

    def _why_impossible(self) -> str:
        absent = sorted(_NOT_ON_CPU & {self.precision, self.mode, self.weights})
        if self.device == "cpu" and absent:
            return f"there is no {absent[0]} on cpu"
        if self.weights in CAST_WEIGHTS and self.precision != "f32":
            return f"{self.weights} are used without autocast, which is the precision f32"
        if self.weights in _NOT_TRAINED and self.phase == "train":
            return f"{self.weights} are not trained"
        if (self.scope, self.dynamic) == ("regional", "marked"):
            return "blocks that are compiled separately have no marked dimensions"
        return ""

    @property
    def setting(self) -> str:
        """The part of the id after the device."""
        return self.id.split("-", 2)[2]

    @property
    def computes_in(self) -> str:
        """The number format of most operations: that of autocast, or of the weights."""
        return _COMPUTES_IN.get(self.weights, self.precision)

    @property
    def computes_in_half(self) -> bool:
        """Whether most operations compute in bfloat16 or float16."""
        return self.computes_in != "f32"

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


def _optional(case_id: str, values: list[str]) -> dict[str, str]:
    """Return the values at the end of an id by axis: each is recognised by what it is.

    Raises:
        ValueError: A value is left out in ids, or they are not in the order of the axes.
        UnknownNameError: A value belongs to none of these axes.
    """
    axes = [*LEFT_OUT]
    found: dict[str, str] = {}
    for value in values:
        axis = next((axis for axis in axes if value in AXES[axis]), None)
        if value in LEFT_OUT.values():
            raise ValueError(f"malformed case id {case_id!r}: {value!r} is left out")
        if axis is None:
            known = [value for axis in LEFT_OUT for value in AXES[axis]]
            if value in known:
                order = " before the ".join(LEFT_OUT)
                raise ValueError(f"malformed case id {case_id!r}: it has the {order}")
            known = [value for value in known if value not in LEFT_OUT.values()]
            raise UnknownNameError(f"{' or '.join(LEFT_OUT)} in case id {case_id!r}:", value, known)
        found[axis] = value
        axes = axes[axes.index(axis) + 1 :]
    return found


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


def computes_in_half(case_id: str) -> bool:
    """Whether the case of an id computes in half precision."""
    _, _, _, precision, *others = case_id.split("-")
    return precision != "f32" or not _COMPUTES_IN.keys().isdisjoint(others)


def possible_cases(
    model: str, device: str, *, marked: bool, regional: bool, weights: Collection[str] = ()
) -> Iterator[Case]:
    """Every possible case of a model on a device, in id order.

    Args:
        model: The model's name.
        device: ``cpu`` or ``cuda``.
        marked: Whether the model declares dimensions that may vary.
        regional: Whether the model declares repeated blocks.
        weights: The number formats that the model declares for its weights other than float32.
    """
    for _, *setting in product((device,), *list(AXES.values())[1:]):
        case = Case(model, device, *setting)
        if (
            case.possible
            and (marked or case.dynamic != "marked")
            and (regional or case.scope != "regional")
            and (case.weights in weights or case.weights == LEFT_OUT["weights"])
        ):
            yield case
