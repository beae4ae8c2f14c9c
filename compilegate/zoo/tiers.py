"""Tiers: which of the possible cases are observed.

- ``smoke``: a hand-picked list for minutes on two CPU cores;
- ``standard``: each model sees every value of every axis, each family every pair of values;
- ``full``: all possible cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from itertools import combinations
from operator import ne

from compilegate.records.case import AUTOTUNE_MODES, AXES, Case, UnknownNameError, possible_cases
from compilegate.zoo.registry import Model

TIERS = ("smoke", "standard", "full")
#: The tier of a device where none is asked for.
DEFAULT_TIER = {"cpu": "smoke", "cuda": "standard"}
#: Seconds that a case has by default.
CASE_TIMEOUT_S = {"smoke": 300.0, "standard": 900.0, "full": 1800.0}
#: A case that tunes kernels has so many times as long.
TUNING_FACTOR = 3

#: The smoke tier: settings by model. ``*`` marks those that compile in an empty cache.
SMOKE: dict[str, tuple[str, ...]] = {
    "matvec": ("infer-f32-default-static*", "train-f32-default-marked"),
    "matvec_decorated": ("infer-f32-default-auto",),
    "conv_pool_linear": ("train-f32-default-auto*", "infer-bf16-default-dynamic"),
    "transformer_encoder": ("infer-f32-default-auto-regional", "train-bf16-default-static"),
    "alexnet": ("infer-f32-default-dynamic",),
    "squeezenet1_1": ("infer-f32-default-static",),
    "resnet18": ("infer-f32-default-static",),
    "test_resnet": ("infer-bf16-default-dynamic",),
    "test_efficientnet": ("infer-f32-default-marked",),
    "test_convnext": ("train-f32-default-static",),
    "test_vit": ("infer-f32-default-static*", "train-bf16-default-marked"),
    "distilbert": ("infer-f32-default-dynamic",),
    "gpt2": ("infer-bf16-default-marked", "train-f32-default-auto"),
    "llama": ("infer-f32-default-static", "infer-f32-default-auto-regional"),
}

#: The smoke settings of a model that the list above does not name: a user's own. In these its
#: compile time is judged, whatever the tier.
SMOKE_DEFAULT = ("infer-f32-default-static", "train-f32-default-auto")

#: Models of the zoo for which the tier *standard* tunes kernels, and in which mode for inference;
#: training has the other. They have few kinds of products and convolutions: each kind is tuned for
#: itself, at each size, so that training, which has three times as many, is compiled once for all.
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
    """Every possible case of a model on a device."""
    cases = possible_cases(
        model.name, device, marked=bool(model.vary), regional=model.blocks is not None
    )
    return tuple(case for case in cases if _matches(case.setting, model.settings))


def tier_cases(
    tier: str, models: Sequence[Model], device: str, shipped: Iterable[str]
) -> list[Case]:
    """The cases of a tier on a device, model by model.

    Args:
        tier: One of TIERS.
        models: The whole zoo; the tier *standard* spreads over families.
        device: ``cpu`` or ``cuda``.
        shipped: Names of the models that are not a user's own.
    """
    if tier == "full":
        return [case for model in models for case in cases_of(model, device)]
    if tier == "standard":
        return [*_standard(models, device), *_autotuned(models, device, set(shipped))]
    shipped = set(shipped)
    return [
        case
        for model in models
        for case in (
            _named(model, device, SMOKE.get(model.name, ()))
            if model.name in shipped
            else _named(model, device, SMOKE_DEFAULT) or cases_of(model, device)[:1]
        )
    ]


def _named(model: Model, device: str, settings: Iterable[str]) -> list[Case]:
    """The cases of a model in some settings, of those that it exists in."""
    named = (Case.parse(f"{model.name}-{device}-{setting.rstrip('*')}") for setting in settings)
    return [case for case in named if _matches(case.setting, model.settings)]


def is_cold(case: Case, tier: str, *, shipped: bool) -> bool:
    """Whether a case compiles in an empty cache.

    All do on a GPU; on CPU a few of the smoke tier, and a user's own in their smoke settings.
    """
    if case.device == "cuda":
        return True
    if not shipped:
        return case.setting in SMOKE_DEFAULT
    return tier == "smoke" and f"{case.setting}*" in SMOKE.get(case.model, ())


def timeout_s(case: Case, tier: str) -> float:
    """Seconds after which the child of a case is killed."""
    return CASE_TIMEOUT_S[tier] * (TUNING_FACTOR if case.autotunes else 1)


def select(
    models: Sequence[Model],
    tiers: dict[str, str],
    shipped: Iterable[str],
    *,
    model_globs: Sequence[str] = (),
    case_globs: Sequence[str] = (),
) -> list[Case]:
    """The cases of the selected models, grouped by model.

    A case named in full is selected whatever the tier.

    Args:
        models: The zoo.
        tiers: Tier by device; only these devices.
        shipped: Names of the models that are not a user's own.
        model_globs: Keep models whose name matches one of these.
        case_globs: Keep cases whose id matches one of these.

    Raises:
        UnknownNameError: A glob without wildcards names nothing.
        ValueError: Nothing is left, with what would help.
    """
    _check_names("model", model_globs, [model.name for model in models])
    wanted = [m for m in models if not model_globs or _matches(m.name, model_globs)]
    _check_case_globs(case_globs, models)
    names = {model.name for model in wanted}
    exact = {case.id: case for case in _named_cases(case_globs, models) if case.device in tiers}
    chosen: dict[str, Case] = {}
    for device, tier in tiers.items():
        for case in tier_cases(tier, models, device, shipped):
            if case.model in names and (not case_globs or _matches(case.id, case_globs)):
                chosen[case.id] = case
    chosen |= {case_id: case for case_id, case in exact.items() if case.model in names}
    if not chosen:
        raise ValueError(_nothing_left(tiers, model_globs, case_globs))
    order = {model.name: position for position, model in enumerate(models)}
    return sorted(chosen.values(), key=lambda case: (order[case.model], case.device))


def narrow(
    cases: Iterable[Case], model_globs: Sequence[str], case_globs: Sequence[str]
) -> list[Case]:
    """Those of a run's cases that match the globs, each of which must match something.

    Raises:
        UnknownNameError: A glob matches nothing.
    """
    cases = list(cases)
    _check_names(
        "model of this run", model_globs, list(dict.fromkeys(case.model for case in cases))
    )
    _check_names("case of this run", case_globs, [case.id for case in cases])
    return matching(cases, model_globs, case_globs)


def matching(
    cases: Iterable[Case], model_globs: Sequence[str], case_globs: Sequence[str]
) -> list[Case]:
    """Those of some given cases that match the globs, if there are any."""
    return [
        case
        for case in cases
        if (not model_globs or _matches(case.model, model_globs))
        and (not case_globs or _matches(case.id, case_globs))
    ]


def _matches(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _check_names(what: str, globs: Sequence[str], known: Sequence[str]) -> None:
    for glob in globs:
        if not any(fnmatchcase(name, glob) for name in known):
            raise UnknownNameError(what, glob, known)


def _check_case_globs(globs: Sequence[str], models: Sequence[Model]) -> None:
    """Refuse a glob that matches no possible case, by its first field that is no name."""
    globs = [glob for glob in globs if any(character in glob for character in "*?[")]
    if not globs:
        return
    possible = [c.id for m in models for device in AXES["device"] for c in cases_of(m, device)]
    values = [value for axis in AXES.values() for value in axis]
    for glob in globs:
        if any(fnmatchcase(case_id, glob) for case_id in possible):
            continue
        model, *fields = glob.split("-")
        _check_names("model", [model], [m.name for m in models])
        _check_names("value", fields, [*values, *(m.name for m in models)])
        raise ValueError(f"--cases {glob!r} matches no possible case")


def _named_cases(globs: Sequence[str], models: Sequence[Model]) -> Iterator[Case]:
    """The cases that are named in full."""
    by_name = {model.name: model for model in models}
    for glob in globs:
        if any(character in glob for character in "*?["):
            continue
        case = Case.parse(glob)
        if case.model not in by_name:
            raise UnknownNameError("model", case.model, by_name)
        if case not in cases_of(by_name[case.model], case.device):
            raise ValueError(f"impossible case {glob!r}: {_why_not(case, by_name[case.model])}")
        yield case


def _why_not(case: Case, model: Model) -> str:
    """Why a model has no such case."""
    if not _matches(case.setting, model.settings):
        return f"{model.name} exists in {' '.join(model.settings)} only"
    lacks = "dimensions that vary" if case.dynamic == "marked" else "repeated blocks"
    return f"{model.name} declares no {lacks}"


def _nothing_left(tiers: dict[str, str], models: Sequence[str], cases: Sequence[str]) -> str:
    asked = [f"--models {glob!r}" for glob in models] + [f"--cases {glob!r}" for glob in cases]
    where = " and ".join(f"tier {tier} on {device}" for device, tier in tiers.items())
    hint = "" if set(tiers.values()) == {"full"} else "; a larger tier may: --tier full"
    return f"no case of {where or 'the selected devices'} matches {' '.join(asked)}{hint}"


def _standard(models: Sequence[Model], device: str) -> list[Case]:
    """Few cases that cover much: greedy, deterministic.

    Each model in turn takes the cases that cover most of what is still missing: first values that
    the model itself has not seen, then pairs that its family has not seen. What is left of the
    family's pairs is spread over its models. Autotuning modes are left out: they take minutes.
    """
    families: dict[str, list[Model]] = {}
    for model in models:
        families.setdefault(model.family, []).append(model)
    chosen: dict[Case, None] = {}
    for members in families.values():
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
    """A case a phase for some of the zoo, and for a quick model of each family of a user's own.

    On a GPU for bfloat16: in single precision, without tensor cores, the candidates for one product
    compile for up to a minute.
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
            if possible:  # what comes first in it matters most
                yield min(
                    possible, key=lambda c: [*map(ne, (c.precision, c.mode, c.dynamic), wanted)]
                )


@cache
def _values(case: Case) -> frozenset[Value]:
    return frozenset((axis, getattr(case, axis)) for axis in AXES)


@cache
def _pairs(case: Case) -> frozenset[tuple[Value, Value]]:
    return frozenset(combinations(sorted(_values(case)), 2))
