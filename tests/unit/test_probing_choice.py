"""Which cases make probing calls that compile again, and in which memory layouts."""

import dataclasses
import fnmatch

import pytest
import torch
from torch.compiler import is_compiling

from compilegate.judging.budget import Budget
from compilegate.observe.model.probes import layouts
from compilegate.observe.model_session import ModelSession
from compilegate.observe.phases.probing_plan import in_other_layouts
from compilegate.records.case import Case
from compilegate.records.request import Request
from compilegate.suites import test_forward, test_gradients
from compilegate.zoo import compiling_again, registry
from compilegate.zoo.example import Example
from compilegate.zoo.tiers import SMOKE
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
    case, training = (Case.parse(f"m-cpu-{phase}-f32-default-auto") for phase in ("infer", "train"))

    def asked(model, tier, chosen=case):
        return compiling_again.compiling_again(chosen, model, tier, [case, training])

    assert asked(large, "standard") == {"respecialise"}
    assert asked(large, "full") == every
    assert asked(users, "standard") == every
    assert asked(small, "standard") == every
    assert asked(users, "full", training) == {"respecialise", "plain_inputs"}
    assert asked(small, "smoke") == asked(small, "smoke", training) == set()
    assert asked(users, "smoke") == every
    assert asked(users, "smoke", training) == {"plain_inputs"}
    assert asked(dataclasses.replace(users, slow=True), "smoke") == set()
    assert asked(dataclasses.replace(users, slow=True), "standard") == set()


def test_the_case_that_compiles_again_has_weights_in_float32():
    named = ("infer-f32-default-auto-bf16_weights", "infer-f32-default-static")
    cases = [Case.parse(f"m-cpu-{setting}") for setting in named]
    chosen = [
        case.setting
        for case in cases
        if compiling_again.respecialises(case, "standard", cases, shipped=True)
    ]
    assert chosen == ["infer-f32-default-static"]


def test_one_case_of_each_model_in_half_precision_has_a_batch_of_one():
    large, small = registry.load()["resnet18"], registry.load()["mlp"]
    named = ("train-bf16-default-auto", "infer-f32-default-auto", "infer-f16-default-dynamic")
    cases = [Case.parse(f"m-cuda-{setting}") for setting in named]

    def chosen(model, tier, among=cases):
        return [
            case.setting
            for case in among
            if "small_batches" in compiling_again.compiling_again(case, model, tier, among)
        ]

    assert chosen(small, "standard") == chosen(large, "full") == ["infer-f16-default-dynamic"]
    assert chosen(small, "standard", cases[:2]) == ["train-bf16-default-auto"]
    assert chosen(large, "standard") == chosen(small, "smoke") == []
    assert chosen(dataclasses.replace(small, slow=True), "full") == []


def test_one_training_case_of_each_model_has_inputs_without_gradients():
    named = ("infer-f32-default-auto", "train-bf16-default-auto", "train-f32-default-static")
    cases = [Case.parse(f"m-cpu-{setting}") for setting in (*named, "train-f32-default-marked")]

    def chosen(tier, *, shipped):
        return [
            case.setting
            for case in cases
            if compiling_again.has_plain_inputs(case, tier, cases, shipped=shipped)
        ]

    assert chosen("standard", shipped=True) == ["train-f32-default-static"]
    assert chosen("smoke", shipped=False) == ["train-f32-default-static"]
    assert chosen("smoke", shipped=True) == []


class WrongWithoutGradients(Linear):
    """Compiled code halves the gradient of the weights if the input requires none."""

    right = False

    def forward(self, x):
        y = self.linear(x)
        wrong = is_compiling() and not x.requires_grad and not self.right
        return y - 0.5 * (y - y.detach()) if wrong else y


class RightWithoutGradients(WrongWithoutGradients):
    right = True


