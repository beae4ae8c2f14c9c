"""What became of programs, and the file from which a stopped run goes on."""

import msgspec
import pytest

from compilegate.fuzzing import summary
from compilegate.fuzzing.generate import generate
from compilegate.fuzzing.outcome import outcome_of
from compilegate.fuzzing.state import FILE, Done, Finding, Header, State, StateError
from tests.unit.making import (
    make_call,
    make_checked,
    make_difference,
    make_error,
    make_failed_observation,
    make_observation,
)

HEADER = Header(seed=1, inductor_share=0.5, torch="2.15.0")


def done(number, word="passed"):
    return Done(number=number, backend="inductor", word=word, seconds=2.0)


def finding(index=1, kind="values", what="", **changed):
    fields = {"stage": "inductor", "line": "call 1: output differs", "alone": True, "seed": 0}
    program = generate(1, index)
    return Finding(
        index=index, number=index, kind=kind, what=what, program=program, **fields | changed
    )


def test_a_run_goes_on_where_it_stopped(tmp_path):
    state = State(tmp_path, HEADER)
    assert state.numbers(3) == [0, 1, 2]
    state.add(done(0))
    state.add(done(2, "failed"))
    state.add(finding())
    state.close()
    again = State(tmp_path, HEADER)
    assert again.numbers(3) == [1, 3, 4]
    assert again.words == {"passed": 1, "failed": 1}
    assert again.findings == [finding()]


def test_a_line_that_was_not_finished_is_dropped(tmp_path):
    state = State(tmp_path, HEADER)
    state.add(done(0))
    state.close()
    path = tmp_path / FILE
    path.write_text(path.read_text() + '{"record":"program","num')
    again = State(tmp_path, HEADER)
    again.add(done(1))
    again.close()
    assert State(tmp_path, HEADER).numbers(1) == [2]


def test_a_line_may_hold_other_ends_of_lines(tmp_path):
    state = State(tmp_path, HEADER)
    state.add(finding(line="call 1:\u2028output differs"))
    state.close()
    assert State(tmp_path, HEADER).findings == [finding(line="call 1:\u2028output differs")]


def test_two_runs_do_not_write_to_one_folder(tmp_path):
    state = State(tmp_path, HEADER)
    with pytest.raises(StateError, match="another run writes"):
        State(tmp_path, HEADER)
    state.close()
    State(tmp_path, HEADER).close()


def test_another_run_is_not_continued(tmp_path):
    State(tmp_path, HEADER).close()
    other = msgspec.structs.replace(HEADER, inductor_share=0.25, torch="2.16.0")
    differing = f"--inductor-share {HEADER.inductor_share}, not 0.25 and torch {HEADER.torch}, not"
    with pytest.raises(StateError, match=f"another run, with {differing} 2.16.0; choose"):
        State(tmp_path, other)
    State(tmp_path, HEADER).close()


def test_a_culprit_is_known_by_stage_kind_and_operators(tmp_path):
    state = State(tmp_path, HEADER)
    one = finding()
    state.add(one)
    operators = {*one.program.operators, "another"}
    assert state.known("values", "inductor", "", operators) == one
    assert state.known("values", "aot_eager", "", operators) is None
    assert state.known("integers", "inductor", "", operators) is None
    assert state.known("values", "inductor", "", {"another"}) is None


def test_errors_of_one_message_are_one_culprit(tmp_path):
    state = State(tmp_path, HEADER)
    state.add(finding(kind="raises", what="LoweringException: no"))
    assert state.known("raises", "inductor", "LoweringException: no", set()) is not None
    assert state.known("raises", "inductor", "KeyError", set()) is None


def test_programs_that_show_a_finding_again_are_counted_also_after_a_stop(tmp_path):
    state = State(tmp_path, HEADER)
    state.add(finding(state.next_index()))
    state.add(Done(number=0, backend="inductor", word="again", finding=1))
    state.close()
    again = State(tmp_path, HEADER)
    assert again.again == {1: 1}
    assert again.next_index() == 2
    assert summary.rows(again)[0]["again"] == 1


