"""Failures of one cause are one culprit, and failures of two causes stay two."""

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.budgets import BudgetError
from compilegate.judging.expected_failure import ExpectedFailure
from compilegate.judging.rules import verdicts
from compilegate.records.practice import Practice, Step
from compilegate.records.verdict import Verdict
from compilegate.triage.causes import known_entries
from compilegate.triage.culprits import FAILED, Failure, counted, culprits, folded
from compilegate.triage.known import read, unmatched
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
A, B = "one-cpu-infer-f32-default-static", "two-cpu-infer-f32-default-static"
WRONG = {"compiled_rms": 0.01, "compiled_max": 0.05}


def failures(*observations, **budget):
    """What the suites find wrong, in the order of the observations."""
    found = ((o, v) for o in observations for v in verdicts(o, Budget(**budget)))
    return [Failure(o, v) for o, v in found if v.outcome in FAILED]


def found(*observations):
    return culprits(failures(*observations))


def wrong(case, **groups):
    healthy = {"outputs": make_checked(make_error("output", **WRONG))}
    return make_observation(case=case, calls=(make_call(**groups or healthy),) * 2)


def broken(case, *breaks):
    return make_observation(case=case, capture=make_capture(breaks=breaks))


def recompiled(case, *reasons, code=None):
    items = [make_compilation(i, reason, code) for i, reason in enumerate(("", *reasons))]
    return make_observation(case=case, capture=make_capture(compilations=tuple(items)))


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
        (make_break(reason="Call to `input`"), 2),
    ],
    ids=["the same", "another place", "another reason"],
)
def test_a_break_is_known_by_its_reason_and_its_place(other, count):
    assert len(found(broken(A, make_break()), broken(B, other))) == count


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
    assert culprit.known == ["the model shows https://github.com/pytorch/pytorch/issues/123"]


KNOWN = """
[[known]]
issue = "TICKET-1"
aspect = "forward"
cases = "*-cpu-*"
match = "output .*root mean square"
workaround = "config.x = False"

[[known]]
issue = "TICKET-2"
match = "never seen"
workaround = "config.y = False"

[[known]]
issue = "TICKET-3"
cases = "*-cuda-*"
"""


@pytest.fixture
def known(tmp_path):
    (tmp_path / "known.toml").write_text(KNOWN)
    return read([tmp_path / "known.toml"])


def test_an_entry_of_the_team_joins_and_names_the_failures_that_it_matches(known):
    seen = culprits(failures(wrong(A), wrong(B), broken(A, make_break())), known)
    assert [culprit.cases for culprit in seen] == [[A, B], [A]]
    assert seen[0].known == ["TICKET-1; workaround: config.x = False"]
    label = "[known: TICKET-1; workaround: config.x = False]"
    assert str(seen[0]).startswith(f"forward: {label} call 1: output")
    assert str(seen[0]).endswith(f" ({A}, {B})")
    assert not seen[1].known


def test_an_entry_for_outputs_names_what_they_explain(tmp_path):
    (tmp_path / "known.toml").write_text('[[known]]\nissue = "T"\naspect = "forward"')
    gradients = make_checked(make_error("gradient weight", **WRONG))
    both = wrong(
        A.replace("infer", "train"), outputs=wrong(A).calls[0].outputs, gradients=gradients
    )
    (one,) = culprits(failures(both), read([tmp_path / "known.toml"]))
    assert (one.aspects, one.known) == (["forward", "gradients"], ["T"])


def test_an_entry_names_no_more_than_it_matches(tmp_path):
    (tmp_path / "known.toml").write_text('[[known]]\nissue = "T"\naspect = "gradients"')
    gradients = make_checked(make_error("gradient weight", **WRONG))
    both = wrong(
        A.replace("infer", "train"), outputs=wrong(A).calls[0].outputs, gradients=gradients
    )
    first, second = culprits(failures(both), read([tmp_path / "known.toml"]))
    assert (first.aspects, first.known) == (["forward"], [])
    assert (second.aspect, second.aspects, second.known) == ("gradients", ["gradients"], ["T"])


def test_an_entry_whose_cases_no_longer_fail_is_reported(known):
    red = [failure.verdict for failure in failures(wrong(A))]
    (line,) = unmatched(known, red)
    assert (
        "known.toml:9: names no failure of 1 case that it is about: check whether TICKET-2" in line
    )
    assert line.endswith("and remove the entry and the workaround")
    first, _ = unmatched(known, [make_verdict(case=A)])
    assert "known.toml:2: " in first
    skipped = Verdict(case=A, aspect="forward", outcome="skipped", summary="no GPU")
    assert unmatched(known, [skipped]) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[known]]", "missing required field `issue`"),
        ('[[known]]\nissue = "1"\nmach = "a"', "unknown field `mach`"),
        ('[[known]]\nissue = "1"\naspect = "foward"', "did you mean 'forward'"),
        ('\n[[known]]\nissue = "1"\nmatch = "("', "known.toml:2: match = '('"),
        ("[[known", "known.toml: "),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path, text, message):
    (tmp_path / "known.toml").write_text(text)
    with pytest.raises(BudgetError) as error:
        read([tmp_path / "known.toml"])
    assert message in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BudgetError, match="check --known"):
        read([tmp_path / "none.toml"])


def test_the_cases_of_a_culprit_are_folded():
    assert folded(["a", "b"]) == "a, b"
    assert folded(list("abcdef")) == "a, b, c and 3 more"


@pytest.mark.parametrize("again", [0, 7])
def test_each_break_of_a_case_keeps_its_own_name_in_reports(tmp_path, again):
    """Another run shows other numbers."""

    def found(number, *known):
        reasons = f"Call to `f({number})`", f"a branch on x.size(0) == {number}"
        return culprits(failures(broken(A, *map(make_break, reasons))), known)

    one, other = found(0)
    file = tmp_path / "culprits.toml"
    entries = (*known_entries(one, "first"), *known_entries(other, "second"))
    file.write_text("".join(entries), encoding="utf-8")
    seen = found(again, *read([file]))
    assert [(c.text, c.known) for c in seen] == [
        (c.text, [name]) for c, name in zip(found(again), ("first", "second"), strict=True)
    ]
