"""Probing calls of recipes that fix their inputs or list their calls."""

import threading

import pytest
import torch

from compilegate.observe.model.given_arguments import GivenArguments
from compilegate.observe.model_session import ModelSession
from compilegate.observe.phases.probing_plan import with_further_inputs
from compilegate.records.case import Case
from compilegate.records.request import Request
from compilegate.suites import test_forward, test_gradients, test_side_effects
from compilegate.zoo.example import Call, Example
from compilegate.zoo.registry import Model
from tests.unit.observed import Linear
from tests.unit.probed import WANTS, answering_otherwise, given_otherwise, verdict_of
from tests.unit.test_probing import ignoring_strides, wrong_from_the_ninth_call

ONLY = ("capture", "vary")
NO_OTHERS = "the recipe has no function that makes other inputs"


def rows(count=8):
    return torch.randn(count, 4)


def fixed(module=Linear):
    return lambda: Example(module(), inputs=(rows(),), signal=False)


def by_name(module=Linear):
    return lambda: Example(module(), kwargs={"x": rows()}, signal=False)


def listed(module=Linear):
    return lambda: Example(module(), calls=[Call((rows(),)), Call((rows(6),))], signal=False)


RECIPES = {"fixed": fixed, "by name": by_name, "listed": listed}


def observed(build, phase="infer", backend="eager", precision="f32", wants=WANTS):
    session = ModelSession({"m": Model("m", "m", build=build)}, lambda stage: None)
    case = f"m-cpu-{phase}-{precision}-default-static"
    seen = session.observe(Request(case=case, wants=wants, backend=backend))
    assert seen.status == "completed", seen.failure
    return seen


def without_nan(y, given):
    return torch.nan_to_num(y, nan=0.5)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(
    ("probe", "backend"),
    [
        ("transposed inputs", lambda: given_otherwise(ignoring_strides)),
        ("NaN in the first row", lambda: answering_otherwise(without_nan)),
        ("after 8 more calls", wrong_from_the_ninth_call),
    ],
)
def test_a_fault_shows_in_the_probing_call_of_given_arguments(recipe, probe, backend):
    found = verdict_of(observed(RECIPES[recipe](), backend=backend()))
    assert found.outcome == "failed"
    assert any(line.startswith(f"probing call, {probe}") for line in found.details), found.details


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("phase", ["infer", "train"])
def test_healthy_code_passes_the_probing_calls_of_given_arguments(recipe, phase):
    seen = observed(RECIPES[recipe](), phase)
    made = {one.probe for one in seen.probes}
    assert made >= {"transposed inputs", "NaN in the first row", "after 8 more calls"}
    for suite in (test_forward, test_side_effects, *([test_gradients] if phase == "train" else [])):
        found = verdict_of(seen, suite)
        assert found.outcome == "passed", found.details
    sizes = {"one", "zero"} if phase == "infer" else {"one"}
    assert {f"batch of {size}: {NO_OTHERS}" for size in sizes} <= {*seen.unprobed}


def test_a_recipe_that_makes_its_inputs_has_no_such_line():
    def build():
        return Example(Linear(), inputs=lambda: (rows(),), signal=False)

    assert not [line for line in observed(build).unprobed if NO_OTHERS in line]


def left_out(seen, reason):
    """Whether every probing call is left out, for one reason where it concerns no other size."""
    reasons = {line.partition(": ")[2] for line in seen.unprobed}
    return not seen.probes and reasons == {reason, NO_OTHERS}


def test_actions_around_listed_calls_leave_the_probing_calls_out_with_the_reason():
    def build():
        return Example(Linear(), calls=[Call((rows(),)), Call((rows(),), before=print)])

    assert left_out(observed(build), "the recipe lists actions before or after its calls")


class Locked:
    """An argument that cannot be copied."""

    def __init__(self):
        self.lock = threading.Lock()


def test_arguments_that_cannot_be_copied_leave_the_probing_calls_out_with_the_reason():
    def build():
        return Example(lambda x, locked: x * 2, inputs=(rows(), Locked()))

    seen = observed(build)
    assert not seen.probes
    assert any("the arguments cannot be copied: TypeError" in line for line in seen.unprobed)


