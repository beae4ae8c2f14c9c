"""What a recipe says of its case: options of the compiler, grad mode, and the error to raise."""

import pytest
import torch
import torch._functorch.config
import torch._inductor.config
from torch import nn
from torch.compiler import is_compiling

from compilegate.judging.budget import Budget
from compilegate.judging.judge import judge
from compilegate.suites import test_forward, test_graph_breaks
from compilegate.zoo.example import Example
from tests.unit.making import make_call, make_capture, make_observation
from tests.unit.observed import Linear, observation, verdict

# Options of the compiler.


def test_options_hold_while_the_case_is_observed_and_no_longer():
    seen = []

    def note(x, y):
        config = torch._inductor.config
        seen.append((config.max_fusion_size, config.cpp.simdlen))
        return y

    usual = torch._inductor.config.max_fusion_size, torch._inductor.config.cpp.simdlen
    options = {"inductor.max_fusion_size": 3, "inductor.cpp.simdlen": 1}
    observation(lambda: Linear(torch.compiler.disable(note)), backend="eager", config=options)
    assert seen[-1] == (3, 1)
    assert (torch._inductor.config.max_fusion_size, torch._inductor.config.cpp.simdlen) == usual


def test_an_option_changes_what_is_captured():
    class Recurrent(Linear):
        def __init__(self):
            super().__init__()
            self.rnn = nn.RNN(4, 4)

        def forward(self, x):
            return self.rnn(self.linear(x))[0]

    for config, outcome in (({}, "failed"), ({"dynamo.allow_rnn": True}, "passed")):
        found = verdict(Recurrent, backend="eager", suite=test_graph_breaks, config=config)
        assert found.outcome == outcome, found


def test_an_option_that_this_pytorch_lacks_fails_the_case():
    seen = observation(Linear, backend="eager", config={"inductor.max_fusion_sise": 1})
    assert seen.status == "raised"
    assert "has no torch._inductor.config.max_fusion_sise" in seen.failure.message
    assert seen.failure.message.endswith("the nearest is inductor.max_fusion_size")


def test_an_option_of_another_module_is_a_mistake():
    with pytest.raises(ValueError, match=r"names 'fx.verbose'; options begin with dynamo\., "):
        Example(Linear(), config={"fx.verbose": True})


# Grad mode without a backward.


class OffWithGrad(Linear):
    """A module whose compiled code is wrong if grad mode is on."""

    def forward(self, x):
        y = self.linear(x)
        return y * 1.01 if is_compiling() and torch.is_grad_enabled() else y


@pytest.mark.parametrize(
    ("module", "with_grad", "outcome"),
    [
        (Linear, True, "passed"),
        (OffWithGrad, True, "failed"),
        (OffWithGrad, False, "passed"),
    ],
)
def test_grad_mode_is_on_without_a_backward(module, with_grad, outcome):
    found = verdict(module, backend="aot_eager", with_grad=with_grad)
    assert found.outcome == outcome, found


# A call that raises.


def raising(compiled=None):
    """Return a builder of a module that raises; in compiled code, it raises another error."""

    def refuse(x, y):
        error = (
            compiled if compiled is not None and is_compiling() else ValueError("no such number")
        )
        torch._dynamo.graph_break()
        raise error

    return lambda: Linear(refuse)


def judged(module, **example):
    seen = observation(module, backend="eager", raises=ValueError, **example)
    assert seen.status == "completed", seen.failure
    return seen, judge(seen, Budget(), "forward", test_forward.rule).verdict


def test_a_case_whose_every_call_raises_passes():
    seen, found = judged(raising())
    calls = len(seen.calls)
    assert calls > 1
    assert (found.outcome, found.summary) == (
        "passed",
        f"raises in all {calls} calls as eager does: ValueError: no such number",
    )
    breaks = judge(seen, Budget(), "graph_breaks", test_graph_breaks.rule).verdict
    assert breaks.outcome == "passed", breaks


@pytest.mark.parametrize("other", [ValueError("another number"), TypeError("no such number")])
def test_another_message_or_class_in_compiled_code_fails(other):
    _, found = judged(raising(other))
    assert found.summary == (
        "call 1 (batch=8): eager raises ValueError: no such number, "
        f"compiled raises {type(other).__name__}: {other}"
    )


def test_operators_may_word_their_errors_differently_without_data():
    class Mismatched(Linear):
        def forward(self, x):
            return self.linear(x[:, :3])

    seen = observation(Mismatched, backend="aot_eager", raises=RuntimeError)
    assert judge(seen, Budget(), "forward", test_forward.rule).verdict.outcome == "passed"


def test_dynamo_may_append_the_line_of_the_user_to_a_message():
    class OutOfRange(Linear):
        def forward(self, x):
            return self.linear(x).unsqueeze(1).select(1, 1)

    seen = observation(OutOfRange, backend="aot_eager", raises=IndexError)
    assert judge(seen, Budget(), "forward", test_forward.rule).verdict.outcome == "passed"


@pytest.mark.parametrize(
    ("module", "seen"),
    [(Linear, "returned"), (raising(), "raised ValueError: no such number")],
)
def test_a_recipe_whose_call_does_not_raise_so_is_wrong(module, seen):
    failure = observation(module, backend="eager", raises=KeyError).failure
    assert failure.stage == "eager"
    assert failure.message == f"raises of Example names KeyError, but eager {seen}"


def test_a_case_that_dynamo_did_not_look_at_fails_although_all_its_calls_raise():
    calls = (make_call(raised="ValueError: no"),)
    disabled = make_capture(graphs=0, compilations=())
    seen = make_observation(calls=calls, raises="ValueError", capture=disabled)
    found = judge(seen, Budget(), "forward", test_forward.rule).verdict
    assert (found.outcome, found.summary[:20]) == ("failed", "nothing was compiled")


def test_only_an_exception_can_be_expected():
    with pytest.raises(ValueError, match="raises of Example must be an exception class"):
        Example(Linear(), raises=ValueError("no"))
