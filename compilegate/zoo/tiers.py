"""Tiers: how many of the possible cases pytest observes.

- ``smoke`` is a list by hand, which takes minutes on two CPU cores.
- ``standard`` shows each model every value of every axis, and each family every pair of values.
- ``full`` contains all possible cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from itertools import combinations
from operator import ne

from compilegate.records.case import AUTOTUNE_MODES, AXES, Case, possible_cases
from compilegate.zoo import practices
from compilegate.zoo.registry import Model

TIERS = ("smoke", "standard", "full")
#: The tier of each device if the user names none.
DEFAULT_TIER = {"cpu": "smoke", "cuda": "standard"}
#: The default time limit of a case, in seconds.
CASE_TIMEOUT_S = {"smoke": 300.0, "standard": 900.0, "full": 1800.0}
#: The time limit of a case that tunes kernels is longer by this factor.
TUNING_FACTOR = 3

#: The smoke tier: settings by model. A ``*`` marks a case that compiles with an empty cache.
SMOKE: dict[str, tuple[str, ...]] = {
    "matvec": ("infer-f32-default-static*", "train-f32-default-marked*"),
    "matvec_decorated": ("infer-f32-default-auto",),
    "trained_classifier": ("infer-f32-default-static",),
    "mlp": ("infer-f32-default-static", "train-f32-default-static"),
    "toy_model": ("train-f32-default-static",),
    "conv_pool_linear": ("train-f32-default-auto", "infer-bf16-default-dynamic"),
    "decoder": ("infer-f32-default-auto",),
    "transformer_encoder": ("infer-f32-default-auto-regional", "infer-f32-default-static"),
    "squeezenet1_1": ("infer-f32-default-static",),
    "resnet18": ("infer-f32-default-static",),
    "test_resnet": ("infer-bf16-default-dynamic",),
    "test_vit": ("infer-f32-default-dynamic*", "train-bf16-default-marked"),
    "distilbert": ("infer-f32-default-dynamic",),
    "gpt2": ("infer-bf16-default-marked", "train-f32-default-auto"),
    "llama": ("infer-f32-default-static", "infer-f32-default-auto-regional"),
}

#: The settings of models that differ in them on a GPU: practices are observed in half precision.
SMOKE_CUDA: dict[str, tuple[str, ...]] = {
    "matvec": ("infer-bf16-default-static", "train-f32-default-marked"),
    "matvec_decorated": ("infer-bf16-default-auto",),
    "trained_classifier": ("infer-bf16-default-static",),
    "mlp": ("infer-bf16-default-static", "train-bf16-default-static"),
    "toy_model": ("train-bf16-default-static",),
    "transformer_encoder": ("infer-f32-default-auto-regional", "infer-bf16-default-static"),
    "test_resnet": ("infer-f32-default-static",),  # exported programs are in float32
}

#: The smoke settings of a user's model. compilegate judges its compile time in these settings, in
#: every tier.
SMOKE_DEFAULT = ("infer-f32-default-static", "train-f32-default-auto")

#: The cases whose compile work is counted, in every tier: globs on settings by model. The models
#: are small, because compiling calls up to twenty million functions. The cases cover products,
#: convolutions and attention, training and dynamic shapes.
COUNTED = {
    "matvec": ("*-default-*",),
    "conv_pool_linear": ("*-default-*",),
    "transformer_encoder": ("infer-*-default-auto-regional",),
}

#: The models whose kernels the tier *standard* tunes, and the mode for inference. Training uses the
#: other mode. These models have few kinds of products and convolutions. Inductor tunes each kind
#: separately at each size. Training has three times as many, so its case compiles only once
#: (*marked*).
AUTOTUNED = {
    "matvec": "max_autotune",
    "transformer_encoder": "max_autotune_no_cudagraphs",
    "conv_pool_linear": "max_autotune",
    "alexnet": "max_autotune_no_cudagraphs",
    "test_resnet": "max_autotune",
    "test_vit": "max_autotune_no_cudagraphs",
    "vit_b_16": "max_autotune",
    "distilbert": "max_autotune_no_cudagraphs",
    "gpt2": "max_autotune",
}

Value = tuple[str, str]


def cases_of(model: Model, device: str) -> tuple[Case, ...]:
    """Return every possible case of a model on a device."""
    if device not in model.devices:
        return ()
    cases = possible_cases(
        model.name,
        device,
        marked=bool(model.vary),
        regional=model.blocks is not None,
        weights=model.weights,
    )
    return tuple(case for case in cases if model.has_setting(case.setting))


def tier_cases(
    tier: str, models: Sequence[Model], device: str, shipped: Iterable[str]
) -> list[Case]:
    """Return the cases of a tier on a device, model by model.

    Args:
        tier: One of TIERS.
        models: All models of the zoo, because the tier *standard* covers families.
        device: ``cpu`` or ``cuda``.
        shipped: The names of the models that compilegate ships.
    """
    if tier == "full":
        return [case for model in models for case in cases_of(model, device)]
    shipped = set(shipped)
    if tier == "standard":
        chosen = [*_standard(models, device), *_autotuned(models, device, shipped)]
        practised = (case for model in models for case in practices.cases_of(model, device))
        return [*dict.fromkeys([*chosen, *practised])]
    return [
        case
        for model in models
        for case in (
            _named(model, device, _smoke_settings(model.name, device))
            if model.name in shipped
            else _smoke_of_users(model, device)
        )
    ]


def _smoke_settings(name: str, device: str) -> tuple[str, ...]:
    settings = SMOKE.get(name, ())
    return SMOKE_CUDA.get(name, settings) if device == "cuda" else settings


def _smoke_of_users(model: Model, device: str) -> Iterable[Case]:
    chosen = _named(model, device, SMOKE_DEFAULT) or [*cases_of(model, device)[:1]]
    cast = (f"{SMOKE_DEFAULT[0]}-{weights}" for weights in model.weights)
    served = {f"{model.name}-{device}-{setting}" for setting in cast}
    chosen += [case for case in cases_of(model, device) if case.id in served]
    return dict.fromkeys([*chosen, *practices.cases_of(model, device)])


def _named(model: Model, device: str, settings: Iterable[str]) -> list[Case]:
    """Return the cases of a model in those of the given settings that it has."""
    named = (Case.parse(f"{model.name}-{device}-{setting.rstrip('*')}") for setting in settings)
    return [case for case in named if device in model.devices and model.has_setting(case.setting)]


def is_cold(case: Case, tier: str, *, shipped: bool) -> bool:
    """Whether a case compiles with an empty cache.

    On a GPU, every case does. On CPU, a few cases of the smoke tier do, and the cases of a user's
    model in the smoke settings.
    """
    if case.device == "cuda":
        return True
    if not shipped:
        return case.setting in SMOKE_DEFAULT
    return tier == "smoke" and f"{case.setting}*" in SMOKE.get(case.model, ())


def counts_work(case: Case, model: Model, *, shipped: bool) -> bool:
    """Whether the Python calls of compiling a case are counted, which compiles it twice more.

    They are for a few small models that compilegate ships. A user's model is trained for it, or
    called if it has no such case. Autotuning calls as many functions as time allows, so it has the
    mode *default*.
    """
    if not shipped:
        inference, training = SMOKE_DEFAULT
        return case.setting == (training if model.has_setting(training) else inference)
    return any(fnmatchcase(case.setting, glob) for glob in COUNTED.get(case.model, ()))


def timeout_s(case: Case, tier: str) -> float:
    """The time limit of a case, in seconds."""
    return CASE_TIMEOUT_S[tier] * (TUNING_FACTOR if case.autotunes else 1)


def _standard(models: Sequence[Model], device: str) -> list[Case]:
    """Return few cases that cover much. The choice is greedy and deterministic.

    Each model takes the cases that cover the most missing values of its own, then the most missing
    pairs of its family. The remaining pairs of the family are distributed over its models. The
    autotuning modes are left out, because they take minutes.
    """
    families: dict[str, list[Model]] = {}
    for model in models:
        families.setdefault(model.family, []).append(model)
    chosen: dict[Case, None] = {}
    for family in families.values():
        members = [m for m in family if device in m.devices]
        plain = {
            m.name: [case for case in cases_of(m, device) if not case.autotunes] for m in members
        }
        reachable = {pair for cases in plain.values() for case in cases for pair in _pairs(case)}
        seen: set[tuple[Value, Value]] = set()
        for model in members:
            candidates = plain[model.name]
            unseen = {value for case in candidates for value in _values(case)}
            while unseen:
                case = max(
                    candidates,
                    key=lambda c: (len(unseen & _values(c)), len(_pairs(c) - seen)),
                )
                chosen[case] = None
                unseen -= _values(case)
                seen |= _pairs(case)
        turn = 0
        while missing := reachable - seen:
            model = members[turn % len(members)]
            turn += 1
            case = max(plain[model.name], key=lambda c: len(_pairs(c) & missing))
            if _pairs(case) & missing:
                chosen[case] = None
                seen |= _pairs(case)
    return list(chosen)


def _autotuned(models: Sequence[Model], device: str, shipped: set[str]) -> Iterator[Case]:
    """Yield one case per phase for some shipped models and one quick model of each user family.

    On a GPU the precision is bfloat16. In single precision, without tensor cores, the candidates
    for one matrix product compile for up to a minute.
    """
    tunable = {m.name: [c for c in cases_of(m, device) if c.autotunes] for m in models}
    own = [model for model in models if model.name not in shipped and tunable[model.name]]
    first: dict[str, str] = {}
    for model in sorted(own, key=lambda model: model.slow):
        first.setdefault(model.family, model.name)
    precision = "bf16" if device == "cuda" else "f32"
    for name, mode in {**AUTOTUNED, **dict.fromkeys(first.values(), AUTOTUNE_MODES[0])}.items():
        (other,) = {*AUTOTUNE_MODES} - {mode}
        for phase, wanted in (
            ("infer", (precision, mode, "static")),
            ("train", (precision, other, "marked")),
        ):
            possible = [case for case in tunable.get(name, ()) if case.phase == phase]
            if possible:  # the precision matters most, then the mode
                yield min(
                    possible, key=lambda c: [*map(ne, (c.precision, c.mode, c.dynamic), wanted)]
                )


@cache
def _values(case: Case) -> frozenset[Value]:
    return frozenset((axis, getattr(case, axis)) for axis in AXES)


@cache
def _pairs(case: Case) -> frozenset[tuple[Value, Value]]:
    return frozenset(combinations(sorted(_values(case)), 2))
