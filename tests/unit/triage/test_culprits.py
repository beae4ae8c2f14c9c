"""Failures of one cause are one culprit, and failures of two causes stay two."""

from dataclasses import replace

import pytest

from compilegate.culprits.grouping import Failure, counted, culprits, folded
from compilegate.judging.expected_failure import ExpectedFailure
from compilegate.records.case import model_of
from compilegate.records.practice import Practice, Step
from tests.unit.failing import WRONG, A, B, broken, failures, found, recompiled, wrong
from tests.unit.making import (
    make_break,
    make_call,
    make_capture,
    make_checked,
    make_compilation,
    make_difference,
    make_error,
    make_failed_observation,
    make_observation,
    make_place,
    make_verdict,
)

SETTINGS = [
    f"{phase}-{precision}-default-{dynamic}"
    for phase in ("infer", "train")
    for precision in ("f32", "bf16")
    for dynamic in ("static", "auto", "dynamic", "marked")
]
MODELS = ("resnet18", "resnet50", "densenet121")
CASES = [f"{model}-cpu-{setting}" for model in MODELS for setting in SETTINGS][:44]


def test_41_cases_of_one_fault_and_3_of_another_are_two_culprits():
    fault = [wrong(case) for case in CASES[:41]]
    other = [broken(case, make_break()) for case in CASES[41:]]
    seen = found(*fault, *other)
    assert [len(culprit.cases) for culprit in seen] == [41, 3]
    assert counted(seen) == "2 culprits in 44 cases"
    assert counted(found()) == ""


def test_wrong_outputs_explain_wrong_gradients_of_their_case():
    gradients = make_checked(make_error("gradient weight", **WRONG))
    outputs = make_checked(make_error("output", **WRONG))
    (both,) = found(wrong(CASES[8], outputs=outputs, gradients=gradients))
    assert both.aspects == ["forward", "gradients"]
    assert both.aspect == "forward"
    seen = found(wrong(CASES[0]), wrong(CASES[8], gradients=gradients))
    assert [culprit.aspects for culprit in seen] == [["forward"], ["gradients"]]


@pytest.mark.parametrize(
    ("in_calls", "count", "text"),
    [
        ({"state": make_checked(make_error("buffer mean", **WRONG))}, 1, "call 1"),
        ({"state": make_checked(differences=[make_difference("buffer mean")])}, 2, "probing call"),
        ({}, 1, "probing call"),
    ],
)
def test_what_a_users_calls_show_names_what_probing_calls_show_too(in_calls, count, text):
    outputs = make_checked(make_error("output", **WRONG))
    probe = make_call(rest="same", outputs=outputs, gradients=outputs)
    observation = make_observation(
        case=CASES[8],
        calls=(make_call(**in_calls),) * 2,
        probes=(replace(probe, probe="large numbers"),),
    )
    seen = found(observation)
    assert len(seen) == count
    (one,) = [each for each in seen if "forward" in each.aspects]
    assert one.text.startswith(text)
    assert one.aspect == ("forward" if text == "probing call" else "side_effects")


def test_an_exact_difference_explains_no_number():
    seen = found(
        wrong(
            CASES[8],
            outputs=make_checked(make_error(), differences=[make_difference()]),
            gradients=make_checked(make_error("gradient weight", **WRONG)),
        )
    )
    assert [culprit.aspects for culprit in seen] == [["forward"], ["gradients"]]


def test_wrong_numbers_of_models_that_share_no_place_stay_apart():
    assert len(found(wrong(A), wrong(B))) == 2
    assert len(found(wrong(CASES[0]), wrong("gpt2-cpu-infer-f32-default-static"))) == 2


def test_numbers_that_are_wrong_only_in_later_calls_have_another_cause():
    later = wrong(CASES[0]).calls[0]
    both = found(wrong(CASES[1]), make_observation(case=CASES[0], calls=(make_call(), later)))
    assert len(both) == 2


