"""What a report says of the line whose result is wrong first."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from compilegate.records.part import LineDiffers
from compilegate.triage.findings import Findings
from compilegate.triage.report import line_text
from compilegate.triage.search.ladder import Stage
from compilegate.triage.search.seen import Seen
from compilegate.triage.steps.lines import find, named_in

AT = {"source": "net.py:8", "code": "y = x * k", "compared": 4}


@pytest.mark.parametrize(
    ("backend", "found", "says"),
    [
        (
            "eager",
            {**AT, "right": "2 at [0]", "wrong": "3 at [0]"},
            "**Line:** `net.py:8`: `y = x * k` is the first line whose result in Dynamo's "
            "graph differs from eager: 2 at [0] in eager, and 3 at [0] in the graph.",
        ),
        (
            "eager",
            {
                "compared": 2,
                "lost": ("net.py:7: self.order.reverse()",),
                "lost_from": "attribute a",
            },
            "**Line:** `net.py:7: self.order.reverse()` changes `attribute a` in eager, but not "
            "in the same way in compiled code. All results that were compared are the same.",
        ),
        (
            "aot_eager",
            {**AT, "right": "2", "wrong": "3", "caller": "net.py:20: return self.gate(x)"},
            "**Line:** `net.py:8`: `y = x * k` is the first line whose result in AOTAutograd's "
            "graph differs from Dynamo's graph: 2 in Dynamo's graph, and 3 in AOTAutograd's. Its "
            "function is called at `net.py:20: return self.gate(x)`.",
        ),
        (
            "eager",
            {**AT, "right": "2", "wrong": "3", "modules": ("experts.1", "experts.2")},
            "**Line:** `net.py:8`: `y = x * k` is the first line whose result in Dynamo's graph "
            "differs from eager: 2 in eager, and 3 in the graph. Eager runs it in `experts.1`, "
            "where the graph has `experts.2`.",
        ),
        (
            "eager",
            {
                **AT,
                "wrong": "float32 of shape (2,)",
                "left_out": ("net.py:7: y = x + 1",),
                "left_out_at": "net.py:3: y = up(x)",
            },
            "**Line:** `net.py:8`: `y = x * k` is in Dynamo's graph, and eager does not run it in "
            "this call. Before it, eager runs a line whose result is in no graph: "
            "`net.py:7: y = x + 1`, in a function that is called at `net.py:3: y = up(x)`.",
        ),
        (
            "eager",
            {**AT, "right": "2", "wrong": "3", "left_out": ("net.py:7: y = x", "net.py:6: z = y")},
            "**Line:** eager runs a line whose result is in no graph: `net.py:7: y = x`. Eager "
            "runs a line whose result is in no graph: `net.py:6: z = y`. After it, `net.py:8`: `y "
            "= x * k` is the first line whose result in Dynamo's graph differs from eager: 2 in "
            "eager, and 3 in the graph.",
        ),
        (
            "eager",
            {"compared": 4},
            "**Line:** none. In Dynamo's graph, all 4 compared results are the same as in eager. "
            "The fault is elsewhere: in guards, Python objects, autograd, or returned values.",
        ),
        (
            "aot_eager",
            {"compared": 1, "writes": ("net.py:8: y[0] = 0",), "lines": ("net.py:9: x + 1",)},
            "**Line:** none. In AOTAutograd's graph, the only compared result is the same as in "
            "Dynamo's graph. The fault is elsewhere: in how inputs and outputs are passed "
            "(aliases, writes), or in the backward. The graph has only these lines: `net.py:9: x + "
            "1`. A line that writes to a tensor: `net.py:8: y[0] = 0`.",
        ),
        (
            "aot_eager",
            {
                "compared": 3,
                "touched": {
                    "output.k": "net.py:8: k = x[:2]",
                    "output.v": "net.py:9: return k, x[2:]",
                    "gradient fc.bias": "net.py:7: x = self.fc(x)",
                    "gradient fc.weight": "net.py:7: x = self.fc(x)",
                },
            },
            "**Line:** none. In AOTAutograd's graph, all 3 compared results are the same as in "
            "Dynamo's graph. The fault is elsewhere: in how inputs and outputs are passed "
            "(aliases, writes), or in the backward. `net.py:8: k = x[:2]` makes `output.k`, which "
            "is wrong. `net.py:9: return k, x[2:]` makes `output.v`, which is wrong. `net.py:7: x "
            "= self.fc(x)` is the first to read `fc.bias`, `fc.weight`, whose gradient is wrong.",
        ),
        (
            "eager",
            {"compared": 2, "unseen": ("net.py:8: y = np.fix(x)",)},
            "**Line:** none. In Dynamo's graph, all 2 compared results are the same as in eager. "
            "Not compared, because eager calls no PyTorch function for it: `net.py:8: y = "
            "np.fix(x)`.",
        ),
        ("eager", {}, ""),
        (
            "inductor",
            {"lines": ("net.py:8: y = x * k", "net.py:9: y + 1")},
            "**Line:** one of `net.py:8: y = x * k`, `net.py:9: y + 1`: the graph has no other "
            "lines.",
        ),
    ],
    ids=[
        "another",
        "state of Python",
        "of AOTAutograd",
        "in another submodule",
        "not in eager",
        "lost before another",
        "none",
        "one",
        "what lines touch",
        "of NumPy",
        "nothing",
        "Inductor",
    ],
)
def test_the_line_and_both_results_are_named(backend, found, says):
    assert " ".join(line_text.paragraph(LineDiffers(**found), backend)).rstrip() == says


RAISED = """Traceback (most recent call last):
  File "/venv/torch/_dynamo/utils.py", line 7, in call
    raise Error
