"""Selection: the cases of a tier, or of a run, that the user's globs keep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from compilegate.records.case import AXES, LEFT_OUT, Case, UnknownNameError
from compilegate.zoo.registry import Model
from compilegate.zoo.tiers import cases_of, tier_cases


def select(
    models: Sequence[Model],
    tiers: dict[str, str],
    shipped: Iterable[str],
    *,
    model_globs: Sequence[str] = (),
    case_globs: Sequence[str] = (),
) -> list[Case]:
    """Return the cases of the selected models, grouped by model.

    A case that is named in full is selected in every tier.

    Args:
        models: The zoo.
        tiers: The tier of each selected device.
        shipped: The names of the models that compilegate ships.
        model_globs: Keep the models whose name matches one of these; all if there are none.
        case_globs: Keep the cases whose id matches one of these; all if there are none.

    Raises:
        UnknownNameError: A glob matches no model, or a case id contains an unknown name.
        ValueError: No case is left, or a glob matches no possible case.
    """
    own_first = sorted((model.name for model in models), key=lambda name: name in shipped)
    _check_names("model", model_globs, own_first)
    wanted = [m for m in models if not model_globs or _matches(m.name, model_globs)]
    _check_case_globs(case_globs, models)
    names = {model.name for model in wanted}
    exact = {case.id: case for case in _named_cases(case_globs, models) if case.device in tiers}
    chosen: dict[str, Case] = {}
    if not case_globs or not all(map(_is_named_in_full, case_globs)):
        for device, tier in tiers.items():
            for case in tier_cases(tier, models, device, shipped):
                if case.model in names and (not case_globs or _matches(case.id, case_globs)):
                    chosen[case.id] = case
    chosen |= {case_id: case for case_id, case in exact.items() if case.model in names}
    if not chosen:
        raise ValueError(_nothing_left(tiers, wanted, model_globs, case_globs))
    order = {model.name: position for position, model in enumerate(models)}
    return sorted(chosen.values(), key=lambda case: (order[case.model], case.device))


def narrow(
    cases: Iterable[Case], model_globs: Sequence[str], case_globs: Sequence[str]
) -> list[Case]:
    """Return the cases of a run that match the globs.

    Raises:
        UnknownNameError: A glob matches no model or case of the run.
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
    """Return the cases that match the globs; an empty list of globs matches every case."""
    return [
        case
        for case in cases
        if (not model_globs or _matches(case.model, model_globs))
        and (not case_globs or _matches(case.id, case_globs))
    ]


def _matches(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _is_named_in_full(glob: str) -> bool:
    return not any(character in glob for character in "*?[")


def _check_names(what: str, globs: Sequence[str], known: Sequence[str]) -> None:
    for glob in globs:
        if not any(fnmatchcase(name, glob) for name in known):
            raise UnknownNameError(what, glob, known)


def _check_case_globs(globs: Sequence[str], models: Sequence[Model]) -> None:
    """Refuse a glob that matches no possible case, and name its first unknown field."""
    globs = [glob for glob in globs if not _is_named_in_full(glob)]
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
        raise ValueError(f"--cases {glob!r} matches no possible case of the zoo")


def _named_cases(globs: Sequence[str], models: Sequence[Model]) -> Iterator[Case]:
    """Yield the cases that are named in full, without wildcards."""
    by_name = {model.name: model for model in models}
    for glob in globs:
        if not _is_named_in_full(glob):
            continue
        case = Case.parse(glob)
        if case.model not in by_name:
            raise UnknownNameError("model", case.model, by_name)
        refuse_impossible(case, by_name[case.model])
        yield case


def refuse_impossible(case: Case, model: Model) -> None:
    """Refuse a case that its model does not have.

    Raises:
        ValueError: The message says why there is no such case.
    """
    if case not in cases_of(model, case.device):
        raise ValueError(f"impossible case {case.id!r}: {_why_not(case, model)}")


def _why_not(case: Case, model: Model) -> str:
    """Explain why a model has no such case."""
    if case.device not in model.devices:
        return f"{model.name} declares devices={tuple(model.devices)!r}"
    if not model.has_setting(case.setting):
        return f"{model.name} only has the settings {' '.join(model.settings)}"
    if case.weights != LEFT_OUT["weights"] and case.weights not in model.weights:
        return f"{model.name} declares no weights={(case.weights,)!r}"
    lacks = "dimensions that vary" if case.dynamic == "marked" else "repeated blocks"
    return f"{model.name} declares no {lacks}"


def _nothing_left(
    tiers: dict[str, str], wanted: Sequence[Model], models: Sequence[str], cases: Sequence[str]
) -> str:
    """Explain why no case is left: of the models ``wanted``, by the globs of models and cases."""
    asked = [f"--models {glob!r}" for glob in models] + [f"--cases {glob!r}" for glob in cases]
    where = " and ".join(f"tier {tier} on {device}" for device, tier in tiers.items())
    text = f"no case of {where or 'the selected devices'} matches {' '.join(asked)}"
    if matching((case for m in wanted for d in tiers for case in cases_of(m, d)), (), cases):
        return f"{text}; try a larger tier: --tier full"
    if tiers and tiers.keys().isdisjoint(device for model in wanted for device in model.devices):
        return f"{text}: {wanted[0].name} declares devices={tuple(wanted[0].devices)!r}"
    return text
