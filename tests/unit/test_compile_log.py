"""The log of torch.compile, on functions so small that they compile in no time."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch._dynamo.utils as dynamo
from torch import nn
from torch._inductor.compile_fx import compile_fx

from compilegate.judging.budget import AllowedBreak, Budget
from compilegate.observe.capture import compile_log
from compilegate.observe.capture.compile_log import CompileLog, compile_time
from compilegate.observe.wall_clock import WallClock
from compilegate.suites import test_graph_breaks
from tests.unit.captured import X, line_of, run
from tests.unit.making import make_observation

#: The file of the functions below, as a place names it.
HERE = Path(__file__).name


pytestmark = pytest.mark.usefixtures("clean_compiler")


def whole(x):
    return x.sin() + 1


def broken(x):
    y = x.sin()
    torch._dynamo.graph_break()
    return y.cos()


def branching(x):
    if x.sum() > 0:
        return x.sin()
    return x.cos()


def prints(x):
    for _ in range(3):
        print("here", end="")
        x = x + 1
    return x


def inner(x):
    torch._dynamo.graph_break()
    return x + 1


def thrice(x):
    x = inner(x)
    x = inner(x)
    return inner(x)


def takes_text(x, text):
    return x + len(text)


def test_a_compilation_is_explained_by_its_guard_or_else_by_its_code():
    compiled = torch.compile(takes_text, backend="eager", dynamic=False)
    compiled(X, "a")
    before = compile_log.compilations()
    torch.compile(whole, backend="eager")(X)
    compiled(X, "b")
    guard, code = compile_log.reasons_of_recompilation(before)
    assert "text == 'a' (" in guard  # without PyTorch's comment
    assert guard.endswith(f"({HERE}:{line_of(takes_text, 'def ')} in takes_text)")
    assert code == f"compiled for the first time: {HERE}:{line_of(whole, 'def ')} in whole"


# Graphs and breaks.


def test_a_whole_function_is_one_graph_without_breaks():
    seen = run(whole, (X,), (X,))
    assert (seen.graphs, seen.breaks, seen.limits, seen.fallbacks) == (1, (), (), ())
    (compilation,) = seen.compilations
    assert compilation.code.function == "whole"
    assert compilation.code.file == HERE
    assert compilation.code.line == line_of(whole, "def whole")
    assert compilation.code.owner == "model"
    assert (compilation.call, compilation.graph) == (0, True)
    assert (compilation.reason, compilation.failure) == ("", "")
    assert compilation.compile_id == "0/0"


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_graph_break_has_its_reason_place_owner_and_id(backend):
    seen = run(broken, (X,), backend=backend)
    assert seen.graphs == 2
    (found,) = seen.breaks
    assert "torch._dynamo.graph_break()" in found.reason
    assert found.id.startswith("GB")
    assert found.id[2:].isdigit()
    assert found.place.file == HERE
    assert found.place.line == line_of(broken, "graph_break()")
    assert (found.place.function, found.place.owner) == ("broken", "model")
    assert str(found.place) == f"{HERE}:{found.place.line} in broken"


def test_a_reason_is_one_line():
    (found,) = run(broken, (X,)).breaks
    assert "\n" not in found.reason
    assert found.reason == found.reason.strip()


def test_a_break_is_not_also_a_fallback():
    for function in (broken, branching, thrice):
        compile_log.reset()
        seen = run(function, (X,))
        assert seen.breaks
        assert seen.fallbacks == (), function.__name__


def test_a_data_dependent_branch_is_a_break():
    seen = run(branching, (X,))
    (found,) = seen.breaks
    assert found.reason
    assert found.place.line == line_of(branching, "if x.sum()")


def test_a_break_is_one_however_often_it_is_met():
    (found,) = run(thrice, (X,), (X,)).breaks
    assert (found.place.function, found.place.line) == ("inner", line_of(inner, "graph_break()"))


def test_a_frame_that_is_left_to_eager_has_a_reason():
    """Dynamo does not break inside a loop: it gives the frame up."""
    seen = run(prints, (X,))
    assert seen.graphs == 0
    (left,) = seen.fallbacks
    assert "builtin" in left.reason
    assert (left.place.function, left.place.line) == ("prints", line_of(prints, "def prints"))
    (compilation,) = seen.compilations
    assert (compilation.code.function, compilation.graph) == ("prints", False)
    assert compilation.failure


def test_a_frame_that_the_backend_refuses_has_a_reason():
    def refuses(graph, inputs):
        raise ValueError("four\nfive")

    log = CompileLog()
    with pytest.raises(Exception, match="four"):
        torch.compile(whole, backend=refuses)(X)
    log.after_call(0)
    (left,) = log.capture().fallbacks
    assert left.reason == "backend='refuses' raised: ValueError: four"


def test_a_frame_left_to_eager_is_reported_next_to_a_break():
    def both(x):
        return prints(broken(x))

    seen = run(both, (X,))
    assert any(b.place.function == "broken" for b in seen.breaks)
    assert any("builtin" in b.reason for b in (*seen.breaks, *seen.fallbacks))


@pytest.mark.parametrize("function", [broken, branching, thrice, prints], ids=lambda f: f.__name__)
def test_a_real_break_passes_once_it_is_budgeted(function):
    observation = make_observation(capture=run(function, (X,)))
    finding = test_graph_breaks.rule(observation, Budget())
    assert finding.outcome == "failed"
    known = tuple(AllowedBreak(**table) for table in finding.proposal["graph_breaks"])
    assert test_graph_breaks.rule(observation, Budget(graph_breaks=known)).outcome == "passed"


def test_breaks_at_two_places_are_two():
    def twice(x):
        x = x + 1
        torch._dynamo.graph_break()
        x = x + 2
        torch._dynamo.graph_break()
        return x + 3

    seen = run(twice, (X,))
    assert len(seen.breaks) == 2
    assert len({b.place.line for b in seen.breaks}) == 2


def test_a_break_inside_a_module_is_placed_there():
    class Inner(nn.Module):
        def forward(self, x):
            torch._dynamo.graph_break()
            return x + 1

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            return self.inner(x * 2) * 3

    seen = run(Outer(), (X,))
    assert {b.place.function for b in seen.breaks} == {"forward"}
    assert line_of(Inner, "graph_break()") in {b.place.line for b in seen.breaks}


def test_a_disabled_compiler_captures_no_graph():
    seen = run(whole, (X,), disable=True)
    assert seen.graphs == 0
    assert [c for c in seen.compilations if c.graph] == []


def test_a_function_without_tensors_has_no_graph():
    assert run(lambda n: n + 1, (1,)).graphs == 0


def test_an_lstm_that_is_left_to_eager_is_reported():
    """nn.LSTM agrees with eager although it has no graph, unless that is reported."""
    seen = run(nn.LSTM(4, 4), (torch.ones(2, 3, 4),))
    assert seen.graphs > 0 or seen.fallbacks or seen.breaks or seen.limits


@pytest.mark.parametrize(("lowers", "left"), [(2, 0), (1, 1)])
def test_a_graph_without_code_is_reported_next_to_one_from_a_cache(lowers, left):
    for _ in range(2):  # the second time around the code is in the cache
        compile_log.reset()
        untouched = iter([False] * lowers + [True] * left)

        def backend(graph, inputs, untouched=untouched):
            return graph.forward if next(untouched) else compile_fx(graph, inputs)

        log = CompileLog(lowers=True)
        torch.compile(broken, backend=backend)(X)
        # Two graphs of a GPU that have a kernel in common are counted like this.
        dynamo.counters["inductor"]["async_compile_cache_hit"] += 2
        log.after_call(0)
        seen = log.capture()
        assert (seen.graphs, seen.lowered) == (2, True)
        assert len(seen.fallbacks) == left
        assert all("resume_in_broken" in found.place.function for found in seen.fallbacks)
    assert seen.caches["fxgraph_cache_hit"] == lowers


@pytest.mark.parametrize(("saved", "is_lowered"), [(3.0, True), (None, False)])
def test_code_from_a_cache_that_notes_only_the_time_it_saved_is_code(saved, is_lowered):
    entry = SimpleNamespace(remote_cache_time_saved_s=saved)  # all that torch 2.8 notes
    assert compile_log._is_lowered(entry) is is_lowered


# Forgetting.


def test_reset_forgets_everything():
    run(broken, (X,), (torch.ones(5, 4),), backend="aot_eager", dynamic=False)
    run(takes_text, *((X, "x" * n) for n in range(12)))
    compile_log.reset()
    log = CompileLog()
    log.after_call(0)
    seen = log.capture()
    assert seen.graphs == 0
    assert seen.breaks == ()
    assert seen.compilations == ()
    assert seen.limits == ()
    assert seen.fallbacks == ()
    assert seen.caches == {}
    assert seen.cudagraph_skips == ()
    assert compile_time(0.0, busy=0.0).total_s == 0.0


def test_after_reset_a_function_compiles_again_in_the_same_way():
    before = run(broken, (X,))
    compile_log.reset()
    assert run(broken, (X,)) == before


def test_automatic_dynamic_is_forgotten_too():
    run(whole, (torch.ones(3, 7),), (torch.ones(5, 7),))
    compile_log.reset()
    seen = run(whole, (torch.ones(3, 7),), (torch.ones(5, 7),))
    assert [c.call for c in seen.compilations] == [0, 1]


def test_code_for_any_size_is_distinguished_from_code_for_one():
    seen = run(whole, (torch.ones(3, 7),), (torch.ones(5, 7),))
    assert [c.symbolic for c in seen.compilations] == [False, True]
    compile_log.reset()
    marked = torch.ones(3, 7)
    torch._dynamo.mark_dynamic(marked, 0)
    seen = run(whole, (marked,), (torch.ones(5, 7),))
    assert [(c.call, c.symbolic) for c in seen.compilations] == [(0, True)]


# Compile time.


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_phases_do_not_overlap_and_add_up(backend):
    x = torch.ones(3, requires_grad=True)
    torch.compile(whole, backend=backend)(x).sum().backward()
    seen = compile_time(12.5, busy=0.0)
    phases = (seen.dynamo_s, seen.aot_s, seen.inductor_s, seen.codegen_s)
    assert min(phases) >= 0
    assert seen.total_s > 0
    assert sum(phases) == pytest.approx(seen.total_s, rel=0.01)
    assert seen.first_call_s == 12.5


def test_without_a_compilation_no_time_is_spent():
    seen = compile_time(0.1, busy=0.0)
    assert (seen.total_s, seen.dynamo_s, seen.aot_s, seen.inductor_s, seen.codegen_s) == (0,) * 5


@pytest.mark.parametrize("hours", [3, -3])
def test_a_clock_that_is_set_during_a_compilation_does_not_count(monkeypatch, hours):
    right, wall = time.time_ns, WallClock()

    def set_clock(graph, _):
        monkeypatch.setattr(time, "time_ns", lambda: right() + hours * 3600 * 10**9)
        monkeypatch.setattr(time, "time", lambda: time.time_ns() / 1e9)
        return graph

    torch.compile(whole, backend=set_clock)(torch.ones(3))
    assert abs(compile_time(2.5, busy=0.0).total_s) > 3600, "PyTorch times phases by that clock"
    assert wall.was_set
    seen = compile_time(2.5, busy=0.0, clock_was_set=True)
    assert (seen.total_s, seen.first_call_s) == (2.5, 2.5)
    assert (seen.dynamo_s, seen.aot_s, seen.inductor_s, seen.codegen_s) == (0,) * 4


# Places.


def test_a_code_object_that_is_compiled_twice_counts_once():
    compiled = torch.compile(whole, backend="eager", dynamic=False)
    compiled(X)
    compiled(X[:1])
    assert (compile_log.compilations(), compile_log.code_objects()) == (2, 1)


def test_the_operators_of_each_graph_are_named():
    run(torch.nn.functional.linear, (torch.ones(2, 3), torch.ones(4, 3)))
    assert compile_log.operators() == (("linear",),)


@pytest.mark.parametrize("said", ["the builtin `sys.f`. This", "it is `a. b`, `x`", "`...` is"])
def test_a_name_in_an_explanation_does_not_end_with_the_dot_of_its_sentence(said):
    for text in (said, said.replace("f`. ", "f.` ")):
        assert compile_log._labelled("Explanation", f"no\n  Explanation: {text}\n") == [said]
