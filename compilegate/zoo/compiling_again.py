"""Which probing calls that compile again a case has, as its tier can afford."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from compilegate.records.case import LEFT_OUT, Case
from compilegate.records.observation import Want
from compilegate.zoo.registry import Model

#: The cases of shipped models in the smoke tier whose probing calls include those that compile
#: again, as globs: the models are small, and their kernels compile within seconds.
RESPECIALISED = {
    "matvec_decorated": "infer-*-default-auto",
    "conv_pool_linear": "train-f32-default-auto",
}

#: How the families of shipped models begin that compile for long. They have fewer of these calls.
LARGE = ("torchvision_", "timm_", "transformers_", "diffusers_")


def compiling_again(case: Case, model: Model, tier: str, cases: Sequence[Case]) -> set[Want]:
    """Return what asks for the probing calls of a case that compile again.

    Args:
        case: The case.
        model: Its model.
        tier: The tier of its device.
        cases: The cases of its model on its device.
    """
    found: set[Want] = set()
    shipped = model.build is not None
    is_large = shipped and model.family.startswith(LARGE)
    if model.slow:
        return found
    if respecialises(case, tier, cases, shipped=shipped):
        # Large models share the memory layouts out: they begin with the same few operators, which
        # read the inputs.
        shares = is_large and tier == "standard"
        shares |= tier != "smoke" and case != _first(cases, phase="infer")
        found |= {"respecialise"} if shares else {"respecialise", "every_layout"}
    if has_plain_inputs(case, tier, cases, shipped=shipped):
        found.add("plain_inputs")
    if has_small_batches(case, tier, cases, is_large=is_large):
        found.add("small_batches")
    return found


def respecialises(case: Case, tier: str, cases: Sequence[Case], *, shipped: bool) -> bool:
    """Whether the probing calls of a case include those that compile again.

    In the smoke tier, those of a few small models do, and one case of each user's model. In the
    others, two cases of each model do in float32, whose bounds are narrow: one in inference, where
    batch norm takes a batch of one, and one in training, for gradients.

    Args:
        case: The case.
        tier: The tier of its device.
        cases: The cases of its model on its device.
        shipped: Whether compilegate ships the model.
    """
    if tier == "smoke" and shipped:
        return fnmatchcase(case.setting, RESPECIALISED.get(case.model, ""))
    if case == _first(cases, phase="infer"):
        return True
    return tier != "smoke" and _is_plain_training(case, cases)


def has_plain_inputs(case: Case, tier: str, cases: Sequence[Case], *, shipped: bool) -> bool:
    """Whether a case that trains is also called with inputs that require no gradients.

    That compiles another graph, the one that most people train with. One case of each model in
    float32 does so; in half precision, inputs never require gradients. In the smoke tier, these are
    one case that compilegate ships, and a user's own.

    Args:
        case: The case.
        tier: The tier of its device.
        cases: The cases of its model on its device.
        shipped: Whether compilegate ships the model.
    """
    if tier == "smoke" and shipped and case.model not in RESPECIALISED:
        return False
    return _is_plain_training(case, cases)


def has_small_batches(case: Case, tier: str, cases: Sequence[Case], *, is_large: bool) -> bool:
    """Whether a case in half precision is also called with a batch of one, and with one of zero.

    Libraries take other kernels for a matrix of one row, and others in half precision. One case of
    each model does so, in inference if it has such a case: a decoder has a batch of one there.

    Args:
        case: The case.
        tier: The tier of its device.
        cases: The cases of its model on its device.
        is_large: Whether the model does so in the tier *full* alone.
    """
    in_half = [one for one in cases if one.computes_in_half]
    if tier == "smoke" or (is_large and tier != "full"):
        return False
    return case in in_half and case == _first(in_half, phase="infer")


def _is_plain_training(case: Case, cases: Sequence[Case]) -> bool:
    """Whether a case is the one of its model that trains in float32 in the plainest way."""
    trains = (case.phase, case.computes_in_half) == ("train", False)
    return trains and case == _first(cases, phase="train")


def _first(cases: Sequence[Case], phase: str) -> Case:
    """Return the case of a model that is compiled in the plainest way."""
    preferred = {"mode": "default", **LEFT_OUT, "phase": phase, "precision": "f32"}
    return min(
        cases,
        key=lambda one: [
            *(getattr(one, axis) != value for axis, value in preferred.items()),
            ("auto", "dynamic", "static", "marked").index(one.dynamic),
        ],
    )
