"""The cells of the matrix, and the order in which they are filled."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from compilegate.records.case import Case
from compilegate.zoo import registry, tiers
from tests.faults.matrix.kinds import KINDS, Kind

#: The families of the matrix, and their models: small ones, because each cell compiles one.
FAMILIES: dict[str, tuple[str, ...]] = {
    "torchvision classifier": ("mobilenet_v3_small", "squeezenet1_1"),
    "timm ResNet": ("test_resnet",),
    "timm ViT": ("test_vit",),
    "detector": ("ssdlite320_mobilenet_v3_large",),
    "segmentation": ("lraspp_mobilenet_v3_large",),
    "BERT": ("bert", "distilbert"),
    "T5": ("t5",),
    "CLIP": ("clip",),
    "decoder": ("gpt2", "llama"),
    "tutorials": ("mlp", "decoder", "transformer_encoder"),
}
#: The parts of models that only some kinds of faults change.
PARTS: dict[str, set[str]] = {
    "mobilenet_v3_small": {"BatchNorm", "ReLU", "clamp", "mean", "bias", "dropout"},
    "squeezenet1_1": {"ReLU", "mean", "dropout"},
    "test_resnet": {"BatchNorm", "ReLU", "mean", "bias"},
    "test_vit": {"attention", "GELU", "bias"},
    "ssdlite320_mobilenet_v3_large": {"BatchNorm", "ReLU", "clamp", "mean"},
    "lraspp_mobilenet_v3_large": {"BatchNorm", "ReLU", "clamp", "mean"},
    "bert": {"embedding", "attention", "mask", "GELU", "bias", "dropout"},
    "distilbert": {"embedding", "attention", "mask", "GELU", "bias", "dropout"},
    "t5": {"embedding", "attention", "softmax", "mask", "mean", "ReLU", "dropout"},
    "clip": {"embedding", "attention", "mask", "bias"},
    "gpt2": {"embedding", "attention", "mask", "bias", "dropout"},
    "llama": {"embedding", "attention", "mask", "mean"},
    "mlp": {"bias", "GELU", "dropout"},
    "decoder": {"embedding", "attention", "mask", "softmax", "mean", "GELU"},
    "transformer_encoder": {"attention", "ReLU", "GELU", "bias", "dropout"},
}
#: The models that are compiled in the autotuning modes, which take minutes with others.
AUTOTUNED = {"mobilenet_v3_small", "test_resnet", "test_vit", "transformer_encoder"}
#: The cells of one case that one child observes, one after the other.
GROUP = 8
FAMILY_OF = {name: family for family, names in FAMILIES.items() for name in names}

#: The settings of the matrix. A device has those that exist there, and a model those it declares.
SETTINGS = (
    *(f"infer-f32-default-{dynamic}" for dynamic in ("static", "auto", "dynamic", "marked")),
    *(f"train-f32-default-{dynamic}" for dynamic in ("static", "auto", "dynamic", "marked")),
    *(f"infer-bf16-default-{dynamic}" for dynamic in ("static", "marked")),
    *(f"train-bf16-default-{dynamic}" for dynamic in ("static", "auto", "dynamic")),
    *(f"infer-f16-default-{dynamic}" for dynamic in ("static", "dynamic")),
    *(f"train-f16-default-{dynamic}" for dynamic in ("static", "marked")),
    "infer-f32-default-auto-regional",
    "train-f32-default-static-regional",
    "infer-bf16-default-static-regional",
    "train-bf16-default-dynamic-regional",
    "infer-f32-reduce_overhead-static",
    "infer-f16-reduce_overhead-auto",
    "train-bf16-reduce_overhead-static",
    "infer-f32-max_autotune-static",
    "infer-bf16-max_autotune-marked",
    "train-f32-max_autotune-static",
    "train-bf16-max_autotune_no_cudagraphs-static",
)


@dataclass(frozen=True)
class Cell:
    """A kind of fault in a case of the shipped zoo."""

    kind: Kind
    case: Case

    @cached_property
    def values(self) -> tuple[tuple[str, str], ...]:
        """What the sample is spread over: the kind, values of the axes, the family, and pairs."""
        case, kind = self.case, self.kind.name
        family = FAMILY_OF[case.model]
        axes = (case.phase, case.precision, case.mode, case.dynamic, case.scope)
        return (
            (kind, kind),
            *((kind, value) for value in axes),
            (kind, family),
            (case.setting, case.setting),
            (case.setting, family),
            (family, family),
        )


def planted(case: Case) -> Case:
    """Return the case of the model that has the fault that is ordered, or none."""
    return replace(case, model=f"planted.{case.model}")


def all_cells(device: str, backend: str = "inductor") -> list[Cell]:
    """Return every cell of a device. Only Inductor has modes."""
    shipped = registry.load()
    cases = [
        case
        for name in FAMILY_OF
        for case in tiers.cases_of(shipped[name], device)
        if case.setting in SETTINGS
        and (case.mode == "default" or backend == "inductor")
        and (not case.autotunes or name in AUTOTUNED)
    ]
    kinds = KINDS.values()
    return [Cell(k, case) for case in cases for k in kinds if k.fits(case, PARTS[case.model])]


def spread(cells: Iterable[Cell], done: Iterable[Cell] = ()) -> Iterator[list[Cell]]:
    """Yield cells so that each beginning of the sequence is spread over kinds, settings, families.

    They come in groups of one case, whose model, reference and twin are then made once.

    Args:
        cells: The cells that are left.
        done: Those that came before.
    """
    counts: Counter[tuple[str, str]] = Counter()
    weights: dict[tuple[str, str], float] = {}

    def count(cell: Cell) -> None:
        counts.update(cell.values)
        weights.update((value, counts[value] ** 0.5) for value in cell.values)

    def cost(cell: Cell) -> float:
        return sum([weights.get(value, 0.0) for value in cell.values])

    for cell in done:
        count(cell)
    of_case: dict[Case, list[Cell]] = {}
    for cell in sorted(cells, key=_shuffled):
        of_case.setdefault(cell.case, []).append(cell)

    while of_case:
        case = min(of_case, key=lambda case: min(map(cost, of_case[case])))
        group = []
        while of_case[case] and len(group) < GROUP:
            chosen = min(of_case[case], key=cost)
            of_case[case].remove(chosen)
            count(chosen)
            group.append(chosen)
        if not of_case[case]:
            del of_case[case]
        yield sorted(group, key=lambda cell: cell.kind.alone)


def _shuffled(cell: Cell) -> str:
    return hashlib.sha256(f"{cell.kind.name} {cell.case.id}".encode()).hexdigest()


def models(cells: Sequence[Cell]) -> list[registry.Model]:
    """Return the models of the shipped zoo that cells are in."""
    shipped = registry.load()
    return [shipped[name] for name in dict.fromkeys(cell.case.model for cell in cells)]
