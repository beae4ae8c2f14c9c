"""Practices: which cases are observed for them, and how their steps are judged."""

import dataclasses

import pytest
from torch import nn

from compilegate.judging.aspects import ASPECTS
from compilegate.judging.practices import judge_steps
from compilegate.observe.practices.bench import StepFacts
from compilegate.records.call import Difference
from compilegate.records.case import Case
from compilegate.records.practice import PRACTICES, Practice, Step
from compilegate.records.wording import counted
from compilegate.zoo import practices, registry, tiers
from tests.unit.making import make_checked, make_difference, make_error, make_observation

MODELS = registry.load()
NAME = PRACTICES[0]
#: What no library has models for: patterns of code, and decoders with caches.
OF_NO_LIBRARY = ("hazards", "generation")
LOADED = "load_state_dict into the compiled module"


class Own(nn.Module):
    """A module that PyTorch does not have."""


def practised(*steps, graphs=1, **fields):
    practice = Practice(steps=steps, graphs=graphs, **fields)
    return make_observation(practices={NAME: practice}, wants=("capture", NAME))


def step(**fields):
    healthy = {"outputs": make_checked(make_error("output")), "compilations": 0, "needed": 0}
    return Step(name=LOADED, **healthy | fields)


def test_a_healthy_practice_passes():
    finding = judge_steps(practised(step(), step()), NAME)
    assert finding.outcome == "passed", finding
    assert finding.summary == "2 steps, 2 values compared"


WRONG = make_checked(make_error("output", compiled_rms=1e-3, compiled_max=1e-2))


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"outputs": WRONG}, "output (float32): root mean square error is 0.001"),
        ({"gradients": WRONG}, "output (float32): root mean square error is 0.001"),
        (
            {"state": make_checked(differences=[make_difference("the state_dict", "names")])},
            "the state_dict: names differs",
        ),
        ({"raised": "ValueError: no"}, "raised ValueError: no"),
        ({"compilations": 2}, "2 more compilations, where none is needed"),
        (
            {"compilations": 1, "reasons": ("size mismatch (net.py:3 in forward)",)},
            "1 more compilation, where none is needed: size mismatch (net.py:3 in forward)",
        ),
        ({"compilations": 3, "needed": 1}, "3 compilations, 1 needed"),
    ],
)
def test_a_wrong_step_fails_and_is_named(fields, complaint):
    finding = judge_steps(practised(step(), step(**fields)), NAME)
    assert finding.outcome == "failed"
    assert finding.summary.startswith(f"{LOADED}: {complaint}")


def test_lines_that_are_alike_are_one_line_with_their_number():
    """As those of six threads that fail in the same way."""
    alike = make_difference("output", "stride")
    state = make_checked(differences=[alike] * 6 + [make_difference("output", "dtype")])
    finding = judge_steps(practised(step(state=state)), NAME)
    first, second = finding.details
    assert finding.summary == first
    assert first.startswith(f"{LOADED}: output: stride differs: ")
    assert first.endswith(" (6 times)")
    assert second.startswith(f"{LOADED}: output: dtype differs: ")
    assert not second.endswith("times)")


def test_a_number_has_its_noun_in_the_right_form():
    numbers = [counted(1, "graph"), counted(0, "graph"), counted(1_200.0, "miss", "misses")]
    assert numbers == ["1 graph", "0 graphs", "1,200 misses"]


def test_the_noise_of_a_step_widens_no_bound_of_another():
    noisy = make_checked(make_error("output", eager_rms=1e-2, eager_max=1e-1))
    assert judge_steps(practised(step(outputs=noisy), step(outputs=WRONG)), NAME).outcome == (
        "failed"
    )


@pytest.mark.parametrize(
    ("held", "others", "outcome"),
    [
        pytest.param(0.0, {}, "failed", id="its own memory"),
        pytest.param(0.05, {}, "failed", id="little is held by others"),
        pytest.param(0.4, {}, "inconclusive", id="much is held by others"),
        pytest.param(None, {}, "inconclusive", id="the machine's memory"),
        pytest.param(None, {"raised": "ValueError: no"}, "failed", id="another error, too"),
        pytest.param(None, {"outputs": WRONG}, "failed", id="a wrong output, too"),
    ],
)
def test_a_lack_of_memory_proves_nothing_where_others_hold_it(held, others, outcome):
    lacks = step(raised="RankError: rank 1 raises OutOfMemoryError: no", held_by_others=held)
    assert judge_steps(practised(lacks, step(**others)), NAME).outcome == outcome


def test_a_practice_whose_tensors_are_mostly_blind_is_inconclusive():
    """Noise as large as the values hides any fault: green would mean nothing."""
    blind = make_checked(make_error("output", eager_rms=0.9, eager_max=3.0, compiled_rms=0.9))
    finding = judge_steps(practised(step(outputs=blind), step(outputs=blind), step()), NAME)
    assert finding.outcome == "inconclusive"
    assert finding.summary == "2 of 3 tensors are blind: they prove nothing"
    assert judge_steps(practised(step(outputs=blind), step()), NAME).outcome == "passed"


def test_a_practice_without_a_graph_fails():
    finding = judge_steps(practised(step(), graphs=0), NAME)
    assert (finding.outcome, finding.summary) == ("failed", "nothing was compiled in any step")


def test_the_steps_explain_why_nothing_was_compiled():
    lacks = Difference(where="captured", what="required", eager="a graph", compiled="no graph")
    old = make_checked(differences=(lacks,))
    finding = judge_steps(practised(step(outputs=old), graphs=0), NAME)
    assert finding.summary.startswith(f"{LOADED}: captured: no graph")
    assert finding.details == (finding.summary, "nothing was compiled in any step")


