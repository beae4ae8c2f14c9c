"""A warning that a process writes again and again is shown once; nothing else is left out."""

import pytest

from compilegate.output.repeats import each_warning_once

SLOW = "/torch/guards.py:1586: RuntimeWarning: Guards may run slower.\n  warnings.warn(\n"
LONG = (
    "a.py:2: UserWarning: Dynamo cannot trace it.\nIf it is a builtin, report it.\n  warn_once(x)\n"
)
BARE = "b.py:7: FutureWarning: soon gone\n"
#: A warning of anomaly detection, whose message is a stack.
STACK = (
    "graph.py:13: UserWarning: Error in Backward1. Traceback of the forward call:\n"
    '  File "net.py", line 7, in forward\n    return y.sum(dim=1)\n           ^^^^^\n'
    " (Triggered internally at anomaly.cpp:108.)\n  return run_backward(\n"
)


@pytest.mark.parametrize("warning", [SLOW, LONG, BARE, STACK])
def test_a_repeated_warning_is_shown_once_with_its_number(warning):
    text = f"{warning}step 1\n{warning}step 2\n{warning}"
    assert each_warning_once(text) == f"{warning}  (written 3 times)\nstep 1\nstep 2\n"


@pytest.mark.parametrize(
    "text",
    [
        SLOW + LONG + BARE + STACK,
        "step\nstep\nstep\n",
        "epoch 1: loss 2\n  detail\nepoch 1: loss 2\n  detail",
        SLOW + SLOW.replace("1586", "1587"),
        BARE.rstrip(),
        "",
    ],
)
def test_what_is_no_repeated_warning_stays_as_it_is(text):
    assert each_warning_once(text) == text


def test_a_last_line_that_does_not_end_counts():
    assert each_warning_once((SLOW + SLOW).rstrip()) == f"{SLOW}  (written 2 times)"