def test_the_summary_has_a_row_for_each_finding(tmp_path):
    state = State(tmp_path, HEADER)
    state.add(done(0, "failed"))
    state.add(finding(1, kind="raises", what="KeyError"))
    state.add(finding(2))
    text = summary.markdown(state)
    assert [row["finding"] for row in summary.rows(state)] == [2, 1]  # silent ones first
    assert "inductor: 1 program in" in text
    assert text.count("call 1: output differs") == 2


@pytest.mark.parametrize(
    ("groups", "kind"),
    [
        ({"outputs": make_checked(make_error(compiled_rms=0.1, compiled_max=0.2))}, "values"),
        ({"outputs": make_checked(make_error(), differences=[make_difference()])}, "layout"),
        (
            {"outputs": make_checked(make_error(), differences=[make_difference(what="elements")])},
            "integers",
        ),
        (
            {"gradients": make_checked(make_error("gradient w", compiled_rms=0.1))},
            "gradients",
        ),
        (
            {"state": make_checked(make_error("input[0]", compiled_rms=0.1))},
            "state",
        ),
    ],
)
def test_the_suites_judge_a_program(groups, kind):
    outcome = outcome_of(make_observation(calls=(make_call(**groups),)))
    assert outcome.word == "failed"
    assert outcome.symptom.kind == kind


def test_an_assertion_about_other_nodes_is_the_same_error():
    """As seen: ``index_fill`` in torch 2.11, once for each node that it may read."""
    what = set()
    for node, names in (("permute", "arg0_1, arg1_1"), ("empty", "primals_2, tangents_1")):
        message = f"AssertionError: n=copy_, n.args[0]={node}, placeholders={{{names}}}"
        failed = make_failed_observation("raised", call="call 1", message=message)
        what.add(outcome_of(failed).symptom.what)
    other = make_failed_observation("raised", call="call 1", message="AssertionError: no kernel")
    assert len(what) == 1
    assert outcome_of(other).symptom.what not in what


def test_a_healthy_program_passes():
    assert outcome_of(make_observation(calls=(make_call(),))).word == "passed"


@pytest.mark.parametrize(
    ("status", "failure", "word", "kind"),
    [
        ("raised", {"stage": "compile", "call": "call 1"}, "failed", "raises"),
        ("raised", {"stage": "eager"}, "invalid", None),
        ("crashed", {"stage": "compile", "kind": "SIGSEGV"}, "failed", "crash"),
        ("crashed", {"stage": "eager", "kind": "SIGSEGV"}, "invalid", None),
        ("timed_out", {"stage": "vary", "kind": "timeout"}, "failed", "hang"),
        ("timed_out", {"stage": "compile", "kind": "busy machine"}, "inconclusive", None),
        ("out_of_memory", {"stage": "compile"}, "inconclusive", None),
    ],
)
def test_a_program_that_does_not_end_is_judged(status, failure, word, kind):
    outcome = outcome_of(make_failed_observation(status, **failure))
    assert outcome.word == word
    assert (outcome.symptom.kind if outcome.symptom else None) == kind


def test_messages_that_differ_in_numbers_are_alike():
    one, other = (
        outcome_of(
            make_failed_observation(
                "raised", stage="compile", call="call 1", message=f"no buf{n} of 'x{n}' in /tmp/{n}"
            )
        )
        for n in (1, 2)
    )
    assert one.symptom.is_like(other.symptom)


def test_a_line_of_progress_counts_in_singular_and_plural(tmp_path):
    state = State(tmp_path, HEADER)
    state.add(done(0, "failed"))
    state.add(finding(1))
    assert summary.progress_line(state, 30).endswith(
        "1 program (1 failed); 1 finding, 1 of them silent"
    )
    state.add(finding(2, kind="raises", what="KeyError"))
    assert summary.progress_line(state, 30).endswith("2 findings, 1 of them silent")