torch._dynamo.exc.TorchRuntimeError: no
{named}
Set TORCHDYNAMO_VERBOSE=1
"""
NAMED = """
from user code:
   File "/work/net/zoo.py", line 31, in forward
    x = self.shift(x)
        ~~~~~~~~~~^^^
  File "/work/net/zoo.py", line 29, in forward
    x = torch.roll(x, (-2,), (3,))
        ~~~~~~~~~~^^^^^^^^^^^^^^^^
"""


@pytest.mark.parametrize(
    ("named", "root", "line"),
    [
        (NAMED, "/work", "net/zoo.py:29: x = torch.roll(x, (-2,), (3,))"),
        (NAMED, "/home", "zoo.py:29: x = torch.roll(x, (-2,), (3,))"),
        ("", "/work", ""),
    ],
)
def test_the_line_at_which_the_compiler_raises_is_that_of_the_users_code(named, root, line):
    found = named_in(RAISED.format(named=named), Path(root))
    assert found == line
    assert Findings(raises_at=found).wrong_line == line.partition(": ")[0]


def test_the_line_that_only_eager_computes_comes_before_a_wrong_one():
    found = LineDiffers(source="net.py:8", left_out=("net.py:7: y = x + 1",))
    assert Findings(line=found).wrong_line == "net.py:7"
    assert Findings(line=LineDiffers(source="net.py:8")).wrong_line == "net.py:8"
    assert Findings(line=LineDiffers(compared=3)).wrong_line == ""


@pytest.mark.parametrize(
    ("count", "bisected", "lines", "called_at"),
    [
        (2, {}, ("net.py:0: y", "net.py:1: y"), []),
        (5, {}, None, []),
        (2, {"subsystem": "lowerings", "what": "mul"}, None, ["net.py:0: y", "net.py:1: y"]),
    ],
    ids=["a few", "many", "bisected"],
)
def test_lines_of_a_small_graph_are_named_where_nothing_else_is(count, bisected, lines, called_at):
    told = [{"name": "mul", "of": "mul", "source": f"net.py:{n}: y"} for n in range(count)] * 2
    suspect = SimpleNamespace(is_of_values=True, observation=SimpleNamespace(failure=None))
    trials = SimpleNamespace(suspect=suspect, told=lambda part, what: (told, ""))
    stage = Stage("inductor", {"inductor": Seen("bad")})
    found = Findings(stage=stage, bisected=bisected)
    find(trials, found, lambda line: None)
    assert (found.line.lines if found.line else None) == lines
    assert found.called_at == called_at


@pytest.mark.parametrize(
    ("operator", "count", "lines", "called_at"),
    [
        ("", 2, ("net.py:0: y", "net.py:1: y"), []),
        ("", 5, None, []),
        ("mul", 2, None, ["net.py:0: y", "net.py:1: y"]),
        ("add", 2, None, []),
    ],
    ids=["a few", "many", "alone", "another"],
)
def test_where_what_raises_has_no_line_those_that_may_be_it_are_named(
    operator, count, lines, called_at
):
    told = [{"name": "mul", "operator": "mul", "source": f"net.py:{n}: y"} for n in range(count)]
    answers = {"raising": "", "operators": told, "graph": {"statements": told}}
    failure = SimpleNamespace(message="no", traceback="")
    observation = SimpleNamespace(failure=failure, status="raised")
    suspect = SimpleNamespace(is_of_values=False, observation=observation)
    trials = SimpleNamespace(suspect=suspect, told=lambda _, what: (answers[what], ""))
    found = Findings(stage=Stage("aot_eager", {"aot_eager": Seen("bad")}))
    found.place.operator = operator
    find(trials, found, lambda line: None)
    assert found.called_at == called_at
    assert (found.line and found.line.lines) == lines
    text = [*line_text.paragraph(found.line, "aot_eager")] if found.line else []
    assert bool(text) is (lines is not None)
    assert all("one of `net.py:0: y`, `net.py:1: y`" in each for each in text[:1])
