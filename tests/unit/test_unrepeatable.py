"""Times and identifiers that a model keeps: eager does not repeat them, so no value is right."""

import itertools
import time
import uuid

import pytest
import torch
from torch.compiler import is_compiling

from compilegate.observe.compare.unrepeatable import candidates
from compilegate.observe.model.result import Result
from compilegate.suites import test_forward, test_side_effects
from tests.unit.observed import Linear, verdict

WANTS = ("capture", "vary", "reuse", "respecialise", "every_layout")


class Stamped(Linear):
    """Keeps what `stamp` returns, as compiled code may fail to do, or does in another way."""

    def __init__(self, stamp, compiled):
        super().__init__()
        self.stamp, self.compiled = stamp, compiled
        self.last = stamp()

    def forward(self, x):
        if not is_compiling():
            self.last = self.stamp()
        elif self.compiled is not None:
            self.last = self.compiled()
        return self.linear(x)


@torch._dynamo.disable
def identifier():
    return uuid.uuid4().hex


@torch._dynamo.disable
def now():
    return time.time_ns()


@torch._dynamo.disable
def duration():
    started = time.perf_counter()
    time.sleep(1e-4 * (1 + now() % 7))
    return time.perf_counter() - started


class Returned(Linear):
    def forward(self, x):
        return self.linear(x), identifier()


@pytest.mark.parametrize("phase", ["infer", "train"])
@pytest.mark.parametrize("stamp", [identifier, now, duration])
def test_a_model_that_keeps_a_time_or_an_identifier_passes(stamp, phase):
    build = lambda: Stamped(stamp, stamp)  # noqa: E731
    found = verdict(build, phase, "eager", test_side_effects, wants=WANTS)
    assert found.outcome == "passed", found
    assert "by type only: attribute last" in found.summary


def test_an_identifier_may_be_an_output():
    found = verdict(Returned, "infer", "eager", test_forward, wants=WANTS)
    assert found.outcome == "passed", found


@pytest.mark.parametrize("stamp", [identifier, now, duration])
@pytest.mark.parametrize("compiled", [None, lambda: None])
def test_compiled_code_must_set_it_too_and_to_one_of_its_type(stamp, compiled):
    build = lambda: Stamped(stamp, compiled)  # noqa: E731
    found = verdict(build, "infer", "eager", test_side_effects)
    assert found.outcome == "failed"
    assert "attribute last: value differs" in found.summary


def test_what_eager_repeats_is_compared():
    build = lambda: Stamped(lambda: 3, lambda: 4)  # noqa: E731
    found = verdict(build, "infer", "eager", test_side_effects)
    assert found.outcome == "failed"


HIDDEN = itertools.count(1)


@torch._dynamo.disable
def hidden():
    """Return the next number of a count that no state shows."""
    return next(HIDDEN)


class Hidden(Linear):
    def forward(self, x):
        number = hidden()
        self.last = str(number)
        return self.linear(x) * number


def test_a_text_is_compared_where_tensors_depend_on_unknown_state_too():
    found = verdict(Hidden, "infer", "eager", test_side_effects)
    assert found.outcome == "failed"
    assert "attribute last: value differs" in found.summary


@pytest.mark.parametrize(("ours", "theirs", "count"), [(True, False, 0), (1, 2, 1), ("a", "b", 1)])
def test_a_flag_is_no_time(ours, theirs, count):
    sides = (Result(state={"attribute last": one}) for one in (ours, theirs))
    assert len(candidates("state", *sides)) == count
