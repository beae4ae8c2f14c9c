"""The title of a report is that of an issue: stage, place, and what is wrong, without a call."""

from dataclasses import replace

import pytest

from compilegate.culprits.grouping import culprits
from compilegate.fuzzing.program import Program, Statement
from compilegate.judging.budget import Budget
from compilegate.records.call import SliceError
from compilegate.records.observation import WANTS
from compilegate.records.part import CppLine, LineDiffers
from compilegate.triage.findings import Findings
from compilegate.triage.report import issue
from compilegate.triage.report.title import title_of
from compilegate.triage.scripts.running import Ended, Verified
from compilegate.triage.scripts.script import Script
from compilegate.triage.search.ladder import Stage
from compilegate.triage.search.place import Place
from compilegate.triage.search.suspect import Suspect
from tests.unit.failing import WRONG, A, broken, failures, recompiled, wrong
from tests.unit.making import (
    make_break,
    make_capture,
    make_checked,
    make_difference,
    make_environment,
    make_error,
    make_failed_observation,
    make_memory,
    make_observation,
)

PRINT = replace(
    make_break("Failed to trace builtin operator"),
    explanation="Dynamo does not know how to trace builtin operator `print` with ['str']",
)
BUILTIN = replace(
    make_break("Failed to trace builtin"),
    explanation="Dynamo does not know how to trace the builtin `sys.getrefcount.` This",
)
BRANCH = replace(
    make_break("Data-dependent branching"),
    explanation="Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`). Use `x > 0`.",
)
PLAIN_LEFT = make_break("Observed exception", "", broken_at="net.py:88")
RAISING_LEFT = replace(PLAIN_LEFT, explanation="this line raises RuntimeError('no')")
LEFT = make_observation(case=A, capture=make_capture(fallbacks=(RAISING_LEFT,)))
HEAVY = make_observation(case=A.replace("cpu", "cuda"), memory=make_memory(1, 2**30), wants=WANTS)
GELU = Place(path="act", kind="GELU", operator="gelu")
BISECTED = {"subsystem": "decomposition", "what": "aten.erf.default"}
FUSED = {"subsystem": "lowerings", "what": "mul_3", "helps": [{"max_fusion_size": 1}]}
ALIASING = make_difference("output", "aliasing", "input[0] = output", "no shared memory")
SHARED = make_checked(make_error(), differences=[ALIASING])
STRIDES = make_checked(make_error(), differences=[make_difference("output", "stride")])
BACKEND = "backend='inductor' raised: LoweringError: no loops"
#: What no tracing has made has the name of its overload, too.
LOWERED = {"subsystem": "lowerings", "what": "slice_scatter_default_1", "backend": "inductor"}
CPP = CppLine("auto tmp3 = broken(tmp2);", "pad", "net.py:3 in forward: y = pad(x)")
NUMBERS = "wrong output in float32 (error 0.01, eager "


def suspect_of(observation):
    found = failures(observation, max_memory_ratio=1.5)
    (culprit,) = culprits(found)
    verdict = [found[0].verdict]
    return Suspect(culprit, observation, verdict, lambda case: Budget(), "2.15.0")


def title(observation, backend="inductor", **fields):
    return title_of(suspect_of(observation), Findings(stage=Stage(backend), **fields))


@pytest.mark.parametrize(
    ("observation", "fields", "begins"),
    [
        (wrong(A), {"place": GELU}, f"[Inductor] gelu: {NUMBERS}"),
        (wrong(A), {"place": Place("act", "GELU")}, f"[Inductor] GELU: {NUMBERS}"),
        (wrong(A), {"place": Place(model="Net")}, f"[Inductor] Net: {NUMBERS}"),
        (wrong(A), {"line": LineDiffers(compared=3)}, f"[Inductor] one: {NUMBERS}"),
        (wrong(A), {}, f"[Inductor] one: {NUMBERS}"),
        (wrong(A), {"backend": ""}, f"one: {NUMBERS}"),
        (wrong(A), {"bisected": BISECTED}, f"[decompositions] erf: {NUMBERS}"),
        (wrong(A), {"bisected": FUSED}, f"[Inductor] fusion of mul: {NUMBERS}"),
        (wrong(A), {"bisected": LOWERED}, f"[Inductor] slice_scatter: {NUMBERS}"),
        (wrong(A), {"bisected": LOWERED, "cpp": CPP}, f"[Inductor] pad: {NUMBERS}"),
        (wrong(A), {"place": GELU, "cpp": CPP}, f"[Inductor] gelu: {NUMBERS}"),
        (wrong(A, outputs=STRIDES), {}, "[Inductor] one: stride of output is "),
        (
            wrong(A, outputs=SHARED),
            {},
            "[Inductor] one: output shares memory with different tensors",
        ),
    ],
    ids=[
        "operator",
        "class",
        "class of the model",
        "no line",
        "model",
        "no stage",
        "bisected",
        "fused",
        "overload",
        "line of C++",
        "alone, with C++",
        "exact",
        "aliasing",
    ],
)
def test_wrong_numbers_have_a_place_a_tensor_and_their_error(observation, fields, begins):
    assert title(observation, **fields).startswith(begins)


