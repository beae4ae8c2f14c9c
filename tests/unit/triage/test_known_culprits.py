"""A team's file of known culprits names failures, and changes no verdict."""

from dataclasses import replace

import msgspec
import pytest

from compilegate.culprits.grouping import Failure, culprits
from compilegate.culprits.known import Known, read, unmatched
from compilegate.judging.budgets import BudgetError
from compilegate.records.verdict import Verdict
from compilegate.triage.steps.causes import known_entries
from tests.unit.failing import WRONG, A, B, broken, failures, wrong
from tests.unit.making import (
    make_break,
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


def test_an_entry_does_not_name_an_expected_failure_that_passes(known):
    passed = make_verdict(
        case=A, outcome="failed", summary="expected to fail, but passed: was wrong (OLD)"
    )
    everything = [msgspec.structs.replace(known[0], match="")]
    (one,) = culprits([Failure(make_observation(case=A), passed)], everything)
    assert not one.known
    (line,) = unmatched(everything, [passed])
    assert line.endswith("check whether TICKET-1 is fixed, and remove the entry and the workaround")
    still = [each for each in failures(wrong(A)) if each.verdict.aspect == "forward"]
    assert culprits(still, everything)[0].known == [everything[0].title]


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


ELSEWHERE = make_break(place=make_place(10, "forward", "other.py"))
SAID = "LoweringError: no loops over a tensor of this layout"


def guarded(case, variable):
    """A case that is compiled again for a variable, which a line of the model reads."""
    reason = f"0/0: {variable} == 1  # return x * {variable}  # t/net.py:12 in forward"
    code = {"guarded_at": "pkg/net.py:12", "graph": True}
    items = (make_compilation(0), make_compilation(1, reason, **code))
    return make_observation(case=case, capture=make_capture(compilations=items))


def raising(case, message):
    return make_failed_observation("raised", case, kind="LoweringError", message=message)


@pytest.mark.parametrize("again", [0, 7])
def test_each_break_of_a_case_keeps_its_own_name_in_reports(tmp_path, again):
    """Another run shows other numbers."""

    def found(number, *known):
        reasons = f"Call to `f({number})`", f"a branch on x.size(0) == {number}"
        breaks = (make_break(r, place=make_place(n)) for n, r in enumerate(reasons, 10))
        return culprits(failures(broken(A, *breaks)), known)

    one, other = found(0)
    file = tmp_path / "culprits.toml"
    entries = (*known_entries(one, "first"), *known_entries(other, "second"))
    file.write_text("".join(entries), encoding="utf-8")
    seen = found(again, *read([file]))
    assert [(c.text, c.known) for c in seen] == [
        (c.text, [name]) for c, name in zip(found(again), ("first", "second"), strict=True)
    ]


def test_another_failure_of_a_known_case_is_not_taken_for_the_known_one(tmp_path):
    (scaled,) = culprits(failures(wrong(A)))
    file = tmp_path / "culprits.toml"
    file.write_text("".join(known_entries(scaled, "a wrong scale")), encoding="utf-8")
    (again,) = culprits(failures(wrong(A)), read([file]))
    assert again.known == ["a wrong scale"]
    nan = make_checked(make_error(), differences=[make_difference(what="nonfinite")])
    (other,) = culprits(failures(wrong(A, outputs=nan)), read([file]))
    assert other.known == []


def test_wrong_numbers_elsewhere_in_a_known_case_are_another_failure(tmp_path):
    (scaled,) = culprits(failures(wrong(A)))
    file = tmp_path / "culprits.toml"
    file.write_text("".join(known_entries(scaled, "a wrong output")), encoding="utf-8")
    elsewhere = make_checked(make_error("input[0]", **WRONG))
    found = culprits(failures(wrong(A, state=elsewhere)), read([file]))
    assert [culprit.known for culprit in found] == [[]]


@pytest.mark.parametrize(("message", "is_known"), [("no loops", True), ("no dtype", False)])
def test_a_case_that_raises_has_one_entry_for_all_of_its_aspects(tmp_path, message, is_known):
    def raising(said):
        return failures(make_failed_observation("raised", A, kind="LoweringError", message=said))

    (culprit,) = culprits(raising("no loops"))
    assert len(culprit.aspects) > 1
    (entry,) = known_entries(culprit, "TICKET-9")
    file = tmp_path / "culprits.toml"
    file.write_text(entry, encoding="utf-8")
    (seen,) = culprits(raising(message), read([file]))
    assert seen.known == ["TICKET-9"] * is_known


def test_an_entry_names_a_case_of_which_nothing_is_compiled_whichever_aspect_says_so(tmp_path):
    capture = make_capture(graphs=0, breaks=(make_break(),))
    (said,) = failures(make_observation(case=A, capture=capture))
    (culprit,) = culprits([said])
    (entry,) = known_entries(culprit, "TICKET-9")
    file = tmp_path / "culprits.toml"
    file.write_text(entry, encoding="utf-8")
    other = said._replace(verdict=replace(said.verdict, aspect="speedup"))
    (again,) = culprits([other], read([file]))
    assert again.known == ["TICKET-9"]
    capture = make_capture(graphs=0, breaks=(make_break("Call to `input`"),))
    (unknown,) = culprits(failures(make_observation(case=A, capture=capture)), read([file]))
    assert unknown.known == []


@pytest.mark.parametrize(
    ("fails", "other"),
    [
        (lambda case: broken(case, make_break()), lambda case: broken(case, ELSEWHERE)),
        (lambda case: guarded(case, "self.n"), lambda case: guarded(case, "self.other")),
        (
            lambda case: raising(case, SAID),
            lambda case: raising(case, "no room for a tensor at all"),
        ),
    ],
    ids=["a break", "a guard", "an exception"],
)
def test_an_entry_names_the_same_cause_in_a_model_that_comes_later(tmp_path, fails, other):
    """A place or a message tells the cause, so the entry lists no cases."""
    (culprit,) = culprits(failures(fails(A)))
    entries = [*known_entries(culprit, "TICKET-9")]
    assert all('cases = ["*"]' in entry for entry in entries)
    file = tmp_path / "culprits.toml"
    file.write_text("".join(entries), encoding="utf-8")
    later = "two-cuda-train-bf16-default-auto"
    (again,) = culprits(failures(fails(later)), read([file]))
    assert again.known == ["TICKET-9"]
    (unknown,) = culprits(failures(other(later)), read([file]))
    assert unknown.known == []


def test_an_entry_of_wrong_numbers_lists_its_cases(tmp_path):
    """Another model with wrong numbers may have another cause."""
    (culprit,) = culprits(failures(wrong(A)))
    assert all(f'cases = ["{A}"]' in entry for entry in known_entries(culprit, "TICKET-9"))


def test_an_entry_keeps_the_workaround_of_the_team(tmp_path):
    known = [Known(issue="TICKET-1", workaround="config.x = False")]
    (culprit,) = culprits(failures(wrong(A)), known)
    file = tmp_path / "culprits.toml"
    file.write_text("".join(known_entries(culprit, culprit.issue)), encoding="utf-8")
    assert [entry.workaround for entry in read([file])] == ["config.x = False"]


@pytest.mark.parametrize("status", ["raised", "crashed", "timed_out"])
def test_an_entry_with_an_aspect_names_no_case_that_ended_early(tmp_path, status):
    cases = [A, A.replace("infer", "train")]
    ended = [make_failed_observation(status, case, kind="InductorError") for case in cases]
    known = [Known(issue="TICKET-1", aspect="forward", cases="*-infer-*")]
    (culprit,) = culprits(failures(*ended), known)
    assert (culprit.cases, culprit.known) == (cases, [])
    (named,) = culprits(failures(wrong(A)), known)
    assert named.known == ["TICKET-1"]
    known = [Known(issue="TICKET-1", cases="*-infer-*")]
    assert [one.known for one in culprits(failures(*ended), known)] == [["TICKET-1"], []]
    (tmp_path / "culprits.toml").write_text("".join(known_entries(culprit, "TICKET-9")))
    (again,) = culprits(failures(*ended), read([tmp_path / "culprits.toml"]))
    assert again.known == ["TICKET-9"], "what triage writes names it again"