@pytest.mark.parametrize(
    ("modules", "found"),
    [
        ([nn.Sequential(nn.ReLU())], "no graph (PyTorch may leave nn.Sequential to eager)"),
        ([nn.ReLU(), Own(), nn.GELU()], "no graph (PyTorch may leave nn.GELU, nn.ReLU to eager)"),
        ([Own()], "no graph"),
    ],
)
def test_modules_of_pytorch_that_it_may_leave_to_eager_are_named(modules, found):
    facts = StepFacts()
    facts.require_graph(is_captured=True, of=modules)
    assert facts.state.differences == ()
    facts.require_graph(is_captured=False, of=modules)
    assert [lacking.compiled for lacking in facts.state.differences] == [found]


def test_an_error_explains_why_nothing_was_compiled():
    finding = judge_steps(practised(step(raised="ValueError: no"), graphs=0), NAME)
    assert finding.summary == f"{LOADED}: raised ValueError: no"


def test_a_practice_that_compared_nothing_fails():
    bare = step(outputs=make_checked(tensors=0), unavailable="safetensors is not installed")
    finding = judge_steps(practised(bare), NAME)
    assert finding.outcome == "failed"
    assert finding.summary == "no step could be checked: safetensors is not installed"


def test_a_step_that_was_not_taken_is_named():
    finding = judge_steps(practised(step(), step(unavailable="not installed")), NAME)
    assert finding.outcome == "passed"
    assert finding.summary.endswith(f"not taken: {LOADED} (not installed)")


def test_an_unavailable_practice_is_skipped_with_its_reason():
    finding = judge_steps(practised(unavailable="a function has no checkpoint"), NAME)
    assert (finding.outcome, finding.summary) == (
        "skipped",
        "unavailable: a function has no checkpoint",
    )


def test_hazards_are_a_catalogue_of_the_zoo_and_not_of_a_library():
    """They are patterns of code, which no model of a library has."""
    assert ASPECTS["hazards"].practice == "hazards"
    hosts = [model for model in MODELS.values() if "hazards" in model.practices]
    assert {model.requires for model in hosts} == {None}
    assert len(hosts) >= 7


def test_generation_is_practised_by_a_decoder_and_by_an_encoder_decoder():
    """torchvision and timm have neither."""
    assert ASPECTS["generation"].practice == "generation"
    for device in ("cpu", "cuda"):
        cases = tiers.tier_cases("standard", [*MODELS.values()], device, MODELS)
        practised = {
            case.model
            for case in cases
            if "generation" in practices.practices_of(case, MODELS[case.model])
        }
        assert {"decoder", "gpt2", "llama", "t5"} <= practised, device


@pytest.mark.parametrize("name", [n for n in PRACTICES if n not in OF_NO_LIBRARY])
def test_each_practice_has_a_suite_and_models_of_each_library(name):
    assert ASPECTS[name].practice == name
    for device in ("cpu", "cuda"):
        libraries = {
            MODELS[case.model].requires
            for case in tiers.tier_cases("standard", [*MODELS.values()], device, MODELS)
            if name in practices.practices_of(case, MODELS[case.model])
        }
        assert {"torchvision", "timm", "transformers"} <= libraries, device


@pytest.mark.parametrize("name", PRACTICES)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_each_practice_has_a_case_in_smoke(name, device):
    smoke = tiers.tier_cases("smoke", [*MODELS.values()], device, MODELS)
    assert any(name in practices.practices_of(case, MODELS[case.model]) for case in smoke)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_full_tier_asks_each_model_for_twins_once(device):
    """Models that reproduce bugs and hazards are what they are for their exact program."""
    asked = [
        case.model
        for case in tiers.tier_cases("full", [*MODELS.values()], device, MODELS)
        if "twins" in practices.practices_of(case, MODELS[case.model], "full")
    ]
    assert len(asked) == len({*asked})
    exact = ("regressions", "hazards", "caches")
    for model in MODELS.values():
        if device in model.devices and model.name not in asked:
            assert model.family.startswith(exact), model.name
    assert not any(MODELS[name].family.startswith(exact) for name in asked)


@pytest.mark.parametrize("tier", ["smoke", "standard"])
def test_the_other_tiers_ask_for_the_practices_that_a_model_names(tier):
    for case in tiers.tier_cases(tier, [*MODELS.values()], "cpu", MODELS):
        model = MODELS[case.model]
        asked = practices.practices_of(case, model, tier)
        assert asked == practices.practices_of(case, model)
        assert {*asked} <= {*model.practices}


def test_a_model_is_practised_in_one_setting():
    model = dataclasses.replace(MODELS["matvec"], name="own", practices=(NAME,))
    (case,) = practices.cases_of(model, "cpu")
    assert practices.practices_of(case, model) == (NAME,)
    other = Case.parse(f"own-cpu-train-bf16-default-{case.dynamic}")
    assert practices.practices_of(other, model) == ()


def test_a_user_s_practised_case_is_in_smoke():
    model = dataclasses.replace(
        MODELS["matvec"], name="own", practices=PRACTICES, settings=("*-f32-*",)
    )
    smoke = tiers.tier_cases("smoke", [model], "cpu", ())
    assert {*practices.cases_of(model, "cpu")} <= {*smoke}


def test_an_unknown_practice_is_refused():
    with pytest.raises(registry.ZooError, match=r"unknown practice 'checkpoint'.*'checkpoints'"):
        registry.model("own_practised", practices=("checkpoint",))(lambda: None)
