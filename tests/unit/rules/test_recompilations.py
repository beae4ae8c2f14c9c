"""The rule of recompilations: as many as the setting allows, simulated as Dynamo makes them."""

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.expected_failure import ExpectedFailure
from compilegate.judging.judge import judge
from compilegate.records.recompilations import total_of
from compilegate.reports.columns import figures_of
from compilegate.session.suite_fixtures import _message
from compilegate.suites import test_recompiles
from compilegate.suites.test_recompiles import allowed_by_setting
from tests.unit.making import (
    make_break,
    make_call,
    make_capture,
    make_compilation,
    make_observation,
    make_place,
)
from tests.unit.rules.common import assert_proposal_helps


def batches(*sizes, rest="same"):
    return [make_call(numbers={"input[0] dim 0": n, "input[0] dim 1": 8}, rest=rest) for n in sizes]


def texts(*sizes):
    """Batch and length, of two inputs that vary together."""
    return [
        make_call(
            numbers={
                "input.ids dim 0": batch,
                "input.ids dim 1": length,
                "input.mask dim 0": batch,
                "input.mask dim 1": length,
            }
        )
        for batch, length in sizes
    ]


def scalars(*values):
    return [make_call(numbers={"input[0] dim 0": 4, "input[1]": value}) for value in values]


ONE_AFTER_THE_OTHER = [(4, 24), (4, 24), (2, 24), (6, 24), (4, 16), (4, 40)]


@pytest.mark.parametrize(
    ("calls", "static", "auto", "dynamic", "marked"),
    [
        pytest.param(batches(4), 0, 0, 0, 0, id="one call"),
        pytest.param(batches(4, 4, 4), 0, 0, 0, 0, id="always the same"),
        pytest.param(batches(4, 4, 2), 1, 1, 0, 0, id="a second size"),
        pytest.param(batches(4, 4, 2, 6, 8), 3, 1, 0, 0, id="four sizes"),
        pytest.param(batches(4, 2, 4, 2, 4), 1, 1, 0, 0, id="back and forth"),
        pytest.param(texts(*ONE_AFTER_THE_OTHER), 4, 2, 0, 0, id="two names, one by one"),
        pytest.param(texts((4, 24), (2, 16), (6, 40)), 2, 1, 0, 0, id="two names at once"),
        pytest.param(batches(4) + batches(4, rest="other"), 1, 1, 1, 1, id="another kind of call"),
        pytest.param(
            batches(4, 2) + batches(4, 2, rest="other"), 3, 2, 1, 1, id="sizes of two kinds"
        ),
        pytest.param(
            batches(4) + batches(4, rest="other") + batches(2) + batches(6, rest="other"),
            *(3, 3, 1, 1),
            id="sizes of two kinds, by turns",
        ),
        pytest.param(
            batches(4) + batches(4, rest="other") + batches(4), 1, 1, 1, 1, id="there and back"
        ),
        pytest.param(scalars(2, 2), 0, 0, 0, 0, id="an equal number"),
        pytest.param(scalars(2, 3, 5), 2, 1, 0, 1, id="a Python number that varies"),
    ],
)
def test_recompilations_are_allowed_by_setting(calls, static, auto, dynamic, marked):
    settings = ("static", "auto", "dynamic", "marked")
    allowed = {setting: allowed_by_setting(setting, calls) for setting in settings}
    assert allowed == {"static": static, "auto": auto, "dynamic": dynamic, "marked": marked}


def test_numbers_that_not_all_calls_have_do_not_vary():
    """Calls with different arguments are of different kinds already."""
    calls = [
        make_call(numbers={"input[0] dim 0": 4}, rest="one"),
        make_call(numbers={"input[0] dim 0": 4, "input[1] dim 0": 7}, rest="two"),
    ]
    assert allowed_by_setting("auto", calls) == 1


