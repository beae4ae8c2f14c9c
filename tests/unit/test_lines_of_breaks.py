"""The line of the user's code that a graph break, or a frame left to eager, is about."""

from pathlib import Path

import pytest
import torch

from compilegate.judging.budget import Budget
from compilegate.judging.finding import with_help
from compilegate.judging.judge import judge
from compilegate.observe.capture.explanations import explained
from compilegate.records.observation import GraphBreak
from compilegate.suites import test_forward, test_graph_breaks
from tests.unit.captured import X, line_of, run
from tests.unit.making import make_observation

#: The file of the functions below, as a place names it.
HERE = Path(__file__).name


pytestmark = pytest.mark.usefixtures("clean_compiler")


def shows(x):
    print("here", end="")
    return x + 1


def in_a_loop(x):
    for _ in range(2):
        x = shows(x)
    return x


def shows_in_a_loop(x):
    for _ in range(2):
        print("here", end="")
        x = x + 1
    return x


def in_two_loops(x):
    for _ in range(2):
        x = shows_in_a_loop(x)
    return x


def then_branches(x):
    print("here", end="")
    if x.sum() > 0:
        return x.sin()
    return x.cos()


def looks_up_in_a_loop(x):
    for sign in (-1, 1):
        x = x + torch.nonzero(x * sign > 0).sum()
    return x


def refuses(x):
    if torch.compiler.is_compiling():
        raise RuntimeError("no such head")
    return x + 1


def test_a_frame_that_is_left_to_eager_for_an_exception_quotes_it():
    (left,) = run(refuses, (X,)).fallbacks
    assert left.source == f"{HERE}:{line_of(refuses, 'raise')}"
    assert left.explanation.startswith("this line raises RuntimeError")
    assert "no such head" in left.explanation


@pytest.mark.parametrize(
    ("function", "of"),
    [(in_a_loop, shows), (shows_in_a_loop, shows_in_a_loop), (in_two_loops, shows_in_a_loop)],
    ids=["another function's", "its own", "that of another frame left to eager"],
)
def test_a_frame_that_is_left_to_eager_names_the_line_that_it_is_left_for(function, of):
    seen = run(function, (X,))
    line = f"{HERE}:{line_of(of, 'print(')}"
    assert {left.source for left in seen.fallbacks} == {line}
    assert not any("raises" in left.explanation for left in seen.fallbacks)
    assert f"the frame is left to eager for {line}" in seen.fallbacks[0].help
    finding = test_graph_breaks.rule(make_observation(capture=seen), Budget())
    assert finding.summary.startswith("1 graph break not budgeted")


def test_a_frame_that_is_left_to_eager_has_the_hint_with_the_option_that_avoids_it():
    seen = run(looks_up_in_a_loop, (X,))
    assert seen.graphs == 0
    judged = judge(make_observation(capture=seen), Budget(), "forward", test_forward.rule).verdict
    assert judged.summary.startswith("nothing was compiled, all of it ran eagerly: Dynamic shape")
    recipe = 'Example(…, config={"dynamo.capture_dynamic_output_shape_ops": True})'
    assert sum(recipe in line for line in judged.details) == 1
    assert any("nonzero.default`'s output shape depends" in line for line in judged.details)


@pytest.mark.parametrize(
    "hint", ["Change `{}` to `True`.", "Set `{}` to True to trace it.", "Set {} = True"]
)
def test_an_option_has_the_value_of_the_hint_and_not_the_present_one(hint):
    option = "torch._dynamo.config.trace_autograd_ops"
    broken = GraphBreak(
        reason=f"with `{option}=False`", id="", place=None, hint=hint.format(option)
    )
    *_, last = with_help((str(broken),), (broken,))
    assert last.endswith('Example(…, config={"dynamo.trace_autograd_ops": True})')


def test_a_frame_that_is_left_to_eager_for_an_exception_has_no_hint_of_dynamo():
    (left,) = run(refuses, (X,)).fallbacks
    assert left.hint == ""


def test_a_branch_behind_a_break_is_a_break_in_the_function_that_is_written():
    prints, branches = run(then_branches, (X,)).breaks
    lines = [line_of(then_branches, "print("), line_of(then_branches, "if x.sum()")]
    assert [found.place.line for found in (prints, branches)] == lines
    assert prints.place.function == branches.place.function == "then_branches"
    assert prints.reason != branches.reason


def branches(x):
    if x.sum() > 0:
        x = x.sin()
    return x.cos()


@pytest.mark.parametrize("function", [branches, then_branches])
def test_a_branch_on_a_tensor_has_the_explanation_that_dynamo_notes_elsewhere(function):
    """Dynamo's own reason is ``generic_jump TensorVariable()``."""
    seen = run(function, (X,))
    place = f"{HERE}:{line_of(function, 'if x.sum()')}"
    (branch,) = (one for one in seen.breaks if one.source.endswith(place))
    assert "data-dependent branching" in branch.explanation
    assert "torch.cond" in branch.hint


@pytest.mark.parametrize(
    ("reason", "explanation"),
    [("step_unsupported", "a builtin"), ("generic_jump x", "a branch"), ("Own", "its own")],
)
def test_a_break_without_an_explanation_has_that_of_no_other_break(reason, explanation):
    own = "Own\n  Explanation: its own"
    noted = [own, "step_unsupported", "generic_jump x"]
    unsupported = [
        own,
        "Data-dependent branching\n  Explanation: a branch",
        "Failed to trace builtin operator\n  Explanation: a builtin",
    ]
    text = explained(own if reason == "Own" else reason, noted, unsupported)
    assert text.endswith(f"Explanation: {explanation}")
    assert "Explanation: Dynamo cannot resume within" in explained(noted[1], noted, [own])
    assert explained("another", noted, [own]) == "another"
