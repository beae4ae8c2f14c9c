"""The cases that a practice is observed on.

A model names its practices in its decorator. The tier *full* also asks every model for twins. Each
practice has one setting on CPU and one on a GPU, because what it shows depends little on the other
axes, and each costs compilations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from compilegate.records.case import Case
from compilegate.records.practice import PracticeName
from compilegate.zoo.registry import Model

_CALLED: Mapping[str, tuple[str, ...]] = {
    "cpu": ("infer-f32-default-static",),
    "cuda": ("infer-bf16-default-static", "infer-f32-default-static"),
}
_TRAINED: Mapping[str, tuple[str, ...]] = {
    "cpu": ("train-f32-default-static",),
    "cuda": ("train-bf16-default-static", "train-f16-default-static"),
}
_AUTO = ("train-f32-default-auto", "infer-f32-default-auto")

#: What the tier *full* observes of every model, except for models of these families: they reproduce
#: bugs and patterns of code, and are what they are for their exact program.
_OF_EVERY_MODEL: tuple[PracticeName, ...] = ("twins",)
_EXACT_PROGRAMS = ("regressions", "hazards", "caches")

#: The settings of each practice by device. A model takes the first one that it has.
SETTINGS: Mapping[PracticeName, Mapping[str, tuple[str, ...]]] = {
    "checkpoints": _CALLED,
    "training_loop": _TRAINED,
    "compiled_optimizer": _TRAINED,
    "activation_checkpointing": _TRAINED,
    "compiled_autograd": _TRAINED,
    "distributed": {
        "cpu": ("train-f32-default-static",),
        "cuda": ("train-bf16-default-static", "train-f32-default-static"),
    },
    "regional": _CALLED,
    "caches": _CALLED,
    "backends": _CALLED,
    "dynamic_strategies": {
        "cpu": ("infer-f32-default-auto",),
        "cuda": ("infer-bf16-default-auto", "infer-f32-default-auto"),
    },
    "export": {"cpu": ("infer-f32-default-static",), "cuda": ("infer-f32-default-static",)},
    "generation": {"cpu": ("infer-f32-default-auto",), "cuda": ("infer-f32-default-auto",)},
    "serving": _CALLED,
    "metric": _CALLED,
    "twins": {device: _TRAINED[device] + _CALLED[device] + _AUTO for device in ("cpu", "cuda")},
    "hazards": {"cpu": ("train-f32-default-auto",), "cuda": ("train-f32-default-auto",)},
}


def cases_of(model: Model, device: str) -> Iterator[Case]:
    """Yield the cases of a model that its practices are observed on; a case may occur twice."""
    if device not in model.devices:
        return
    for name in model.practices:
        for setting in SETTINGS[name].get(device, ()):
            if model.has_setting(setting):
                yield Case.parse(f"{model.name}-{device}-{setting}")
                break


def practices_of(case: Case, model: Model, tier: str = "") -> tuple[PracticeName, ...]:
    """Return the practices that are observed on a case, in the order in which they are observed.

    Args:
        case: The case.
        model: Its model.
        tier: The tier that the case was chosen from; empty if it was named.
    """
    asked = model.practices
    if tier == "full" and not model.family.startswith(_EXACT_PROGRAMS):
        asked += _OF_EVERY_MODEL
    return tuple(
        name
        for name in SETTINGS
        if name in asked
        and case.setting
        == next(filter(model.has_setting, SETTINGS[name].get(case.device, ())), None)
    )