def recompiled(dynamic, times, calls, **changed):
    code = make_place(12, "forward", "net.py")
    compilations = [make_compilation(0, code=code)]
    compilations += [
        make_compilation(i + 1, f"tensor 'x' size mismatch {i}", code) for i in range(times)
    ]
    return make_observation(
        case=f"tiny-cpu-infer-f32-default-{dynamic}",
        calls=tuple(calls),
        capture=make_capture(compilations=tuple(compilations), **changed),
    )


@pytest.mark.parametrize(("dynamic", "allowed"), [("static", 2), ("auto", 1), ("dynamic", 0)])
def test_recompiling_once_too_often_fails_and_shows_why(dynamic, allowed):
    calls = batches(4, 2, 6)
    assert test_recompiles.rule(recompiled(dynamic, allowed, calls), Budget()).outcome == "passed"
    observation = recompiled(dynamic, allowed + 1, calls)
    finding = test_recompiles.rule(observation, Budget())
    assert finding.outcome == "failed"
    assert finding.summary == (
        f"{allowed + 1} recompilation{'s' * bool(allowed)} of one code object, "
        f"{allowed} allowed for {dynamic!r}"
    )
    assert finding.details[0] == "net.py:12 in forward, call 2: tensor 'x' size mismatch 0"
    assert finding.proposal == {"recompiles": 1}
    assert_proposal_helps(test_recompiles.rule, observation, Budget())


def test_proposed_recompiles_do_not_include_those_of_the_setting():
    observation = recompiled("auto", 4, batches(4, 2))
    assert test_recompiles.rule(observation, Budget(recompiles=1)).proposal == {"recompiles": 3}
    assert_proposal_helps(test_recompiles.rule, observation, Budget(recompiles=1))


def test_guards_that_are_known_to_fail_do_not_count_and_others_do():
    observation = recompiled("dynamic", 2, batches(4, 2, 6))
    one = test_recompiles.rule(observation, Budget(recompile_guards=("mismatch 0",)))
    assert one.outcome == "failed"
    assert one.summary == (
        "1 recompilation of one code object, 0 allowed for 'dynamic', "
        "not counting 1 whose guards are known to fail"
    )
    both = Budget(recompile_guards=("mismatch 0", "mismatch 1"))
    assert test_recompiles.rule(observation, both).outcome == "passed"


def test_recompilations_count_per_code_object():
    """A graph break compiles two code objects: neither is a recompilation."""
    compilations = [make_compilation(0, code=make_place(line)) for line in (1, 2, 3)]
    observation = make_observation(capture=make_capture(compilations=tuple(compilations)))
    assert test_recompiles.rule(observation, Budget()).outcome == "passed"


@pytest.mark.parametrize(
    ("compiled", "most", "others"),
    [
        ([(0, "0/0"), (0, "1/0")], 0, ""),
        ([(0, "0/0"), (0, "1/0"), (1, "0/1"), (2, "0/2")], 2, ""),
        (
            [(0, "0/0"), (0, "1/0"), (1, "0/1"), (2, "0/2"), (2, "1/1")],
            2,
            "; 3 of all code objects",
        ),
        ([(0, "0/0"), (1, "1/0"), (2, "2/0")], 2, ""),
    ],
    ids=["two at one place", "one of them again", "both again", "new in each call"],
)
def test_two_code_objects_of_one_place_are_counted_apart(compiled, most, others):
    made = tuple(make_compilation(call, compile_id=number) for call, number in compiled)
    observation = make_observation(capture=make_capture(compilations=made))
    summary = test_recompiles.rule(observation, Budget()).summary
    assert summary.startswith(f"{most} recompilations of one code object, 0 allowed for")
    assert summary.partition("allowed for 'static'")[2] == others
    assert figures_of(observation).values["recompiles"] == total_of(observation.capture)


