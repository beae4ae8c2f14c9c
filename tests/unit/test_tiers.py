"""Tests of the tiers, over the whole shipped zoo, and of the selection of cases."""

import re
from itertools import combinations, product
from pathlib import Path

import pytest

from compilegate.records.case import AXES, Case, UnknownNameError
from compilegate.zoo import compiling_again, registry, selection, tiers
from compilegate.zoo.registry import Model

MODELS = list(registry.load().values())
SHIPPED = [model.name for model in MODELS]


def values(case):
    return {(axis, getattr(case, axis)) for axis in AXES}


@pytest.fixture(scope="module", params=["cpu", "cuda"])
def standard(request):
    return request.param, tiers.tier_cases("standard", MODELS, request.param, SHIPPED)


def test_standard_shows_each_model_every_value(standard):
    device, chosen = standard
    for model in MODELS:
        possible = [c for c in tiers.cases_of(model, device) if not c.autotunes]
        seen = {value for case in chosen if case.model == model.name for value in values(case)}
        assert {value for case in possible for value in values(case)} <= seen, model.name


def test_standard_shows_each_family_every_pair(standard):
    device, chosen = standard
    for family in {model.family for model in MODELS}:
        members = {model.name for model in MODELS if model.family == family}
        possible = [
            case
            for model in MODELS
            if model.name in members
            for case in tiers.cases_of(model, device)
            if not case.autotunes
        ]
        wanted = {pair for case in possible for pair in combinations(sorted(values(case)), 2)}
        seen = {
            pair
            for case in chosen
            if case.model in members
            for pair in combinations(sorted(values(case)), 2)
        }
        assert wanted <= seen, family


def test_standard_autotunes_some_models_in_each_mode_and_phase(standard):
    device, chosen = standard
    tuned = [case for case in chosen if case.autotunes]
    assert [case.model for case in tuned] == [name for name in tiers.AUTOTUNED for _ in range(2)]
    assert not any(model.slow for model in MODELS if model.name in tiers.AUTOTUNED)
    assert {case.precision for case in tuned} == {"bf16" if device == "cuda" else "f32"}
    modes = ("max_autotune", "max_autotune_no_cudagraphs")[: 2 if device == "cuda" else 1]
    for model in tiers.AUTOTUNED:
        assert {case.phase for case in tuned if case.model == model} == {"infer", "train"}
    assert {(case.mode, case.phase) for case in tuned} == set(product(modes, AXES["phase"]))
    assert {(case.phase, case.dynamic) for case in tuned} == {
        ("infer", "static"),
        ("train", "marked"),
    }


def test_standard_autotunes_a_quick_model_of_each_user_family():
    mine = [
        registry.Model(name="large", family="mine", slow=True),
        registry.Model(name="small", family="mine", vary={"batch": (4, 2, 6)}),
        registry.Model(name="huge", family="other", slow=True),
        registry.Model(name="single", family="third", settings=("*-f32-*",)),
        registry.Model(name="plain", family="fourth", settings=("*-default-*",)),
        registry.Model(name="tunable", family="fourth"),
    ]
    chosen = tiers.tier_cases("standard", [*MODELS, *mine], "cuda", SHIPPED)
    tuned = {case.setting for case in chosen if case.autotunes and case.model == "small"}
    assert tuned == {
        "infer-bf16-max_autotune-static",
        "train-bf16-max_autotune_no_cudagraphs-marked",
    }
    names = {case.model for case in chosen if case.autotunes}
    assert {model.name for model in mine} & names == {"small", "huge", "single", "tunable"}


def test_cases_that_tune_kernels_have_more_time():
    plain = Case.parse("gpt2-cuda-train-bf16-default-static")
    tuned = Case.parse("gpt2-cuda-train-bf16-max_autotune-static")
    assert tiers.timeout_s(plain, "standard") == 900
    assert tiers.timeout_s(tuned, "standard") == 2700


def test_the_readme_states_the_sizes_of_the_tiers():
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    stated = {
        "standard": re.findall(r"runs the (\d+) cases of the tier `standard`", readme),
        "smoke": re.findall(r"`--tier smoke` has (\d+) cases", readme),
    }
    assert stated == {
        tier: [str(len(tiers.tier_cases(tier, MODELS, "cuda", SHIPPED)))] for tier in stated
    }