@pytest.mark.parametrize(
    ("build", "outcome"), [(WrongWithoutGradients, "failed"), (RightWithoutGradients, "passed")]
)
def test_a_fault_in_the_graph_without_gradients_of_inputs_shows(build, outcome):
    wants = ("capture", "vary", "plain_inputs")
    finding = test_gradients.rule(observation(build, "train", wants=wants), Budget())
    assert finding.outcome == outcome, finding
    if outcome == "failed":
        assert "inputs that require no gradients: gradient linear.weight" in finding.summary


class WrongAtOne(WrongWithoutGradients):
    """Compiled code halves the gradient of the weights at a batch of one."""

    def forward(self, x):
        y = self.linear(x)
        wrong = is_compiling() and len(x) == 1 and not self.right
        return y - 0.5 * (y - y.detach()) if wrong else y


class RightAtOne(WrongAtOne):
    right = True


@pytest.mark.parametrize(("build", "outcome"), [(WrongAtOne, "failed"), (RightAtOne, "passed")])
def test_a_fault_in_half_precision_at_a_batch_of_one_shows(build, outcome):
    wants, dims = ("capture", "vary", "small_batches"), {0: {0: "batch"}}
    seen = observation(build, "train", wants=wants, dims=dims, precision="bf16")
    assert [fact.probe for fact in seen.probes] == ["batch of one"]
    finding = test_gradients.rule(seen, Budget())
    assert finding.outcome == outcome, finding


@pytest.mark.parametrize(("build", "outcome"), [(WrongAtOne, "failed"), (RightAtOne, "passed")])
def test_a_fault_in_gradients_at_a_batch_of_one_shows(build, outcome):
    wants = ("capture", "vary", "respecialise")
    seen = observation(build, "train", wants=wants, dims={0: {0: "batch"}})
    finding = test_gradients.rule(seen, Budget())
    assert finding.outcome == outcome, finding
    if outcome == "failed":
        assert "batch of one: gradient linear.weight" in finding.summary
    names = {fact.probe for fact in seen.probes}
    assert len(names & set(LAYOUTS)) == 2
    assert "other numbers in modules" not in names


class WrongAtOneStep(torch.nn.Module):
    """Compiled code is wrong for a sequence of one, as a decoder's next token."""

    right = False

    def forward(self, x):
        wrong = is_compiling() and x.shape[1] == 1 and not self.right
        return x.cumsum(1) * (1.01 if wrong else 1.0)


class RightAtOneStep(WrongAtOneStep):
    right = True


def at_one_step(build, phase, dims):
    """Observe a module of sequences at small sizes."""
    return observation(
        build,
        phase,
        wants=("capture", "vary", "respecialise"),
        inputs=lambda batch: (torch.randn(3, batch, 4),),
        dims={0: dims},
    )


@pytest.mark.parametrize(
    ("build", "outcome"), [(WrongAtOneStep, "failed"), (RightAtOneStep, "passed")]
)
def test_a_fault_at_a_sequence_of_one_shows(build, outcome):
    finding = test_forward.rule(at_one_step(build, "infer", {1: "batch"}), Budget())
    assert finding.outcome == outcome, finding
    if outcome == "failed":
        assert finding.summary.startswith("probing call (batch=1), batch of one: output")


@pytest.mark.parametrize(("phase", "dims"), [("train", {1: "batch"}), ("infer", {2: "batch"})])
def test_no_training_has_a_sequence_of_one_and_no_third_dimension_a_size_of_one(phase, dims):
    seen = at_one_step(RightAtOneStep, phase, dims)
    assert not [fact.probe for fact in seen.probes if fact.probe == "batch of one"]


class WrongAtEqualSizes(WrongAtOneStep):
    """Compiled code is wrong where the sequence is as long as the batch."""

    def forward(self, x):
        wrong = is_compiling() and x.shape[0] == x.shape[1] and not self.right
        return x.cumsum(1) * (1.01 if wrong else 1.0)