FEW = (
    Statement(text="y = x.permute(0, 2, 1)", operator="permute", source="net.py:8"),
    Statement(text="z = y.permute(0, 2, 1)", operator="permute", source="net.py:9"),
    Statement(text="w = z.exp()", operator="exp"),
)


@pytest.mark.parametrize(
    ("statements", "status", "begins"),
    [
        (FEW, 1, "[Inductor] permute, exp: "),
        (FEW, 0, "[Inductor] Block: "),
        (FEW[:1], 1, "[Inductor] Block: "),
        (FEW * 2, 1, "[Inductor] Block: "),
    ],
    ids=["a few", "not verified", "one", "many"],
)
def test_a_few_operators_that_fail_together_are_named(statements, status, begins):
    program = Program(name="m", values=(), statements=statements, returns=("w",))
    red = Ended(status, "compiled code is WRONG", 1.0)
    verified = Verified(red, Ended(0, "", 1.0), "aot_eager")
    script = Script(text="", origin="the graph", program=program)
    fields = {"script": script, "verified": verified, "place": Place("block", "Block")}
    assert title(wrong(A), **fields).startswith(begins)
    suspect = suspect_of(wrong(A))
    text = issue.text(suspect, Findings(**fields), make_environment(), "observe", "")
    shown = "**Operators:** `permute`, `exp` fail together, compiled as one graph.\n"
    shown += "One is called at `net.py:8`.\nOne is called at `net.py:9`.\n"
    bisected = title(wrong(A), **fields, bisected=BISECTED)
    assert bisected.startswith(begins.replace("Block", "erf").replace("Inductor", "decompositions"))
    assert (shown in text) == (begins == "[Inductor] permute, exp: ")


def test_the_error_is_that_of_the_submodule_alone():
    alone = "call 1: output (float32): largest error is 0.3 of its scale 1 (eager 2e-07, allowed 1)"
    at = Place("act", "GELU", text=alone)
    said = "[Inductor] GELU: wrong output in float32 (error 0.3, eager 2e-07)"
    assert title(wrong(A), place=at) == said
    raises = Place("act", "GELU", text="raised in stage compile: Unsupported: no")
    assert title(wrong(A), place=raises).startswith(f"[Inductor] GELU: {NUMBERS}")


def test_the_line_that_is_wrong_first_ends_the_title():
    line = LineDiffers(source="net.py:8", right="1", wrong="2")
    assert title(wrong(A), backend="eager", line=line).endswith(" at net.py:8")


def test_an_input_is_wrong_after_the_call():
    state = make_checked(make_error("input[0]", **WRONG))
    assert "wrong input[0] after the call in float32" in title(wrong(A, state=state))
    lost = make_checked(make_error("input[0]", **WRONG, unwritten=True))
    assert f"write to input[0] is lost in {NUMBERS.partition(' in ')[2]}" in title(
        wrong(A, state=lost)
    )


@pytest.mark.parametrize(
    ("group", "difference", "expected"),
    [
        (
            "outputs",
            ("output", "nonfinite", "0.75 at [0]; 0 not finite", "nan at [0]; 16 not finite"),
            "NaN where eager has numbers in output",
        ),
        (
            "outputs",
            ("output", "nonfinite", "nan at [0]; 1 not finite", "0.5 at [0]; 0 not finite"),
            "a number where eager has NaN in output",
        ),
        (
            "outputs",
            ("output", "elements", "6 at []", "0 there; 1 of 1 elements differ"),
            "wrong output: 0 where eager has 6",
        ),
        (
            "state",
            ("closure record.log[0]", "value", "8", "None"),
            "write to closure record.log[0] is lost: eager leaves 8",
        ),
        (
            "state",
            ("class Net.calls", "value", "2", "1"),
            "class Net.calls is 1 after the call, in eager 2",
        ),
        (
            "outputs",
            ("output", "dtype", "int64", "int8"),
            "dtype of output is int8, in eager int64",
        ),
        (
            "outputs",
            ("output", "identity", "input[0] is output", "another object"),
            "a copy or a view is returned where in eager input[0] is output",
        ),
        (
            "outputs",
            ("output", "identity", "another object", "input[0] is output"),
            "input[0] is output, where eager returns a copy or a view",
        ),
    ],
    ids=["NaN", "no NaN", "elements", "lost", "state", "dtype", "copy", "no copy"],
)
def test_what_differs_exactly_reads_as_one_would_file_it(group, difference, expected):
    checked = make_checked(make_error(), differences=[make_difference(*difference)])
    assert title(wrong(A, **{group: checked})) == f"[Inductor] one: {expected}"