def test_standard_is_far_smaller_than_full(standard):
    device, chosen = standard
    assert 10 * len(chosen) < len(tiers.tier_cases("full", MODELS, device, SHIPPED)) * 3


def test_smoke_covers_libraries_phases_precisions_and_dynamic_settings():
    chosen = tiers.tier_cases("smoke", MODELS, "cpu", SHIPPED)
    by_name = {model.name: model for model in MODELS}
    models = [by_name[name] for name in {case.model for case in chosen}]
    assert len(chosen) >= 18
    assert len(models) >= 8
    for library in ("torchvision", "timm", "transformers"):
        assert sum(model.requires == library for model in models) >= 2, library
    assert {case.phase for case in chosen} == {"infer", "train"}
    assert {case.precision for case in chosen} == {"f32", "bf16"}
    assert {case.dynamic for case in chosen} == set(AXES["dynamic"])
    assert sum(tiers.is_cold(case, "smoke", shipped=True) for case in chosen) >= 2


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_smoke_cases_are_possible_cases_of_the_zoo(device):
    for name in (*tiers.SMOKE, *tiers.SMOKE_CUDA):
        assert name in SHIPPED
    for case in tiers.tier_cases("smoke", MODELS, device, SHIPPED):
        assert case in tiers.cases_of(next(m for m in MODELS if m.name == case.model), device)


def test_smoke_on_a_gpu_trades_cases_and_adds_none():
    smoke = {name: tiers.tier_cases("smoke", MODELS, name, SHIPPED) for name in ("cpu", "cuda")}
    models = {device: [case.model for case in cases] for device, cases in smoke.items()}
    assert models["cpu"] == models["cuda"]
    assert len(set(smoke["cuda"])) == len(smoke["cuda"])
    assert {case.phase for case in smoke["cuda"]} == {"infer", "train"}
    assert {case.precision for case in smoke["cuda"]} == {"f32", "bf16"}
    assert {case.dynamic for case in smoke["cuda"]} == set(AXES["dynamic"])
    for device, cases in smoke.items():
        special = [
            case.model
            for case in cases
            if compiling_again.respecialises(case, "smoke", cases, shipped=True)
        ]
        assert special == ["matvec_decorated", "conv_pool_linear"], device


def test_a_users_model_has_smoke_cases():
    mine = registry.Model(name="mine", family="mine")
    chosen = tiers.tier_cases("smoke", [*MODELS, mine], "cpu", SHIPPED)
    assert [c.id for c in chosen if c.model == "mine"] == [
        f"mine-cpu-{setting}" for setting in tiers.SMOKE_DEFAULT
    ]


@pytest.mark.parametrize("tier", tiers.TIERS)
def test_a_model_has_cases_on_its_devices_only(tier):
    mine = registry.Model(name="mine", family="mine", devices=("cuda",))
    for device in ("cpu", "cuda"):
        chosen = tiers.tier_cases(tier, [*MODELS, mine], device, SHIPPED)
        assert any(case.model == "mine" for case in chosen) is (device == "cuda")


@pytest.mark.parametrize(
    ("selectors", "reason"),
    [
        ({"model_globs": ["mine"]}, r"matches --models 'mine': mine declares devices=\('cuda',\)$"),
        (
            {"case_globs": ["mine-cpu-infer-f32-default-static"]},
            r"impossible case .*: mine declares devices=\('cuda',\)$",
        ),
    ],
)
def test_the_reason_for_an_empty_selection_names_the_devices_of_the_model(selectors, reason):
    mine = registry.Model(name="mine", family="mine", devices=("cuda",))
    with pytest.raises(ValueError, match=reason):
        selection.select([*MODELS, mine], {"cpu": "standard"}, SHIPPED, **selectors)


def test_a_users_cast_weights_have_a_smoke_case_each():
    mine = registry.Model(name="mine", family="mine", weights=("bf16_weights", "int8_weights"))
    chosen = tiers.tier_cases("smoke", [*MODELS, mine], "cpu", SHIPPED)
    assert [c.setting for c in chosen if c.model == "mine"] == [
        *tiers.SMOKE_DEFAULT,
        "infer-f32-default-static-bf16_weights",
        "infer-f32-default-static-int8_weights",
    ]


def test_a_glob_on_settings_includes_no_weights_that_a_model_does_not_declare():
    mine = registry.Model(name="mine", family="mine", settings=("*-f32-*",))
    assert {case.weights for case in tiers.cases_of(mine, "cuda")} == {"f32_weights"}