class RightAtEqualSizes(WrongAtEqualSizes):
    right = True


def at_equal_sizes(build, dynamic):
    """Observe a module of sequences whose two sizes vary."""

    def example():
        return Example(
            build(),
            inputs=lambda batch, length: (torch.randn(batch, length, 4),),
            dims={0: {0: "batch", 1: "length"}},
        )

    entry = registry.Model("m", "m", {"batch": (6, 4), "length": (9, 7)}, build=example)
    case, wants = f"m-cpu-infer-f32-default-{dynamic}", ("capture", "vary", "respecialise")
    request = Request(case=case, wants=wants, backend="eager")
    return ModelSession({"m": entry}, lambda stage: None).observe(request)


@pytest.mark.parametrize("dynamic", ["auto", "dynamic", "marked"])
@pytest.mark.parametrize(
    ("build", "outcome"), [(WrongAtEqualSizes, "failed"), (RightAtEqualSizes, "passed")]
)
def test_a_fault_where_two_symbols_are_equal_shows(build, outcome, dynamic):
    finding = test_forward.rule(at_equal_sizes(build, dynamic), Budget())
    assert finding.outcome == outcome, finding
    if outcome == "failed":
        where = "probing call (batch=6, length=6), equal batch and length: output"
        assert finding.summary.startswith(where), finding.summary


def test_static_code_has_no_symbols_that_could_be_equal():
    seen = at_equal_sizes(RightAtEqualSizes, "static")
    assert not [fact.probe for fact in seen.probes if fact.probe.startswith("equal")]


class WrongBeyondTen(WrongWithoutGradients):
    """Compiled code has bounds that no number from a normal distribution reaches."""

    def forward(self, x):
        y = self.linear(x)
        return y.clamp(-10.0, 10.0) if is_compiling() and not self.right else y


class RightBeyondTen(WrongBeyondTen):
    right = True


@pytest.mark.parametrize("precision", ["f32", "bf16"])
@pytest.mark.parametrize(
    ("build", "outcome"), [(WrongBeyondTen, "failed"), (RightBeyondTen, "passed")]
)
def test_a_fault_beyond_usual_numbers_shows_in_bfloat16_too(build, outcome, precision):
    wants = ("capture", "vary", "reuse")
    finding = test_gradients.rule(
        observation(build, "train", wants=wants, precision=precision), Budget()
    )
    assert finding.outcome == outcome, finding
    assert outcome == "passed" or "numbers 32 times as large" in finding.summary


def test_two_cases_of_each_model_compile_again_for_their_probing_calls():
    named = (
        "train-bf16-default-auto",
        "train-f32-default-auto",
        "infer-bf16-default-auto",
        "infer-f32-default-dynamic",
    )
    cases = [Case.parse(f"m-cpu-{setting}") for setting in named]

    def chosen(tier, *, shipped):
        return [
            case.setting
            for case in cases
            if compiling_again.respecialises(case, tier, cases, shipped=shipped)
        ]

    for shipped in (True, False):
        expected = ["train-f32-default-auto", "infer-f32-default-dynamic"]
        assert chosen("standard", shipped=shipped) == expected
    assert chosen("smoke", shipped=True) == []
    assert chosen("smoke", shipped=False) == ["infer-f32-default-dynamic"]


@pytest.mark.parametrize("named", [["train-f32-default-auto"], ["infer-bf16-default-static"]])
def test_a_users_model_has_such_a_case_in_smoke_whichever_settings_it_has(named):
    cases = [Case.parse(f"m-cpu-{setting}") for setting in named]
    assert all(compiling_again.respecialises(case, "smoke", cases, shipped=False) for case in cases)


def test_each_case_of_the_smoke_tier_that_compiles_again_is_in_the_tier():
    for model, glob in compiling_again.RESPECIALISED.items():
        assert fnmatch.filter([named.rstrip("*") for named in SMOKE[model]], glob)
