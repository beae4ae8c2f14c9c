"""What a report says of the line whose result is wrong first."""

import pytest

from compilegate.records.part import LineDiffers
from compilegate.triage.report import line_text

AT = {"source": "net.py:8", "code": "y = x * k", "compared": 4}


@pytest.mark.parametrize(
    ("backend", "found", "says"),
    [
        (
            "eager",
            {**AT, "right": "2 at [0]", "wrong": "3 at [0]"},
            "**Line:** `net.py:8`: `y = x * k` is the first whose result in Dynamo's graph is "
            "another than in eager: 2 at [0] in eager, and 3 at [0] in the graph.",
        ),
        (
            "aot_eager",
            {**AT, "right": "2", "wrong": "3", "caller": "net.py:20: return self.gate(x)"},
            "**Line:** `net.py:8`: `y = x * k` is the first whose result in AOTAutograd's graph is "
            "another than in Dynamo's graph: 2 in Dynamo's graph, and 3 in AOTAutograd's. "
            "Its function is called at `net.py:20: return self.gate(x)`.",
        ),
        (
            "eager",
            {**AT, "wrong": "float32 of shape (2,)", "left_out": ("net.py:7: y = x + 1",)},
            "**Line:** `net.py:8`: `y = x * k` is in Dynamo's graph, and eager does not run it in "
            "this call. Before it, eager runs a line that is not in the graph: "
            "`net.py:7: y = x + 1`.",
        ),
        (
            "eager",
            {"compared": 4},
            "**Line:** none. In Dynamo's graph, all 4 results of lines are those of eager. What is "
            "wrong is elsewhere: in guards, objects of Python, autograd, or what is returned.",
        ),
        (
            "aot_eager",
            {"compared": 1, "writes": ("net.py:8: y[0] = 0",)},
            "**Line:** none. In AOTAutograd's graph, the only result of a line is that of Dynamo's "
            "graph. What is wrong is elsewhere: in how inputs and outputs are passed (aliases, "
            "writes), or in the backward. A line that writes to a tensor: `net.py:8: y[0] = 0`.",
        ),
        (
            "eager",
            {"compared": 2, "unseen": ("net.py:8: y = np.fix(x)",)},
            "**Line:** none. In Dynamo's graph, all 2 results of lines are those of eager, as far "
            "as they were compared. Not compared, since eager calls no function of PyTorch's for "
            "it: `net.py:8: y = np.fix(x)`.",
        ),
        ("eager", {}, ""),
    ],
    ids=["another", "of AOTAutograd", "not in eager", "none", "one", "of NumPy", "nothing"],
)
def test_the_line_and_both_results_are_named(backend, found, says):
    assert " ".join(line_text.paragraph(LineDiffers(**found), backend)).rstrip() == says
