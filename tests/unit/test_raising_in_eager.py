"""A recipe whose calls raise in eager fails, unless it says that they do."""

import dataclasses
import importlib

import pytest
import torch
from torch import nn
from torch.compiler import is_compiling

from compilegate.culprits.grouping import Failure, counted, culprits
from compilegate.judging.budget import Budget
from compilegate.judging.judge import judge
from compilegate.records.call import Difference
from compilegate.suites import test_forward, test_gradients, test_side_effects
from compilegate.zoo.example import Call
from tests.unit.making import (
    make_break,
    make_call,
    make_capture,
    make_checked,
    make_error,
    make_failed_observation,
)
from tests.unit.observed import observation

SUITES = {"forward": test_forward, "gradients": test_gradients, "side_effects": test_side_effects}


def embedding():
    return nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 8))


def verdict(seen, aspect="forward"):
    return judge(seen, Budget(), aspect, SUITES[aspect].rule, ("capture",)).verdict


@pytest.mark.parametrize("aspect", SUITES)
def test_a_model_that_raises_in_each_call_fails_in_all_aspects(aspect):
    seen = observation(embedding, "train", inputs=lambda batch: (torch.randint(20, 40, (batch,)),))
    found = verdict(seen, aspect)
    assert found.outcome == "failed"
    assert found.summary.startswith(f"eager raises in all {len(seen.calls)} calls: IndexError: ")
    assert found.details == ("if eager should raise: Example(…, raises=IndexError)",)


def test_a_model_that_raises_names_its_line():
    class Lookup(nn.Embedding):
        def forward(self, ids):
            return super().forward(ids)

    found = verdict(
        observation(lambda: Lookup(10, 8), inputs=lambda batch: (torch.full((batch,), 20),))
    )
    line = Lookup.forward.__code__.co_firstlineno + 1
    place, _way_out = found.details
    assert place.startswith("raised at ")
    assert place.endswith(f"test_raising_in_eager.py:{line} in forward")


@pytest.mark.parametrize(("precision", "is_hinted"), [("bf16", True), ("f32", False)])
@pytest.mark.parametrize("reference", ["float64", ""])
def test_a_case_with_autocast_that_raises_in_eager_says_how_to_leave_it_out(
    precision, is_hinted, reference
):
    failed = make_failed_observation("raised", stage="eager", kind="RuntimeError")
    case = f"net-cpu-infer-{precision}-default-static"
    found = verdict(dataclasses.replace(failed, case=case, reference=reference))
    hint = 'if the model does not support autocast (bf16): @model(…, settings=("*-f32-*",))'
    assert (hint in found.details) is is_hinted


@pytest.mark.parametrize(("error", "is_named"), [(0.01, True), (1e-7, False)])
def test_a_case_that_ends_early_names_what_was_wrong_before(error, is_named):
    wrong = make_checked(make_error("gradient weight", compiled_rms=error, compiled_max=error))
    failed = make_failed_observation("raised", stage="vary", kind="RuntimeError")
    found = verdict(dataclasses.replace(failed, calls=(make_call(gradients=wrong),)))
    assert found.outcome == "failed"
    assert "raised in stage 'vary'" in found.summary
    lines = [line for line in found.details if line.startswith("wrong before that, in gradients: ")]
    assert bool(lines) is is_named
    assert not any("in outputs" in line for line in found.details)


@pytest.mark.parametrize(
    ("kind", "is_named"), [("ConstraintViolationError", True), ("RuntimeError", False)]
)
def test_a_marked_dimension_that_the_code_fixes_names_the_way_out(kind, is_named):
    failed = make_failed_observation("raised", stage="compile", kind=kind, call="call 1")
    hints = [line for line in verdict(failed).details if "leave that out of dims" in line]
    assert bool(hints) is is_named


@pytest.mark.parametrize(("call", "is_named"), [("call 1", True), ("", False)])
def test_an_error_of_compiled_code_alone_names_the_graph_breaks_before_it(call, is_named):
    failed = make_failed_observation("raised", stage="compile", kind="RuntimeError", call=call)
    broken = dataclasses.replace(make_break("autograd.grad"), hint="Change the loss.")
    found = verdict(dataclasses.replace(failed, capture=make_capture(breaks=(broken,))))
    hint = "    hint: Change the loss."
    assert (f"  {broken}" in found.details) is is_named
    assert (hint in found.details) is is_named
    broken = make_break(failed.failure.message)
    itself = verdict(dataclasses.replace(failed, capture=make_capture(breaks=(broken,))))
    assert not any("had broken" in line for line in itself.details)