def test_skipped_frames_are_no_recompilations():
    compilations = (
        make_compilation(0),
        make_compilation(0, graph=False),
        make_compilation(1, graph=False),
    )
    observation = make_observation(capture=make_capture(compilations=compilations))
    assert test_recompiles.rule(observation, Budget()).outcome == "passed"


def test_a_recompile_limit_fails_whatever_the_budget():
    limit = "Dynamo recompile limit exceeded"
    observation = recompiled("static", 0, batches(4), limits=(limit,))
    finding = test_recompiles.rule(observation, Budget(recompiles=100))
    assert finding.outcome == "failed"
    assert finding.summary == f"recompile limit hit: {limit}"
    first, *explained = finding.details
    assert first == limit
    assert all(line.startswith("  ") for line in explained)
    assert not finding.proposal


def test_a_recompile_limit_shows_the_guard_that_failed_each_time():
    limit = "Dynamo recompile limit exceeded"
    observation = recompiled("static", 8, batches(4), limits=(limit,))
    first, *guards, _, _, _, _ = test_recompiles.rule(observation, Budget()).details
    assert first == limit
    assert guards == [
        f"  net.py:12 in forward, call {i + 2}: tensor 'x' size mismatch {i}" for i in range(8)
    ]


def test_a_recompile_limit_shows_its_line_once_and_the_way_out():
    limit = "Dynamo recompile limit exceeded"
    observation = recompiled("static", 8, batches(4), limits=(limit,))
    judgement = judge(observation, Budget(), "recompiles", test_recompiles.rule)
    shown = _message(judgement, "", is_brief=False)
    assert shown.count(limit) == 1
    assert "no budget key allows it" in shown
    assert '[[expected_failure]] with aspect = "recompiles"' in shown


@pytest.mark.parametrize(
    ("match", "outcome"), [("limit exceeded", "expected_failure"), ("breaks", "failed")]
)
def test_an_expected_recompile_limit_is_matched_by_its_message(match, outcome):
    observation = recompiled("static", 8, batches(4), limits=("recompile limit exceeded",))
    known = ExpectedFailure(aspect="recompiles", reason="known", match=match)
    budget = Budget(expected_failures=(known,))
    assert judge(observation, budget, "recompiles", test_recompiles.rule).verdict.outcome == outcome


def test_only_the_code_that_recompiled_too_often_is_shown():
    quiet, loud = make_place(1, "quiet"), make_place(2, "loud")
    compilations = (
        make_compilation(0, code=quiet),
        make_compilation(0, code=loud),
        make_compilation(1, "because", loud),
    )
    observation = make_observation(capture=make_capture(compilations=compilations))
    details = test_recompiles.rule(observation, Budget()).details
    assert details == ("net.py:2 in loud, call 2: because",)


@pytest.mark.parametrize(
    ("comment", "code"),
    [
        ("", ()),
        (" # rk/zoo.py:5 in forward", ()),
        (' # return x + k["a"] # rk/zoo.py:5 in forward', ('  return x + k["a"]',)),
        (" # x = f(x)  # nn/f.py:9 in f (_dynamo/utils.py:3 in run)", ("  x = f(x)",)),
        (" # (unknown source k['a'], please file a bug)", ()),
        (
            " # (_inductor/choose.py:5 in mm) and (_inductor/cpp.py:9 in sums)",
            (
                "  Inductor compiles other code for other sizes: _inductor/choose.py:5 in mm"
                " and _inductor/cpp.py:9 in sums",
            ),
        ),
        (
            " # (_functorch/_aot_autograd/autograd_cache.py:14 in evaluate_guards)",
            ("  PyTorch's cache has this guard without its line: --cold names it",),
        ),
    ],
)
def test_a_guard_is_shown_without_the_cut_path_and_with_its_code_below(comment, code):
    again = make_compilation(1, f"0/0: k['a'] == 0.0{comment}")
    observation = make_observation(capture=make_capture(compilations=(make_compilation(0), again)))
    details = test_recompiles.rule(observation, Budget()).details
    assert details == ("net.py:10 in forward, call 2: 0/0: k['a'] == 0.0", *code)