def test_a_wrong_slice_is_named():
    one = SliceError(
        what="scale",
        dimension=1,
        index=3,
        slices=64,
        elements=512,
        eager=1e-5,
        compiled=0.012,
        noise=1e-4,
    )
    checked = make_checked(make_error(slices=(one,)))
    expected = "wrong slice 3 of the 64 along dimension 1 of output in float32"
    made = title(wrong(A, outputs=checked))
    assert made == f"[Inductor] one: {expected} (scale off by …"


@pytest.mark.parametrize(
    ("eager", "compiled", "expected"),
    [
        ("ValueError: no", "nothing", "no error where eager raises ValueError: no"),
        ("nothing", "ValueError: no", "raises ValueError: no"),
    ],
)
def test_a_call_that_raises_on_one_side_says_on_which(eager, compiled, expected):
    checked = make_checked(differences=[make_difference("output", "raises", eager, compiled)])
    assert title(wrong(A, outputs=checked)) == f"[Inductor] one: {expected}"


@pytest.mark.parametrize(
    ("observation", "expected"),
    [
        (
            broken(A, PRINT),
            "[Dynamo] graph break: Failed to trace builtin operator `print` at net.py:10",
        ),
        (
            broken(A, BUILTIN),
            "[Dynamo] graph break: Failed to trace builtin `sys.getrefcount` at net.py:10",
        ),
        (broken(A, make_break()), "[Dynamo] graph break: Call to `print` at net.py:10"),
        (broken(A, BRANCH), "[Dynamo] graph break: Data-dependent branching at net.py:10"),
        (LEFT, "[Dynamo] graph break: Observed exception: RuntimeError('no') at net.py:88"),
        (
            make_observation(case=A, capture=make_capture(fallbacks=(PLAIN_LEFT,))),
            "[Dynamo] graph break: Observed exception at net.py:88",
        ),
        (
            make_observation(case=A, capture=make_capture(graphs=0, breaks=(make_break(),))),
            "[Dynamo] nothing is compiled: Call to `print` at net.py:10",
        ),
        (
            recompiled(A, *["0/0: self.n == 1"] * 2),
            "[Dynamo] recompilation for self.n == 1 in forward of net.py",
        ),
    ],
    ids=[
        *(
            "a call in the explanation",
            "one that ends a sentence",
            "a call in the reason",
            "an example in the explanation",
        ),
        *("left to eager", "left to eager, without a cause", "nothing compiled", "a guard"),
    ],
)
def test_what_a_line_of_code_does_has_the_line(observation, expected):
    assert title(observation, "eager") == expected


def test_the_line_stays_where_the_reason_is_too_long():
    made = title(broken(A, make_break("very " * 40)), "eager")
    assert len(made) <= 100
    assert made.startswith("[Dynamo] graph break: very very")
    assert made.endswith(" … at net.py:10")


@pytest.mark.parametrize(
    ("status", "failure", "expected"),
    [
        ("crashed", {"kind": "SIGSEGV"}, "SIGSEGV in the first call"),
        ("crashed", {"kind": "SIGSEGV", "stage": "vary"}, "SIGSEGV in a later call"),
        ("timed_out", {"kind": "timeout"}, "hangs in the first call"),
        ("raised", {"kind": "KeyError", "message": "'a'"}, "KeyError: 'a'"),
        (
            "raised",
            {"kind": "BackendCompilerFailed", "message": BACKEND},
            "LoweringError: no loops",
        ),
    ],
)
def test_a_case_that_ends_early_says_how_and_when(status, failure, expected):
    made = make_failed_observation(status, A, **{"message": "died", "stage": "compile", **failure})
    assert title(made) == f"[Inductor] one: {expected}"


@pytest.mark.parametrize(
    ("observation", "meant"),
    [
        (wrong(A), issue._OF_ERROR),
        (recompiled(A, *["0/0: self.n == 1"] * 2), issue._OF_COUNT),
        (HEAVY, issue._OF_COST),
    ],
    ids=["numbers", "recompilations", "memory"],
)
def test_a_report_says_what_is_allowed_of_that_which_is_wrong(observation, meant):
    text = issue.text(suspect_of(observation), Findings(), make_environment(), "observe", "")
    assert f"*allowed*: the limit of the suite, {meant}." in text
    others = {issue._OF_ERROR, issue._OF_COUNT, issue._OF_COST} - {meant}
    assert not any(other in text for other in others)