def test_outputs_in_half_precision_that_go_wrong_later_have_the_cause_of_those_in_float32():
    half, exact = CASES[4], CASES[0]
    assert ("bf16" in half, "f32" in exact) == (True, True)
    later = wrong(exact).calls[0]
    probed = make_observation(case=half, calls=(make_call(),) * 2, probes=(later,))
    assert len(found(wrong(exact), probed)) == 1
    assert len(found(wrong(CASES[1]), make_observation(case=exact, probes=(later,)))) == 2
    assert len(found(wrong("gpt2-cpu-infer-f32-default-static"), probed)) == 2


def test_the_buffer_of_a_batch_norm_names_its_module_in_all_models():
    def lost(case, name):
        seen = make_difference(f"buffer layer1.{name}", "value", "1", "0")
        return wrong(case, state=make_checked(tensors=1, differences=[seen]))

    assert len(found(lost(A, "num_batches_tracked"), lost(B, "num_batches_tracked"))) == 1
    assert len(found(lost(A, "cache"), lost(B, "cache"))) == 2


@pytest.mark.parametrize(
    ("other", "count"),
    [
        (make_break(), 1),
        (make_break(place=make_place(line=11)), 2),
        (make_break(reason="Call to `input`"), 1),
    ],
    ids=["the same", "another line", "another reason"],
)
def test_a_break_is_known_by_its_line(other, count):
    assert len(found(broken(A, make_break()), broken(B, other))) == count


def test_a_line_of_torch_that_calls_all_models_joins_no_two_reasons():
    line = make_place(file="torch/nn/modules/container.py", owner="torch")
    one, other = make_break(place=line), make_break(reason="Call to `input`", place=line)
    assert len(found(broken(A, one), broken(B, one))) == 1
    assert len(found(broken(A, one), broken(B, other))) == 2


@pytest.mark.parametrize(("line", "count"), [(10, 1), (11, 2)], ids=["its line", "another line"])
def test_a_case_of_which_nothing_is_compiled_for_the_line_of_a_break_has_its_culprit(line, count):
    capture = make_capture(graphs=0, breaks=(make_break(place=make_place(line=line)),))
    seen = found(broken(A, make_break()), make_observation(case=B, capture=capture))
    assert [culprit.cases for culprit in seen] == ([[A, B]] if count == 1 else [[A], [B]])


@pytest.mark.parametrize(
    ("function", "guard", "count"),
    [
        ("torch_dynamo_resume_in_forward_at_10", "2/0: ___stack2 == 0.5", 1),
        ("torch_dynamo_resume_in_forward_at_11", "2/0: ___stack2 == 0.5", 2),
        ("torch_dynamo_resume_in_forward_at_10", "2/0: self.count == 1", 2),
        ("forward", "0/0: ___stack2 == 0.5", 2),
    ],
    ids=["a value of its line", "of another line", "another value", "no break before"],
)
def test_a_recompilation_for_a_value_that_a_break_left_has_its_culprit(function, guard, count):
    code = make_place(function=function)
    assert len(found(broken(A, make_break()), recompiled(B, guard, code=code))) == count


@pytest.mark.parametrize(("line", "count"), [(10, 1), (11, 2)], ids=["its line", "another line"])
def test_a_frame_that_is_left_to_eager_for_the_line_of_a_break_has_its_culprit(line, count):
    frame = make_break(place=make_place(3, "loops", "other.py"), broken_at=f"net.py:{line}")
    left = make_observation(case=B, capture=make_capture(fallbacks=(frame,)))
    assert make_break().source == "net.py:10"
    assert len(found(broken(A, make_break()), left)) == count


def test_each_break_of_a_case_is_a_culprit():
    second = make_break(place=make_place(line=11))
    seen = found(broken(A, make_break(), second), broken(B, second))
    assert [culprit.cases for culprit in seen] == [[A, B], [A]]