@pytest.mark.parametrize("raises", [True, False])
def test_an_error_in_eager_is_not_repeated_as_wrong_before(raises):
    """A model that raises in its first backward raises in compiled code, in other words."""
    words = "RuntimeError: one of the variables", "BackendCompilerFailed: backend='inductor' raised"
    unlike = Difference(where="call", what="raises", eager=words[0], compiled=words[1])
    lost = Difference(where="output", what="stride", eager="(1,)", compiled="(2,)")
    outputs = dataclasses.replace(make_checked(), differences=(unlike if raises else lost,))
    failed = make_failed_observation("raised", stage="eager", kind="RuntimeError")
    found = verdict(dataclasses.replace(failed, calls=(make_call(outputs=outputs),)))
    assert any("wrong before" in line for line in found.details) is not raises


@pytest.mark.parametrize("module", ["acme_solvers", "acme_solvers.linear"])
def test_a_missing_package_names_the_option_that_skips_the_model(module):
    def solve(x):
        importlib.import_module(module)
        return x

    found = verdict(observation(lambda: solve))
    assert found.outcome == "failed"
    option = 'to skip the model where acme_solvers is missing: @model(…, requires="acme_solvers")'
    assert found.details[-1] == option
    assert not any("Example(…, raises=" in line for line in found.details)


def rewording(graph, inputs):
    """Return code that words the errors of its operators as a kernel does."""

    def run(*given):
        try:
            return graph(*given)
        except IndexError as error:
            raise RuntimeError("kernel.cpp:21, index out of bounds") from error

    return run


def test_a_model_that_raises_fails_however_compiled_code_words_it():
    def inputs(batch):
        return (torch.randint(20, 40, (batch,)),)

    found = verdict(observation(embedding, backend=rewording, inputs=inputs))
    assert found.outcome == "failed"
    assert found.summary.startswith("eager raises in all 5 calls: IndexError: ")


def test_an_error_of_eager_alone_is_a_difference():
    def take(x):
        if not is_compiling():
            raise IndexError("out of range")
        return x + 1

    found = verdict(observation(lambda: take))
    assert found.outcome == "failed"
    assert "eager raises IndexError: out of range, compiled raises nothing" in found.summary


@pytest.mark.parametrize(("least", "outcome"), [(20, "failed"), (0, "passed")])
def test_a_model_that_raises_at_another_size_fails(least, outcome):
    def inputs(batch):
        lowest = 0 if batch == 8 else least
        return (torch.randint(lowest, lowest + 10, (batch,)),)

    found = verdict(observation(embedding, inputs=inputs))
    assert found.outcome == outcome, found
    assert outcome == "passed" or found.summary.startswith("eager raises at batch=5: IndexError: ")


def test_one_of_the_calls_that_a_recipe_lists_may_raise():
    calls = [Call((torch.tensor([one]),)) for one in (1, 20)]
    found = verdict(observation(embedding, inputs=(), calls=calls))
    assert found.outcome == "passed", found
    assert ", 1 of which raise as eager does" in found.summary


def test_an_error_that_the_recipe_names_passes():
    ids = torch.tensor([20])
    found = verdict(observation(embedding, inputs=lambda batch: (ids,), raises=IndexError))
    assert found.outcome == "passed", found


def test_a_model_that_raises_has_one_culprit_in_all_aspects():
    def inputs(batch):
        return (torch.randint(20, 40, (batch,)),)

    wants = ("capture", "vary", "time", "memory")
    seen = observation(embedding, "train", rewording, wants, inputs=inputs)
    assert seen.status == "completed", seen.failure
    assert seen.other_size is None
    verdicts = [verdict(seen, aspect) for aspect in SUITES]
    (found,) = culprits(Failure(seen, one) for one in verdicts)
    assert found.aspect == ""
    assert found.aspects == [*SUITES]
    assert found.text.startswith("eager raises in all")
    assert counted([found]) == "1 culprit in 1 case"


def test_two_models_that_raise_have_two_culprits():
    seen = observation(embedding, inputs=lambda batch: (torch.randint(20, 40, (batch,)),))
    other = dataclasses.replace(seen, case=seen.case.replace("m-", "n-", 1))
    failures = [Failure(one, verdict(one, aspect)) for one in (seen, other) for aspect in SUITES]
    assert [one.cases for one in culprits(failures)] == [[seen.case], [other.case]]