def test_globs_select_within_the_tier():
    chosen = selection.select(MODELS, {"cpu": "full"}, SHIPPED, model_globs=["resnet*"])
    assert {case.model for case in chosen} == {"resnet18", "resnet50", "resnet50_sum_loss"}
    chosen = selection.select(MODELS, {"cpu": "full"}, SHIPPED, case_globs=["resnet18-*-bf16-*"])
    assert {(case.model, case.precision) for case in chosen} == {("resnet18", "bf16")}


def test_a_case_named_in_full_is_selected_in_every_tier():
    name = "resnet50-cpu-train-bf16-max_autotune-dynamic"
    chosen = selection.select(MODELS, {"cpu": "smoke"}, SHIPPED, case_globs=[name])
    assert chosen == [Case.parse(name)]


@pytest.mark.parametrize(
    ("selectors", "message"),
    [
        ({"model_globs": ["resnet81"]}, "did you mean 'resnet18'"),
        ({"case_globs": ["resnet81-cpu-infer-f32-default-static"]}, "did you mean 'resnet18'"),
        ({"case_globs": ["*-cpu-infer-f64-*"]}, "unknown value 'f64'; did you mean 'f16'"),
        ({"case_globs": ["resnte18-*"]}, "did you mean 'resnet18'"),
        ({"case_globs": ["vgg11_bn-*"]}, "no case of tier smoke on cpu matches"),
        ({"model_globs": ["vgg11_bn"]}, "try a larger tier: --tier full"),
        ({"case_globs": ["gru-cpu-infer-f32-default-static-regional"]}, "no repeated blocks"),
        (
            {"case_globs": ["gru-cpu-infer-f32-default-static-bf16_weights"]},
            r"gru declares no weights=\('bf16_weights',\)",
        ),
    ],
)
def test_an_empty_selection_is_refused_with_the_reason(selectors, message):
    with pytest.raises(ValueError, match=message):
        selection.select(MODELS, {"cpu": "smoke"}, SHIPPED, **selectors)
    assert issubclass(UnknownNameError, ValueError)


def test_a_users_model_compiles_cold_in_its_smoke_settings_in_every_tier():
    cold = [Case.parse(f"mine-cpu-{setting}") for setting in tiers.SMOKE_DEFAULT]
    warm = Case.parse("mine-cpu-infer-bf16-default-static")
    for tier in tiers.TIERS:
        assert all(tiers.is_cold(case, tier, shipped=False) for case in cold)
        assert not tiers.is_cold(warm, tier, shipped=False)
        assert not any(tiers.is_cold(case, tier, shipped=True) for case in cold)


def counted(tier, device):
    chosen = tiers.tier_cases(tier, MODELS, device, SHIPPED)
    by_name = {model.name: model for model in MODELS}
    return [case for case in chosen if tiers.counts_work(case, by_name[case.model], shipped=True)]


def test_compile_work_is_counted_in_few_cases_that_cover_training_and_dynamic_shapes():
    assert [case.id for case in counted("smoke", "cpu")] == [
        "matvec-cpu-infer-f32-default-static",
        "matvec-cpu-train-f32-default-marked",
        "conv_pool_linear-cpu-train-f32-default-auto",
        "conv_pool_linear-cpu-infer-bf16-default-dynamic",
        "transformer_encoder-cpu-infer-f32-default-auto-regional",
    ]
    for device in ("cpu", "cuda"):
        sample = counted("standard", device)
        assert len(sample) < 12
        assert {case.model for case in sample} == set(tiers.COUNTED)
        assert {case.phase for case in sample} == {"infer", "train"}
        assert {"static", "dynamic", "marked"} <= {case.dynamic for case in sample}
        assert not any(case.autotunes or case.uses_cuda_graphs for case in sample)


@pytest.mark.parametrize(
    ("settings", "setting"),
    [(("*",), "train-f32-default-auto"), (("infer-*",), "infer-f32-default-static")],
)
def test_the_work_of_a_user_s_model_is_counted_in_training_where_it_trains(settings, setting):
    model = Model("mine", "mine", settings=settings)
    sample = [c for c in tiers.cases_of(model, "cpu") if tiers.counts_work(c, model, shipped=False)]
    assert [case.setting for case in sample] == [setting]