@pytest.mark.parametrize(
    ("guard", "code", "count"),
    [
        ("tensor 'x' size mismatch at index 0. expected 7, actual 3", None, 1),
        ("tensor 'y' size mismatch at index 0. expected 7, actual 3", None, 2),
        (
            "tensor 'x' size mismatch at index 0. expected 7, actual 3",
            make_place(file="a.py"),
            2,
        ),
    ],
    ids=["other numbers", "another guard", "other code"],
)
def test_a_recompilation_is_known_by_its_guard_and_its_code(guard, code, count):
    first = "tensor 'x' size mismatch at index 0. expected 5, actual 3"
    assert len(found(recompiled(A, first), recompiled(B, guard, code=code))) == count


def test_a_guard_is_one_culprit_whatever_comment_an_earlier_run_shows_with_it():
    plain, comment = "0/0: k == 0.0", " # return x + k # rk/zoo.py:5 in forward"
    now, before = recompiled(A, plain), recompiled(B, plain + comment)
    old = "net.py:10 in forward, call 2: " + plain + comment
    stored = make_verdict("failed", case=B, aspect="recompiles", details=(old,))
    (one,) = culprits([*failures(now), Failure(before, stored)])
    assert one.cases == [A, B]
    assert one.text.endswith(plain)


FRAME = 'File "/home/me/lib/site-packages/torch/_inductor/{}.py", line 12, in lower\n'


@pytest.mark.parametrize(
    ("kind", "message", "file", "count"),
    [
        ("LoweringError", "no kernel for 12 elements of 0x7f", "ir", 1),
        ("LoweringError", "no kernel for 7 elements of 0x7f", "graph", 2),
        ("LoweringError", "no layout", "ir", 2),
        ("KeyError", "no kernel for 7 elements of 0x7f", "ir", 2),
    ],
    ids=["other numbers", "another place", "another message", "another exception"],
)
def test_an_exception_is_known_by_its_class_its_message_and_its_place(kind, message, file, count):
    def raised(case, kind, message, file):
        trace = f"Traceback (most recent call last):\n  {FRAME.format(file)}"
        return make_failed_observation(
            "raised", case, kind=kind, message=message, traceback=f"{trace}{kind}: {message}"
        )

    one = raised(A, "LoweringError", "no kernel for 7 elements of 0xab", "ir")
    seen = found(one, raised(B, kind, message, file))
    assert len(seen) == count
    assert seen[0].aspect == ""


def test_a_case_that_ends_early_is_one_culprit_also_where_work_and_changes_are_judged():
    made = make_failed_observation("raised", A, kind="LoweringError", message="no loops")
    raised = replace(made, wants=(*made.wants, "compile_work"))
    said = "broken: raised in stage compile: LoweringError: no loops"
    changed = make_verdict("failed", case=A, aspect="upgrade", summary=said)
    (one,) = culprits([*failures(raised), Failure(raised, changed)])
    assert {"forward", "compile_work", "upgrade"} <= {*one.aspects}
    slower = make_verdict("failed", case=A, aspect="upgrade", summary="regressed: energy grew")
    _, other = culprits([*failures(raised), Failure(raised, slower)])
    assert other.aspects == ["upgrade"]


def test_a_crash_is_known_by_its_frame_and_without_one_by_its_family():
    def crashed(case, output=""):
        return make_failed_observation(
            "crashed", case, kind="SIGSEGV", message="the process died of SIGSEGV", output=output
        )

    stack = (
        "Thread 1 (most recent call first):\n  {}\nCurrent thread 2 (most recent call first):\n{}"
    )
    one = stack.format(FRAME.format("a"), FRAME.format("kernel"))
    assert len(found(crashed(A, one), crashed(B, one))) == 1
    assert len(found(crashed(A, one), crashed(B, one.replace("kernel", "other")))) == 2
    assert len(found(crashed(A), crashed(B))) == 2
    assert len(found(*map(crashed, CASES[:40]))) == 1


