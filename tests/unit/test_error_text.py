"""The text of an error gives the cause, where the compiler's own first line does not."""

import pytest
import torch
import torch._inductor.graph

from compilegate.observe import error_text

FAKE = """\
RuntimeError when making fake tensor call
  Explanation: Dynamo failed to run FX node with fake tensors: call_method view(*(FakeTensor(...,
   size=(3, 3)), 7), **{}): got RuntimeError("shape '[7]' is invalid for input of size 9")
  Hint: Your code may result in an error when running in eager.
"""
FAKE_BEFORE = (
    "Dynamo failed to run FX node with fake tensors: call_method view(*(FakeTensor(..., "
    "size=(3, 3)), 7), **{}): got RuntimeError('no such shape')\n\nfrom user code:\n ..."
)
GCC = """\
backend='inductor' raised:
CppCompileError: C++ compile error

Command:
g++ a.cpp

Output:
a.cpp:3:5: error: 'tmp0' was not declared in this scope
"""
CODE = """\

from user code:
   File "/home/me/net.py", line 14, in forward
    assert x.shape[0] == 4
  File "/home/me/inner.py", line 3, in helper
    return x[5]

Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace
"""
ADVICE = """\
Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace (please do this especially if you report)
"""
SIZES = "expected size 4==4, stride 128==16 at dim=0"
OPERATOR = "\nError in op: torch.ops.aten.topk.default\nThis error most often comes from a fake"
WRAPPED = "During the backward, we encountered a tensor subclass where we guessed its\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("four", "four"),
        ("\n  four\nfive\n", "four"),
        ("", ""),
        ("backend='inductor' raised:\nValueError: four\nfive", "backend='inductor' raised: "
         "ValueError: four"),
        ("one:\n\ntwo:\nthree", "one: two: three"),
        ("one:", "one:"),
        (FAKE, "RuntimeError when making fake tensor call: shape '[7]' is invalid for input of "
         "size 9"),
        (FAKE_BEFORE, "Dynamo failed to run FX node with fake tensors: no such shape"),
        (GCC, "backend='inductor' raised: CppCompileError: C++ compile error: 'tmp0' was not "
         "declared in this scope"),
        ("four" + CODE, "four"),
        (CODE, "inner.py:3: return x[5]"),
        ("AssertionError: " + CODE, "AssertionError: inner.py:3: return x[5]"),
        ("AssertionError: \n\n" + ADVICE, "AssertionError:"),
        ("four\n\n" + ADVICE, "four"),
        (WRAPPED + "metadata incorrectly.\n\nmore", WRAPPED.strip() + " metadata incorrectly."),
        (
f"backend='inductor' raised:\nError: {WRAPPED}metadata incorrectly. Current state:",
            f"backend='inductor' raised: Error: {WRAPPED.strip()} metadata incorrectly. "
            "Current state:",
        ),
        (SIZES + OPERATOR, f"torch.ops.aten.topk.default: {SIZES}"),
        (f"{SIZES}\nThis error most often comes from a fake", SIZES),
        (WRAPPED + "\nmetadata", WRAPPED.strip()),
        (WRAPPED + "Metadata", WRAPPED.strip()),
    ],
)  # fmt: skip
def test_the_line_of_a_text_is_its_first_line_with_the_cause(text, line):
    assert error_text.one_line(text) == line


def raised(action):
    with pytest.raises(Exception) as caught:  # noqa: PT011
        action()
    return caught.value


def test_a_cause_that_the_text_lacks_comes_from_the_exception():
    def chained():
        try:
            raise KeyError("logits")
        except KeyError as error:
            raise RuntimeError("it failed:") from error

    assert error_text.with_kind(raised(chained)) == "RuntimeError: it failed: KeyError: 'logits'"


def test_an_error_without_a_message_gives_the_line_that_raised_it():
    def asserts():
        raise AssertionError

    line = error_text.with_kind(raised(asserts))
    assert line.startswith("AssertionError: test_error_text.py:")
    assert line.endswith(": raise AssertionError")
    assert error_text.of(ValueError()) == "ValueError"


def test_a_long_message_is_cut():
    line = error_text.of(ValueError("head" + "x" * 20_000_000 + "tail"))
    assert line.startswith("headxxx")
    assert line.endswith("xxxtail")
    assert len(line.encode()) <= 400


def test_an_error_in_a_backend_shows_the_backends_exception():
    def backend(graph, inputs):
        raise ValueError("four\nfive")

    error = raised(lambda: torch.compile(lambda x: x + 1, backend=backend)(torch.ones(3)))
    assert error_text.with_kind(error) == (
        "BackendCompilerFailed: backend='backend' raised: ValueError: four"
    )


def test_an_operator_that_fails_under_dynamo_shows_its_exception():
    error = raised(lambda: torch.compile(lambda x: x.view(7), backend="eager")(torch.ones(3, 3)))
    assert error_text.of(error).endswith("shape '[7]' is invalid for input of size 9")


def test_an_assertion_in_inductor_without_a_message_gives_its_line(monkeypatch):
    def asserts(*arguments):
        raise AssertionError

    monkeypatch.setattr(torch._inductor.graph.GraphLowering, "run", asserts)
    error = raised(lambda: torch.compile(lambda x: x + 1)(torch.ones(3)))
    line = error_text.of(error)
    assert line.startswith("AssertionError: test_error_text.py:")
    assert line.endswith(": raise AssertionError")
