"""The rule of graph breaks: what is not budgeted fails and is named, with the way out."""

import dataclasses

import pytest

from compilegate.judging.budget import AllowedBreak, Budget
from compilegate.reports.columns import figures_of
from compilegate.suites import test_graph_breaks
from tests.unit.making import (
    make_break,
    make_call,
    make_capture,
    make_observation,
    make_place,
)
from tests.unit.rules.common import assert_proposal_helps

PRINT = make_break("Call to `print`", "GB0001", make_place(5, file="net.py"))
ITEM = make_break("Tensor.item()", "GB0002", make_place(9, file="timm/layers/pool.py"))


def broken(*breaks, **changed):
    return make_observation(capture=make_capture(breaks=breaks, **changed))


def test_a_break_is_named_by_reason_id_place_and_owner():
    finding = test_graph_breaks.rule(broken(PRINT), Budget())
    assert finding.outcome == "failed"
    assert finding.summary == (
        "1 graph break not budgeted: Call to `print` [GB0001] at net.py:5 in forward (model)"
    )
    assert finding.proposal == {"graph_breaks": [{"reason": PRINT.reason, "place": "net.py"}]}


def test_a_break_without_place_or_id_is_named_by_its_reason():
    lost = dataclasses.replace(make_break("why", ""), place=None)
    finding = test_graph_breaks.rule(broken(lost), Budget())
    assert finding.summary == "1 graph break not budgeted: why"
    assert_proposal_helps(test_graph_breaks.rule, broken(lost), Budget())


def test_a_break_is_explained_with_pytorchs_hints_and_page():
    explained = dataclasses.replace(
        PRINT,
        explanation="Dynamo cannot trace builtin operator `print`",
        hint="Avoid calling `print`.\nUse a logger.",
    )
    finding = test_graph_breaks.rule(broken(explained, ITEM), Budget())
    assert finding.details == (
        "Call to `print` [GB0001] at net.py:5 in forward (model)",
        "  explanation: Dynamo cannot trace builtin operator `print`",
        "  hint: Avoid calling `print`.",
        "  hint: Use a logger.",
        "  see https://meta-pytorch.org/compile-graph-break-site/gb/gb0001.html",
        "Tensor.item() [GB0002] at timm/layers/pool.py:9 in forward (model)",
        "  see https://meta-pytorch.org/compile-graph-break-site/gb/gb0002.html",
    )


def test_the_explanation_does_not_make_another_break_of_it():
    explained = dataclasses.replace(PRINT, explanation="why", hint="how")
    assert explained == PRINT
    assert hash(explained) == hash(PRINT)


def test_proposed_breaks_pass():
    again = dataclasses.replace(PRINT, place=make_place(50, file="net.py"))
    assert_proposal_helps(test_graph_breaks.rule, broken(PRINT, ITEM, again), Budget())


def test_a_proposal_keeps_the_breaks_that_it_would_replace():
    budget = Budget(graph_breaks=(AllowedBreak("print", "net.py"),))
    finding = test_graph_breaks.rule(broken(PRINT, ITEM), budget)
    assert finding.summary.startswith("1 graph break not budgeted: Tensor.item()")
    assert finding.proposal == {
        "graph_breaks": [
            {"reason": "Tensor.item()", "place": "timm/layers/pool.py"},
            {"reason": "print", "place": "net.py"},
        ]
    }
    assert_proposal_helps(test_graph_breaks.rule, broken(PRINT, ITEM), budget)


@pytest.mark.parametrize(
    ("allowed", "passes"),
    [
        (AllowedBreak("print", "net.py"), True),
        (AllowedBreak("print", ""), True),
        (AllowedBreak("", "net.py"), True),
        (AllowedBreak("", "pool.py"), False),
        (AllowedBreak("item", "net.py"), False),
        (AllowedBreak("print", "pool.py"), False),
    ],
)
def test_a_break_is_known_by_reason_and_place_together(allowed, passes):
    finding = test_graph_breaks.rule(broken(PRINT), Budget(graph_breaks=(allowed,)))
    assert (finding.outcome == "passed") == passes


def test_a_new_break_shows_even_where_an_old_one_went():
    """One break as before, but another one: a count would not see it."""
    budget = Budget(graph_breaks=(AllowedBreak("print", "net.py"),))
    assert test_graph_breaks.rule(broken(PRINT), budget).outcome == "passed"
    assert test_graph_breaks.rule(broken(ITEM), budget).outcome == "failed"