def test_a_step_of_a_practice_names_the_place_for_errors_and_not_for_numbers():
    def practised(case, **step):
        practice = Practice(steps=(Step(name="deepcopy, twice: once", **step),), graphs=1)
        wants = ("capture", "vary", "checkpoints")
        return make_observation(case=case, wants=wants, practices={"checkpoints": practice})

    error = {"raised": "TypeError: cannot pickle", "traceback": ""}
    (one,) = found(practised(A, **error), practised(B, **error))
    assert one.aspects == ["checkpoints"]
    assert len(found(practised(A, **error), practised(B, raised="KeyError: 'a'"))) == 2
    numbers = {"outputs": make_checked(make_error("output", **WRONG))}
    assert len(found(practised(A, **numbers), practised(B, **numbers))) == 2


def test_an_expected_failure_names_the_culprit_of_cases_that_nobody_expects():
    issue = "https://github.com/pytorch/pytorch/issues/1"
    entry = ExpectedFailure("breaks at print", aspect="graph_breaks", issue=issue)
    known = failures(broken(A, make_break()), expected_failures=(entry,))
    red, expected = culprits([*known, *failures(broken(B, make_break()))])
    assert (red.cases, expected.cases) == ([B], [A])
    assert red.known == [f"expected of other cases: breaks at print ({issue})"]
    assert expected.is_expected
    assert expected.known == [f"breaks at print ({issue})"]
    assert str(red).startswith("graph_breaks: graph break: Call to `print`")
    assert counted([red, expected]) == "1 culprit in 1 case"


def test_a_name_is_not_repeated_where_the_text_has_it():
    reason = "bug (https://example.org/1)"
    verdict = make_verdict("expected_failure", summary=f"{reason}: output differs")
    (culprit,) = culprits([Failure(make_observation(), verdict)])
    assert culprit.known == [reason]
    assert str(culprit).count(reason) == 1


def test_an_expected_failure_that_passes_is_a_culprit():
    entry = ExpectedFailure("breaks at print", aspect="graph_breaks", where="b.toml:3")
    healthy = failures(make_observation(), expected_failures=(entry,))
    (stopped,) = culprits(healthy)
    assert stopped.text.startswith(
        "expected to fail, but passed: breaks at print. Remove the entry"
    )


def test_the_model_of_a_known_bug_names_its_issue():
    (culprit,) = found(wrong("gh123_views-cpu-infer-f32-default-static"))
    assert culprit.known == ["the model reproduces https://github.com/pytorch/pytorch/issues/123"]


def test_the_cases_of_a_culprit_are_folded():
    assert folded(["a", "b"]) == "a, b"
    assert folded(list("abcdef")) == "a, b, c and 3 more"


def guarded(case, path, at="pkg/net.py:12"):
    """A model that is compiled again for an attribute, which it reaches by some path."""
    reason = f"0/0: {path} == 1  # return x * self.n  # t/net.py:12 in helper"
    code = make_place(3, "forward", f"{model_of(case)}.py")
    items = make_compilation(0, "", code), make_compilation(1, reason, code, guarded_at=at)
    return make_observation(case=case, capture=make_capture(compilations=items))


@pytest.mark.parametrize(
    ("path", "at", "count"),
    [
        ("self._modules['0'].n", "pkg/net.py:12", 1),
        ("not self.n #", "pkg/net.py:12", 1),
        ("len(self.n)", "pkg/net.py:12", 1),
        ("self._modules['0'].m", "pkg/net.py:12", 2),
        ("self._modules['0'].n", "pkg/net.py:13", 2),
        ("self._modules['0'].n", "", 2),
    ],
    ids=["the same", "its truth", "its length", "another attribute", "another line", "no line"],
)
def test_one_line_that_reads_an_attribute_is_one_cause_in_two_models(path, at, count):
    seen = found(guarded(A, "self.n"), guarded(B, path, at))
    assert len(seen) == count
    assert seen[0].text == "recompiled: pkg/net.py:12: 0/0: self.n == 1"
