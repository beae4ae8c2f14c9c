"""Counts, numbers, memory and times: what is planted is found, and nothing where nothing is."""

import pytest

from tests.unit.making import (
    make_break,
    make_call,
    make_capture,
    make_checked,
    make_compilation,
    make_compile_time,
    make_difference,
    make_error,
    make_memory,
    make_observation,
    make_place,
    make_timing,
)
from tests.unit.runs import compared, effects


def capturing(**capture):
    return make_observation(capture=make_capture(**capture))


def breaking(*breaks, **capture):
    return capturing(breaks=breaks, **capture)


def both_ways(before, now):
    """The class of the change, and of the same change undone."""
    return compared(before, now).kind, compared(now, before).kind


# Graph breaks.

PRINTS = make_break()


@pytest.mark.parametrize(
    "other",
    [
        make_break(reason="Data-dependent branch", gb_id="GB0170"),
        make_break(place=make_place(function="attend")),
        make_break(place=make_place(file="layers.py")),
        make_break(reason="no id", gb_id=""),
    ],
)
def test_a_break_instead_of_another_is_new_though_the_number_is_the_same(other):
    result = compared(breaking(PRINTS), breaking(other))
    assert result.kind == "regressed"
    assert effects(result) == [("graph_breaks", "worse"), ("graph_breaks", "better")]
    assert result.changes[0].text.startswith("1 new graph break: ")
    assert str(other.place) in result.changes[0].text


@pytest.mark.parametrize(
    "same",
    [
        make_break(place=make_place(line=99)),
        make_break(reason="Call to `print`, as it is worded now"),
    ],
)
def test_a_break_that_moved_or_has_another_wording_is_the_same(same):
    assert compared(breaking(PRINTS), breaking(same)).kind == "unchanged"


def test_one_more_break_is_worse_and_one_less_is_better():
    assert both_ways(breaking(), breaking(PRINTS)) == ("regressed", "improved")
    (change,) = compared(breaking(PRINTS), breaking()).changes
    assert change.proposal == {"graph_breaks": []}
    other = make_break(reason="other", gb_id="")
    (change,) = compared(breaking(PRINTS, other), breaking(other)).changes
    assert change.proposal == {"graph_breaks": [{"reason": "other", "place": "net.py"}]}


def test_a_frame_left_to_eager_is_a_break():
    assert both_ways(breaking(), capturing(fallbacks=(PRINTS,))) == ("regressed", "improved")
    assert compared(breaking(PRINTS), breaking(PRINTS, fallbacks=(PRINTS,))).kind == "unchanged"


def test_counts_of_a_case_that_compiled_nothing_are_not_compared():
    assert compared(breaking(graphs=0), breaking(PRINTS)).kind == "unchanged"


# Recompilations.


def recompiling(times, *, line=10, function="forward", **capture):
    code = make_place(line=line, function=function)
    first = make_compilation(code=code)
    again = (make_compilation(i, f"size {i}", code=code) for i in range(1, times + 1))
    return capturing(compilations=(first, *again), **capture)


def test_more_recompilations_are_worse_and_fewer_better():
    assert both_ways(recompiling(1), recompiling(3)) == ("regressed", "improved")
    (change,) = compared(recompiling(1), recompiling(3)).changes
    assert change.text == "1 → 3 recompilations, most in net.py in forward"
    assert change.details == tuple(f"at call {i + 1}: size {i}" for i in (1, 2, 3))
    (change,) = compared(recompiling(3), recompiling(1)).changes
    assert change.text == "3 → 1 recompilation: its budget can be lower by 2"


def test_as_many_recompilations_elsewhere_pass():
    assert compared(recompiling(2), recompiling(2, line=50)).kind == "unchanged"
    assert compared(recompiling(2), recompiling(2, function="attend")).kind == "unchanged"


def test_a_limit_newly_hit_is_worse():
    assert both_ways(recompiling(2), recompiling(2, limits=("8 times",))) == (
        "regressed",
        "improved",
    )


def test_recompilations_over_other_sizes_are_not_compared():
    few = make_observation(wants=("capture",), capture=make_capture())
    many = recompiling(3)
    assert compared(few, many).kind == "unchanged"


# Differences and numbers.

DIFFERS = make_checked(make_error(), differences=[make_difference()])


def calling(**groups):
    return make_observation(calls=(make_call(**groups),) * 2)


