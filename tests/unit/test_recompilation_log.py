"""The log of torch.compile names each recompilation, its call and its reason."""

from pathlib import Path

import pytest
import torch
from torch import nn

from compilegate.observe.capture.compile_log import CompileLog, reset
from tests.unit.captured import X, run

pytestmark = pytest.mark.usefixtures("clean_compiler")


def whole(x):
    return x.sin() + 1


def takes_text(x, text):
    return x + len(text)


def test_a_recompilation_is_known_by_its_call_and_reason():
    seen = run(whole, (X,), (X,), (torch.ones(5, 4),), (X,), dynamic=False)
    first, second = seen.compilations
    assert (first.call, first.reason) == (0, "")
    assert second.call == 2
    assert "size" in second.reason
    assert first.code == second.code
    assert second.compile_id == "0/1"
    assert seen.graphs == 2


def test_dynamic_sizes_are_no_recompilation():
    assert len(run(whole, (X,), (torch.ones(5, 4),), dynamic=True).compilations) == 1


def test_automatic_dynamic_recompiles_once():
    calls = [(torch.ones(n, 7),) for n in (3, 3, 5, 6, 9)]
    seen = run(whole, *calls)
    assert [c.call for c in seen.compilations] == [0, 2]


def test_a_changed_attribute_is_a_reason():
    class Scaled(nn.Module):
        factor = 2

        def forward(self, x):
            return x * self.factor

    module = Scaled()
    compiled = torch.compile(module, backend="eager", dynamic=False)
    log = CompileLog()
    for index in range(3):
        module.factor = 2 + index // 2
        compiled(X)
        log.after_call(index)
    first, second = log.capture().compilations
    assert (first.call, second.call) == (0, 2)
    assert "factor" in second.reason


def test_a_backward_is_not_a_separate_compilation():
    x = torch.ones(3, requires_grad=True)
    compiled = torch.compile(whole, backend="aot_eager")
    log = CompileLog()
    for index in range(2):
        compiled(x).sum().backward()
        log.after_call(index)
    seen = log.capture()
    assert [c.code.function for c in seen.compilations] == ["whole"]


def test_a_recompile_limit_that_is_hit_is_reported():
    texts = ["x" * n for n in range(12)]
    seen = run(takes_text, *((X, text) for text in texts))
    limit = torch._dynamo.config.recompile_limit
    assert sum(c.graph for c in seen.compilations) == limit
    assert len(seen.limits) >= 1
    assert all("limit" in text.lower() for text in seen.limits)


def test_no_limit_is_reported_just_below_it():
    limit = torch._dynamo.config.recompile_limit
    seen = run(takes_text, *((X, "x" * n) for n in range(limit)))
    assert sum(c.graph for c in seen.compilations) == limit
    assert seen.limits == ()


def test_all_compilations_are_kept_not_the_last_64():
    log = CompileLog()
    for _ in range(70):
        torch.compile(eval("lambda x: x + 1"), backend="eager")(X)
    log.after_call(0)
    assert len(log.capture().compilations) == 70


def test_two_logs_do_not_share():
    run(whole, (X,))
    log = CompileLog()
    assert log.capture().compilations == ()


class Scaling(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = 1

    def forward(self, x):
        return self.scaled(x + 1)

    def scaled(self, x):
        return x.mul(self.factor)


def compiled_for(*calls):
    """Return the compilations for calls with a factor and a size."""
    reset()
    module = Scaling()
    compiled = torch.compile(module, backend="eager", dynamic=False)
    log = CompileLog()
    for index, (factor, size) in enumerate(calls):
        module.factor = factor
        compiled(torch.ones(size))
        log.after_call(index)
    return log.capture().compilations


def test_an_attribute_is_the_reason_where_code_for_the_size_exists():
    """The newest code is for another size, but only a new factor needs more code."""
    assert "factor" in compiled_for((1, 3), (2, 3), (2, 5), (3, 3))[3].reason
    assert "size" in compiled_for((1, 3), (1, 5), (1, 7))[2].reason


def test_an_attribute_for_which_newer_code_exists_is_no_reason():
    """The first code fails for its factor in each call; the second one for the size alone."""
    for _ in range(2):  # a reset forgets what failed
        _, swapped, *resized = compiled_for((1, 3), (2, 3), (2, 5), (2, 7))
        assert "factor" in swapped.reason
        assert ["size" in one.reason for one in resized] == [True, True]


def test_a_guard_has_the_line_that_reads_the_attribute():
    text = "return x.mul(self.factor)"
    lines = [line.strip() for line in Path(__file__).read_text().splitlines()]
    _, second = compiled_for((1, 3), (2, 3))
    assert second.guarded_at.endswith(f"test_recompilation_log.py:{lines.index(text) + 1}")
    assert second.guarded == f"{second.guarded_at}: {text}"
    _, resized = compiled_for((1, 3), (1, 5))
    assert not resized.guarded_at


class Stepping(nn.Module):
    """Assigns to itself what it reads: PyTorch's ``__setattr__`` then asks for its type."""

    def __init__(self):
        super().__init__()
        self.schedule = {"step": 0}

    def forward(self, x):
        self.schedule = {"step": self.schedule["step"] + 1}
        return x + 1


def test_a_guard_that_a_frame_of_torch_makes_has_the_line_of_the_user():
    reset()
    compiled = torch.compile(Stepping(), backend="eager")
    log = CompileLog()
    for index in range(2):
        compiled(X)
        log.after_call(index)
    _, second = log.capture().compilations
    assert second.guard == "0/0: self.schedule['step'] == 0"
    text = 'self.schedule = {"step": self.schedule["step"] + 1}'
    lines = [line.strip() for line in Path(__file__).read_text().splitlines()]
    assert second.guarded_at.endswith(f"test_recompilation_log.py:{lines.index(text) + 1}")
    assert second.guarded == f"{second.guarded_at}: {text}"