class Remembering(Linear):
    """Adds up what it was given in an attribute, which a reference lacks."""

    def __init__(self):
        super().__init__()
        self.total = torch.zeros(4)

    def forward(self, x):
        self.total = self.total + 10 * x.sum(0).abs()
        return self.linear(x) + self.total


class Caching(Linear):
    """Keeps all rows so far in an attribute."""

    def __init__(self):
        super().__init__()
        self.rows = torch.zeros(0, 4)

    def forward(self, x):
        self.rows = torch.cat([self.rows, x])
        return self.linear(self.rows)


@pytest.mark.parametrize("module", [Remembering, Caching])
def test_state_that_earlier_calls_left_and_no_reference_has_leaves_them_out(module):
    seen = observed(listed(module))
    assert not seen.probes
    assert any("eager and float64 disagree in" in line for line in seen.unprobed), seen.unprobed
    assert verdict_of(seen).outcome == "passed"


def appending(x, cache):
    cache.append(x)
    return torch.cat(cache).sin()


def test_a_cache_among_the_arguments_is_as_the_recipe_gave_it():
    def build():
        cache = []
        return Example(appending, calls=[Call((rows(), cache)), Call((rows(2), cache))])

    seen = observed(build)
    assert "transposed inputs" in {one.probe for one in seen.probes}
    finite = [error.numel for one in seen.probes for error in one.outputs.errors]
    assert max(finite) == 8 * 4, "no row of another call"
    for suite in (test_forward, test_side_effects):
        assert verdict_of(seen, suite).outcome == "passed"


@pytest.mark.parametrize("recipe", RECIPES)
def test_writes_to_given_arguments_pass(recipe):
    seen = observed(RECIPES[recipe](lambda: lambda x: x.mul_(3).sin()))
    assert "after 8 more calls" in {one.probe for one in seen.probes}
    for suite in (test_forward, test_side_effects):
        found = verdict_of(seen, suite)
        assert found.outcome == "passed", found.details


def test_a_model_that_needs_contiguous_inputs_is_not_called_with_others():
    seen = observed(fixed(lambda: lambda x: x.view(-1).sin()))
    assert any(line.startswith("transposed inputs: in eager, ") for line in seen.unprobed)
    assert verdict_of(seen).outcome == "passed"


def test_further_inputs_of_a_case_in_half_precision_have_one_line():
    case = Case.parse("m-cpu-infer-bf16-default-static")
    makes = Example(Linear(), inputs=lambda: (rows(),))
    (left,) = with_further_inputs(fixed()(), {}, case)
    assert left.probe.makes_inputs
    assert len(with_further_inputs(makes, {}, case)) == 24


def test_copies_of_given_arguments_share_memory_as_these_do_and_keep_their_values():
    base = torch.arange(12.0).view(3, 4)
    given = GivenArguments(Example(torch.add, inputs=(base[:2], base[1:])))
    base.zero_()
    first, second = given.copied().args
    assert first.tolist() == [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]]
    second[0] = -1
    assert first[1].tolist() == [-1.0] * 4
    assert given.copied().args[0][1].tolist() == [4.0, 5.0, 6.0, 7.0]
    assert GivenArguments(Example(torch.add, inputs=lambda: (base, base))).copied() is None


class Writing(torch.nn.Module):
    """Writes to its argument; compiled, another factor."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        x.mul_(3.0 * (self.factor if torch.compiler.is_compiling() else 1.0))
        return x.sum(-1)


@pytest.mark.parametrize(("factor", "outcome"), [(1.0, "passed"), (1.1, "failed")])
def test_no_side_writes_to_the_tensors_of_another_that_a_file_makes_once(factor, outcome):
    calls = [Call((rows(),)), Call((rows(6),), {})]
    seen = observed(lambda: Example(Writing(factor), calls=calls), "infer", "aot_eager", wants=ONLY)
    for suite in (test_forward, test_side_effects):
        assert verdict_of(seen, suite).outcome == outcome, verdict_of(seen, suite)


def test_actions_keep_the_tensors_that_they_write_to():
    given = rows()
    calls = [Call((given,), before=lambda: given.fill_(2.0)), Call((given,))]
    seen = observed(lambda: Example(Linear(), calls=calls), wants=ONLY)
    assert verdict_of(seen).outcome == "passed", verdict_of(seen)