@pytest.mark.parametrize(
    ("group", "aspect"),
    [("outputs", "forward"), ("gradients", "gradients"), ("state", "side_effects")],
)
def test_a_new_difference_is_worse_also_where_the_verdict_failed_before(group, aspect):
    both = make_checked(make_error(), differences=[make_difference(), make_difference("input[0]")])
    result = compared(calling(**{group: DIFFERS}), calling(**{group: both}))
    assert effects(result) == [(aspect, "worse")]
    assert "input[0]: stride, eager (2, 1), compiled (1, 4)" in result.reason
    assert both_ways(calling(), calling(**{group: DIFFERS})) == ("regressed", "improved")
    assert compared(calling(**{group: DIFFERS}), calling(**{group: DIFFERS})).changes == ()


@pytest.mark.parametrize(
    ("group", "aspect"),
    [("outputs", "forward"), ("gradients", "gradients"), ("state", "side_effects")],
)
def test_numbers_further_from_the_reference_are_worse_and_closer_better(group, aspect):
    wrong = calling(**{group: make_checked(make_error("x", compiled_rms=1e-5))})
    right = calling(**{group: make_checked(make_error("x"))})
    assert both_ways(right, wrong) == ("regressed", "improved")
    assert effects(compared(right, wrong)) == [(aspect, "worse")]
    assert "1 tensor further from the reference: x at call 1" in compared(right, wrong).reason
    assert "1e-05 → 1e-07" in compared(wrong, right).reason


def test_the_precision_of_the_case_decides_the_bounds():
    before, now = (
        calling(
            outputs=make_checked(
                make_error(dtype="bfloat16", eager_rms=4e-3, eager_max=2e-2, compiled_rms=rms)
            )
        )
        for rms in (4e-3, 7.9e-3)
    )
    assert compared(before, now, case="tiny-cpu-train-bf16-default-static").kind == "regressed"
    assert compared(before, now, case="tiny-cpu-train-f32-default-static").kind == "unchanged"


def test_eager_that_raises_is_a_regression_of_eager():
    raises = make_observation(calls=(make_call(), make_call(raised="ValueError: no")))
    assert both_ways(make_observation(), raises) == ("eager regressed", "improved")
    assert "eager raises now, in call 2: ValueError" in compared(make_observation(), raises).reason


# Memory and times.

MIB = 2**20


def remembering(compiled, eager=100):
    return make_observation(memory=make_memory(eager * MIB, compiled * MIB))


def test_a_lower_peak_is_better_with_the_budget_that_would_hold_it():
    (change,) = compared(remembering(100), remembering(60)).changes
    assert change.effect == "better"
    assert change.proposal == {"max_memory_ratio": 0.66}


def test_a_higher_peak_within_its_budget_leaves_it_open():
    result = compared(remembering(60), remembering(100))
    assert result.kind == "inconclusive"
    assert result.reason == "memory: peak memory looks higher: 1.7×, eager 1.0× (60 → 100 MiB)"


@pytest.mark.parametrize(("before", "now"), [(100, 95), (95, 100), (1.5, 0.9)])
def test_small_differences_of_memory_are_none(before, now):
    pair = (
        make_observation(memory=make_memory(100 * MIB, int(peak * MIB))) for peak in (before, now)
    )
    assert compared(*pair).changes == ()


def test_times_of_two_processes_are_indicative_both_ways():
    slow, fast = (
        make_observation(timing=make_timing(speedup), cold=True, compile_time=make_compile_time(s))
        for speedup, s in ((1.5, 6.0), (2.0, 4.0))
    )
    for before, now in ((slow, fast), (fast, slow)):
        result = compared(before, now)
        assert result.kind == "unchanged"
        assert effects(result) == [("compile_time", "note"), ("speedup", "note")]
        assert all("indicative" in change.text for change in result.changes)
        assert compared(before, now, times_compare=False).changes == ()
    assert "compiled calls take +33%, eager ones +0%" in compared(fast, slow).changes[1].text


def test_warm_compile_times_are_not_compared():
    pair = [make_observation(compile_time=make_compile_time(s)) for s in (4.0, 40.0)]
    assert compared(*pair).changes == ()
    half_cold = make_observation(compile_time=make_compile_time(40.0), cold=True)
    assert compared(pair[0], half_cold).changes == ()


def test_times_within_their_spread_are_no_difference():
    before, now = (
        make_observation(
            cold=True,
            compile_time=make_compile_time(seconds),
            timing=make_timing(speedup, spread=0.1),
        )
        for seconds, speedup in ((4.0, 2.0), (5.0, 2.1))
    )
    assert compared(before, now).changes == ()
