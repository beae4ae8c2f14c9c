"""Which cases make probing calls that compile again, and in which memory layouts."""

import dataclasses
import fnmatch

import torch

from compilegate.observe.model.probes import layouts
from compilegate.observe.phases.probing_plan import in_other_layouts
from compilegate.records.case import Case
from compilegate.zoo import registry, tiers
from compilegate.zoo.example import Example
from tests.unit.observed import Linear, observation

LAYOUTS = [probe.name for probe in layouts()]


def called(*wants):
    """The probing calls of a linear layer, given what is wanted of them."""
    dims = {0: {0: "batch"}}
    return observation(Linear, "infer", "eager", ("capture", *wants), dims=dims, signal=False)


def test_a_model_that_shares_layouts_out_is_called_in_two_of_them():
    seen = [fact.probe for fact in called("respecialise").probes if fact.probe in LAYOUTS]
    everywhere = [
        fact.probe
        for fact in called("respecialise", "every_layout").probes
        if fact.probe in LAYOUTS
    ]
    assert len(seen) == 2
    assert set(seen) < set(everywhere), "a matrix has no channels"
    assert len(everywhere) == 4


def test_the_models_of_a_family_share_all_layouts_out():
    example = Example(Linear(), inputs=lambda n: (torch.randn(n, 4),), dims={0: {0: "n"}})
    family = [model for model in registry.load().values() if model.family == "timm_convnets"]
    seen = set()
    for model in family:
        case = Case.parse(f"{model.name}-cpu-infer-f32-default-auto")
        first, second, *_ = in_other_layouts(example, {"n": 6}, case)
        seen |= {first.probe.name, second.probe.name}
    assert seen == set(LAYOUTS)


def test_large_shipped_models_share_layouts_out_in_the_standard_tier():
    large, small = registry.load()["resnet18"], registry.load()["mlp"]
    users = dataclasses.replace(large, build=None)
    every = {"respecialise", "every_layout"}
    assert tiers.compiling_again(large, "standard") == {"respecialise"}
    assert tiers.compiling_again(large, "full") == every
    assert tiers.compiling_again(users, "standard") == every
    assert tiers.compiling_again(small, "standard") == every


def test_one_case_of_each_model_compiles_again_for_its_probing_calls():
    named = ("train-f32-default-auto", "infer-bf16-default-auto", "infer-f32-default-dynamic")
    cases = [Case.parse(f"m-cpu-{setting}") for setting in named]
    chosen = [case.setting for case in cases if tiers.respecialises(case, "standard", cases)]
    assert chosen == ["infer-f32-default-dynamic"]
    assert not any(tiers.respecialises(case, "smoke", cases) for case in cases)


def test_each_case_of_the_smoke_tier_that_compiles_again_is_in_the_tier():
    for model, glob in tiers.RESPECIALISED.items():
        assert fnmatch.filter([named.rstrip("*") for named in tiers.SMOKE[model]], glob)