def test_a_size_that_static_never_compiled_for_fails():
    sizes = [{"input[0] dim 0": size} for size in (8, 8, 4)]
    calls = tuple(make_call(numbers=n, sizes={"batch": n["input[0] dim 0"]}) for n in sizes)
    once_only = make_observation(calls=calls)
    finding = test_recompiles.rule(once_only, Budget())
    assert finding.outcome == "failed"
    assert finding.summary == "call 3 (batch=4): ran eagerly: nothing was compiled for these sizes"
    refused = make_capture(fallbacks=(make_break("no fake tensor", ""),))
    why = test_recompiles.rule(make_observation(calls=calls, capture=refused), Budget()).details[-1]
    assert why == "  no fake tensor at net.py:10 in forward (model)"
    again = make_capture(compilations=(make_compilation(call=0), make_compilation(call=2)))
    healthy = make_observation(calls=calls, capture=again)
    assert test_recompiles.rule(healthy, Budget()).outcome == "passed"


AUTO = "net-cpu-infer-f32-default-auto"


@pytest.mark.parametrize(
    ("compiled", "outcome"), [((0,), "failed"), ((0, 1), "passed"), ((0, 1, 2), "failed")]
)
def test_auto_compiles_for_the_second_size_and_for_no_third(compiled, outcome):
    calls = tuple(
        make_call(numbers={"input[0] dim 0": size}, sizes={"batch": size}) for size in (8, 4, 2)
    )
    capture = make_capture(compilations=tuple(make_compilation(call=call) for call in compiled))
    finding = test_recompiles.rule(
        make_observation(case=AUTO, calls=calls, capture=capture), Budget()
    )
    assert finding.outcome == outcome
    if len(compiled) == 1:
        assert finding.summary == (
            "call 2 (batch=4): ran eagerly: nothing was compiled for these sizes"
        )


def test_a_model_that_marks_its_dimensions_compiles_once_under_auto():
    calls = tuple(
        make_call(numbers={"input[0] dim 0": size}, sizes={"batch": size}) for size in (8, 4, 2)
    )
    capture = make_capture(compilations=(make_compilation(call=0, symbolic=True),))
    made = make_observation(case=AUTO, calls=calls, capture=capture)
    assert test_recompiles.rule(made, Budget()).outcome == "passed"


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [((4, 4, 4), "no input has a dimension batch: no other size was tried"), ((4, 4, 2), "")],
)
def test_sizes_that_no_input_takes_are_named(shapes, expected):
    calls = tuple(
        make_call(numbers={"input[0] dim 0": shape}, sizes={"batch": size, "length": 8})
        for shape, size in zip(shapes, (4, 4, 2), strict=True)
    )
    capture = make_capture(compilations=(make_compilation(call=0), make_compilation(call=2)))
    case = "resnet18-cpu-infer-f32-default-auto"
    finding = test_recompiles.rule(
        make_observation(case=case, calls=calls, capture=capture), Budget(recompiles=1)
    )
    assert finding.outcome == "passed"
    assert finding.summary.partition("; ")[2] == expected


@pytest.mark.parametrize(
    ("dynamic", "sizes", "is_hinted"),
    [("dynamic", (8, 4), True), ("dynamic", (6, 8), False), ("auto", (8, 4, 2), False)],
    ids=["equal in the first call", "equal later", "each dimension by itself"],
)
def test_a_size_that_is_equal_by_accident_explains_a_recompilation(dynamic, sizes, is_hinted):
    found = test_recompiles.rule(recompiled(dynamic, 2, batches(*sizes)), Budget())
    assert found.outcome == "failed"
    hint = "in the first call, input[0] dim 0 and input[0] dim 1 are both 8"
    assert any(hint in line for line in found.details) == is_hinted