def test_a_budgeted_break_that_disappears_passes():
    budget = Budget(graph_breaks=(AllowedBreak("print", "net.py"),))
    assert test_graph_breaks.rule(broken(), budget).outcome == "passed"


@pytest.mark.parametrize(("breaks", "outcome"), [((PRINT, ITEM), "passed"), ((), "passed")])
def test_a_number_of_unnamed_breaks_is_allowed(breaks, outcome):
    assert test_graph_breaks.rule(broken(*breaks), Budget(max_graph_breaks=2)).outcome == outcome
    more = (*breaks, *(make_break(f"another {i}") for i in range(3)))
    assert test_graph_breaks.rule(broken(*more), Budget(max_graph_breaks=2)).outcome == "failed"


def test_breaks_are_counted_in_the_summary():
    budget = Budget(graph_breaks=(AllowedBreak("print", ""),))
    assert test_graph_breaks.rule(broken(PRINT, graphs=2), budget).summary == (
        "2 graphs, 1 graph break (1 budgeted)"
    )


LSTM = make_break("nn.LSTM is skipped", "", make_place(30, "forward", "timm/rnn.py", "timm"))


def test_a_frame_that_is_left_to_eager_is_a_separate_break():
    observation = broken(fallbacks=(LSTM,))
    finding = test_graph_breaks.rule(observation, Budget())
    assert finding.outcome == "failed"
    assert finding.summary == (
        "1 graph break not budgeted: nn.LSTM is skipped at timm/rnn.py:30 in forward (timm)"
    )
    assert_proposal_helps(test_graph_breaks.rule, observation, Budget())
    assert figures_of(observation).values["breaks"] == 1  # as the line of the case shows


def test_a_frame_that_is_left_to_eager_fails_even_with_a_budgeted_break_elsewhere():
    budget = Budget(graph_breaks=(AllowedBreak("print", ""),))
    observation = broken(PRINT, fallbacks=(LSTM,))
    finding = test_graph_breaks.rule(observation, budget)
    assert finding.outcome == "failed"
    assert "nn.LSTM is skipped" in finding.summary
    assert_proposal_helps(test_graph_breaks.rule, observation, budget)


def test_a_frame_that_is_left_to_eager_because_of_a_break_is_not_a_second_break():
    frame = dataclasses.replace(PRINT, id="", place=make_place(3, file="net.py"))
    budget = Budget(max_graph_breaks=1)
    assert test_graph_breaks.rule(broken(PRINT, fallbacks=(frame,)), budget).outcome == "passed"


def test_a_frame_elsewhere_is_not_hidden_by_a_budgeted_break_of_the_same_reason():
    """A break is known by reason and place together."""
    frame = dataclasses.replace(PRINT, id="", place=make_place(3, file="timm/layers/pool.py"))
    budget = Budget(graph_breaks=(AllowedBreak("print", "net.py"),))
    assert test_graph_breaks.rule(broken(PRINT, fallbacks=(frame,)), budget).outcome == "failed"


@pytest.mark.parametrize(
    ("line", "count"), [(PRINT.source, 1), ("net.py:99", 2)], ids=["its line", "another line"]
)
def test_frames_are_left_to_eager_for_the_line_of_a_break_or_for_another(line, count):
    left = [
        make_break(PRINT.reason, "", make_place(number, file=file), line)
        for number, file in ((3, "net.py"), (5, "timm/layers/pool.py"))
    ]
    finding = test_graph_breaks.rule(broken(PRINT, fallbacks=tuple(left)), Budget())
    assert finding.summary.startswith(f"{count} graph break{'s' * (count > 1)} not budgeted")
    assert figures_of(broken(PRINT, fallbacks=tuple(left))).values["breaks"] == count
    assert_proposal_helps(test_graph_breaks.rule, broken(PRINT, fallbacks=tuple(left)), Budget())


def test_a_frame_that_raises_like_eager_is_not_a_graph_break():
    observed = make_break("Observed exception")
    calls = (make_call(), make_call(raised="ValueError: no"))
    raising = make_observation(calls=calls, capture=make_capture(fallbacks=(observed, PRINT)))
    finding = test_graph_breaks.rule(raising, Budget())
    assert finding.outcome == "failed"
    assert finding.summary.startswith("1 graph break not budgeted: Call to `print`")
    quiet = make_observation(calls=calls, capture=make_capture(fallbacks=(observed,)))
    assert test_graph_breaks.rule(quiet, Budget()).outcome == "passed"
    silent = make_observation(capture=make_capture(fallbacks=(observed,)))
    assert test_graph_breaks.rule(silent, Budget()).outcome == "failed"
