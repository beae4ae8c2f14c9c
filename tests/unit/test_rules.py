"""The suites' rules: the healthy passes, the faulty fails by name, with the right way out."""

import dataclasses

import pytest

from fixtures.budgets import ASPECTS, AllowedBreak, Budget
from fixtures.observation import Condition, Energy
from suites import (
    test_compile_time,
    test_cuda_graphs,
    test_energy,
    test_forward,
    test_gradients,
    test_graph_breaks,
    test_memory,
    test_randomness,
    test_recompiles,
    test_side_effects,
    test_speedup,
)
from suites.test_recompiles import allowed_by_setting
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
    make_randomness,
    make_timing,
)

SUITES = {
    "forward": test_forward,
    "gradients": test_gradients,
    "side_effects": test_side_effects,
    "randomness": test_randomness,
    "graph_breaks": test_graph_breaks,
    "recompiles": test_recompiles,
    "speedup": test_speedup,
    "compile_time": test_compile_time,
    "memory": test_memory,
    "cuda_graphs": test_cuda_graphs,
    "energy": test_energy,
}
STRICT = Budget(min_speedup=1.0, max_compile_s=60.0, max_memory_ratio=1.1, max_energy_ratio=1.1)
HEALTHY = make_observation(
    cold=True,
    timing=make_timing(2.0),
    memory=make_memory(),
    energy=Energy(eager_j=1.0, compiled_j=0.8),
    capture=make_capture(cudagraphs=2),
)
WRONG = make_error("output.logits", compiled_rms=1e-3, compiled_max=1e-2)
BLIND = make_error(eager_rms=0.5, eager_max=2.0, compiled_rms=0.5, compiled_max=2.0)


def once(**groups):
    return make_observation(calls=(make_call(**groups),))


def assert_proposal_helps(rule, observation, budget):
    """What --budgets-update would write makes the same observation pass."""
    finding = rule(observation, budget)
    assert finding.outcome == "failed"
    proposal = dict(finding.proposal)
    if "graph_breaks" in proposal:
        added = tuple(AllowedBreak(**table) for table in proposal["graph_breaks"])
        proposal["graph_breaks"] = (*budget.graph_breaks, *added)
    assert rule(observation, dataclasses.replace(budget, **proposal)).outcome == "passed"


def test_the_rules_here_are_those_of_all_aspects():
    assert {*SUITES, "upgrade"} == set(ASPECTS)  # of which tests/unit/test_upgrade.py is


@pytest.mark.parametrize("aspect", SUITES)
def test_a_healthy_observation_passes(aspect):
    finding = SUITES[aspect].rule(HEALTHY, STRICT)
    assert finding.outcome == "passed"
    assert finding.summary
    assert not finding.proposal


# Numbers.


def test_forward_names_the_output_and_the_call():
    finding = test_forward.rule(once(sizes={"batch": 4}, outputs=make_checked(WRONG)), Budget())
    assert finding.outcome == "failed"
    assert finding.summary.startswith("call 1 (batch=4): output.logits (float32): ")
    assert finding.details == (finding.summary,)
    assert not finding.proposal


def test_forward_fails_for_differences():
    checked = make_checked(make_error(), differences=[make_difference(what="dtype")])
    finding = test_forward.rule(once(outputs=checked), Budget())
    assert finding.outcome == "failed"
    assert "output[0]: dtype differs" in finding.summary


def test_forward_fails_where_nothing_was_returned():
    finding = test_forward.rule(once(outputs=make_checked()), Budget())
    assert finding.outcome == "failed"
    assert "returned no tensor" in finding.summary


def test_forward_fails_where_nothing_is_looked_into():
    opaque = dataclasses.replace(make_checked(tensors=1), opaque=("output (Holder)",))
    finding = test_forward.rule(once(outputs=opaque), Budget())
    assert finding.outcome == "failed"
    assert finding.summary.startswith("nothing in the outputs is looked into: output (Holder);")
    seen = dataclasses.replace(opaque, tensors=2)
    assert test_forward.rule(once(outputs=seen), Budget()).outcome == "passed"


def test_forward_says_that_an_output_is_nowhere_finite():
    nan = make_checked(make_error("output[1]", scale=0.0, numel=0))
    finding = test_forward.rule(once(outputs=nan), Budget())
    assert (finding.outcome, finding.summary) == (
        "inconclusive",
        "blind: output[1] is nowhere finite",
    )


def test_forward_fails_where_nothing_was_called():
    assert test_forward.rule(make_observation(calls=()), Budget()).outcome == "failed"


def test_forward_passes_integers_alone():
    assert test_forward.rule(once(outputs=make_checked(tensors=2)), Budget()).outcome == "passed"


def test_forward_is_inconclusive_where_every_output_is_blind():
    finding = test_forward.rule(once(outputs=make_checked(BLIND)), Budget())
    assert finding.outcome == "inconclusive"
    assert "blind" in finding.summary


def test_forward_is_inconclusive_where_an_output_is_blind():
    finding = test_forward.rule(once(outputs=make_checked(BLIND, make_error())), Budget())
    assert finding.outcome == "inconclusive"
    assert "blind: output" in finding.summary


def test_a_blind_output_does_not_hide_a_difference():
    checked = make_checked(BLIND, differences=[make_difference()])
    assert test_forward.rule(once(outputs=checked), Budget()).outcome == "failed"


def test_gradients_name_the_parameter():
    wrong = dataclasses.replace(WRONG, name="gradient fc.weight")
    finding = test_gradients.rule(once(gradients=make_checked(wrong)), Budget())
    assert finding.outcome == "failed"
    assert "gradient fc.weight (float32)" in finding.summary


@pytest.mark.parametrize("group", [make_checked(), make_checked(tensors=4)])
def test_gradients_are_skipped_where_eager_has_none(group):
    finding = test_gradients.rule(once(gradients=group), Budget())
    assert finding.outcome == "skipped"
    assert "nothing to differentiate" in finding.summary


def test_gradients_are_inconclusive_where_all_are_blind():
    zero = make_error(scale=0.0, eager_rms=0.0, eager_max=0.0, compiled_rms=0.0, compiled_max=0.0)
    finding = test_gradients.rule(once(gradients=make_checked(zero)), Budget())
    assert finding.outcome == "inconclusive"


def test_halved_gradients_fail():
    halved = make_error("gradient w", compiled_rms=0.5, compiled_max=2.0, compiled_projection=-0.5)
    assert test_gradients.rule(once(gradients=make_checked(halved)), Budget()).outcome == "failed"


def test_side_effects_name_the_input():
    lost = make_difference("buffer bn.running_mean", "value", "1.0 at [0]", "0.0 there")
    finding = test_side_effects.rule(
        once(state=make_checked(tensors=2, differences=[lost])), Budget()
    )
    assert finding.outcome == "failed"
    assert "buffer bn.running_mean: value differs" in finding.summary


def test_side_effects_pass_where_there_is_no_state():
    assert test_side_effects.rule(once(state=make_checked()), Budget()).outcome == "passed"


def test_many_complaints_are_shortened():
    wrong = [dataclasses.replace(WRONG, name=f"output[{i}]") for i in range(20)]
    finding = test_forward.rule(once(outputs=make_checked(*wrong)), Budget())
    assert finding.details[-1] == "… and 14 more"


# Graph breaks.

PRINT = make_break("Call to `print`", "GB0001", make_place(5, file="net.py"))
ITEM = make_break("Tensor.item()", "GB0002", make_place(9, file="timm/layers/pool.py"))


def broken(*breaks, **changed):
    return make_observation(capture=make_capture(breaks=breaks, **changed))


def test_a_break_is_named_by_reason_id_place_and_owner():
    finding = test_graph_breaks.rule(broken(PRINT), Budget())
    assert finding.outcome == "failed"
    assert finding.summary == (
        "1 graph break not budgeted: Call to `print` [GB0001] at net.py:5 in forward (model)"
    )
    assert finding.proposal == {"graph_breaks": [{"reason": PRINT.reason, "place": "net.py"}]}


def test_a_break_without_place_or_id_is_named_all_the_same():
    lost = dataclasses.replace(make_break("why", ""), place=None)
    finding = test_graph_breaks.rule(broken(lost), Budget())
    assert finding.summary == "1 graph break not budgeted: why"
    assert_proposal_helps(test_graph_breaks.rule, broken(lost), Budget())


def test_proposed_breaks_pass():
    again = dataclasses.replace(PRINT, place=make_place(50, file="net.py"))
    assert_proposal_helps(test_graph_breaks.rule, broken(PRINT, ITEM, again), Budget())


def test_a_proposal_keeps_the_breaks_that_it_would_replace():
    budget = Budget(graph_breaks=(AllowedBreak("print", "net.py"),))
    finding = test_graph_breaks.rule(broken(PRINT, ITEM), budget)
    assert finding.summary.startswith("1 graph break not budgeted: Tensor.item()")
    assert finding.proposal == {
        "graph_breaks": [
            {"reason": "Tensor.item()", "place": "timm/layers/pool.py"},
            {"reason": "print", "place": "net.py"},
        ]
    }
    assert_proposal_helps(test_graph_breaks.rule, broken(PRINT, ITEM), budget)


@pytest.mark.parametrize(
    ("allowed", "passes"),
    [
        (AllowedBreak("print", "net.py"), True),
        (AllowedBreak("print", ""), True),
        (AllowedBreak("", "net.py"), True),
        (AllowedBreak("", "pool.py"), False),
        (AllowedBreak("item", "net.py"), False),
        (AllowedBreak("print", "pool.py"), False),
    ],
)
def test_a_break_is_known_by_reason_and_place_together(allowed, passes):
    finding = test_graph_breaks.rule(broken(PRINT), Budget(graph_breaks=(allowed,)))
    assert (finding.outcome == "passed") == passes


def test_a_new_break_shows_even_where_an_old_one_went():
    """One break as before, but another one: a count would not see it."""
    budget = Budget(graph_breaks=(AllowedBreak("print", "net.py"),))
    assert test_graph_breaks.rule(broken(PRINT), budget).outcome == "passed"
    assert test_graph_breaks.rule(broken(ITEM), budget).outcome == "failed"


def test_a_budgeted_break_that_is_gone_is_no_failure():
    budget = Budget(graph_breaks=(AllowedBreak("print", "net.py"),))
    assert test_graph_breaks.rule(broken(), budget).outcome == "passed"


@pytest.mark.parametrize(("breaks", "outcome"), [((PRINT, ITEM), "passed"), ((), "passed")])
def test_so_many_breaks_besides_are_allowed(breaks, outcome):
    assert test_graph_breaks.rule(broken(*breaks), Budget(max_graph_breaks=2)).outcome == outcome
    more = (*breaks, *(make_break(f"another {i}") for i in range(3)))
    assert test_graph_breaks.rule(broken(*more), Budget(max_graph_breaks=2)).outcome == "failed"


def test_breaks_are_counted_in_the_summary():
    budget = Budget(graph_breaks=(AllowedBreak("print", ""),))
    assert test_graph_breaks.rule(broken(PRINT, graphs=2), budget).summary == (
        "2 graphs, 1 graph breaks (1 budgeted)"
    )


LSTM = make_break("nn.LSTM is skipped", "", make_place(30, "forward", "timm/rnn.py", "timm"))


def test_a_frame_that_is_left_to_eager_is_a_break_of_its_own():
    observation = broken(fallbacks=(LSTM,))
    finding = test_graph_breaks.rule(observation, Budget())
    assert finding.outcome == "failed"
    assert finding.summary == (
        "1 graph break not budgeted: nn.LSTM is skipped at timm/rnn.py:30 in forward (timm)"
    )
    assert_proposal_helps(test_graph_breaks.rule, observation, Budget())


def test_a_frame_that_is_left_to_eager_fails_also_beside_a_budgeted_break():
    budget = Budget(graph_breaks=(AllowedBreak("print", ""),))
    observation = broken(PRINT, fallbacks=(LSTM,))
    finding = test_graph_breaks.rule(observation, budget)
    assert finding.outcome == "failed"
    assert "nn.LSTM is skipped" in finding.summary
    assert_proposal_helps(test_graph_breaks.rule, observation, budget)


def test_a_frame_that_is_left_to_eager_for_its_own_break_is_that_break():
    frame = dataclasses.replace(PRINT, id="", place=make_place(3, file="net.py"))
    budget = Budget(max_graph_breaks=1)
    assert test_graph_breaks.rule(broken(PRINT, fallbacks=(frame,)), budget).outcome == "passed"


def test_a_frame_elsewhere_is_not_hidden_by_a_budgeted_break_of_the_same_reason():
    """A break is known by reason and place together."""
    frame = dataclasses.replace(PRINT, id="", place=make_place(3, file="timm/layers/pool.py"))
    budget = Budget(graph_breaks=(AllowedBreak("print", "net.py"),))
    assert test_graph_breaks.rule(broken(PRINT, fallbacks=(frame,)), budget).outcome == "failed"


# Recompilations.


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
        f"{allowed + 1} recompilations of one code object, {allowed} allowed for {dynamic!r}"
    )
    assert finding.details[0] == "net.py:12 in forward:"
    assert finding.details[1] == "  at call 2: tensor 'x' size mismatch 0"
    assert finding.proposal == {"recompiles": 1}
    assert_proposal_helps(test_recompiles.rule, observation, Budget())


def test_proposed_recompiles_are_besides_the_settings_own_and_not_added_twice():
    observation = recompiled("auto", 4, batches(4, 2))
    assert test_recompiles.rule(observation, Budget(recompiles=1)).proposal == {"recompiles": 3}
    assert_proposal_helps(test_recompiles.rule, observation, Budget(recompiles=1))


def test_guards_that_are_known_to_fail_do_not_count_and_others_do():
    observation = recompiled("dynamic", 2, batches(4, 2, 6))
    one = test_recompiles.rule(observation, Budget(recompile_guards=("mismatch 0",)))
    assert one.outcome == "failed"
    assert one.summary == (
        "1 recompilations of one code object, 0 allowed for 'dynamic', "
        "besides 1 whose guards are known to fail"
    )
    both = Budget(recompile_guards=("mismatch 0", "mismatch 1"))
    assert test_recompiles.rule(observation, both).outcome == "passed"


def test_recompilations_count_per_code_object():
    """A graph break compiles two code objects: neither is a recompilation."""
    compilations = [make_compilation(0, code=make_place(line)) for line in (1, 2, 3)]
    observation = make_observation(capture=make_capture(compilations=tuple(compilations)))
    assert test_recompiles.rule(observation, Budget()).outcome == "passed"


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
    assert not finding.proposal


def test_only_the_code_that_recompiled_too_often_is_shown():
    quiet, loud = make_place(1, "quiet"), make_place(2, "loud")
    compilations = (
        make_compilation(0, code=quiet),
        make_compilation(0, code=loud),
        make_compilation(1, "because", loud),
    )
    observation = make_observation(capture=make_capture(compilations=compilations))
    details = test_recompiles.rule(observation, Budget()).details
    assert details == ("net.py:2 in loud:", "  at call 2: because")


# Gradients that overflow.


def test_gradients_that_always_overflow_show_nothing():
    call = make_call(overflowed=True, gradients=make_checked())
    finding = test_gradients.rule(make_observation(calls=(call, call)), STRICT)
    assert finding.outcome == "inconclusive"
    assert "overflow in all 2 calls, in eager too" in finding.summary


def test_gradients_that_overflow_now_and_then_are_judged_by_the_other_calls():
    good = make_call(gradients=make_checked(make_error("gradient w")))
    call = make_call(overflowed=True, gradients=make_checked())
    finding = test_gradients.rule(make_observation(calls=(call, good)), STRICT)
    assert finding.outcome == "passed"
    assert "1 of which overflow as in eager" in finding.summary


# Speed.


def timed(speedup, **changed):
    return make_observation(timing=make_timing(speedup, **changed))


@pytest.mark.parametrize(
    ("speedup", "spread", "wanted", "outcome"),
    [
        (2.0, 0.0, 1.5, "passed"),
        (1.5, 0.0, 1.5001, "failed"),
        (1.0, 0.0, 1.5, "failed"),
        (1.5, 0.1, 1.5, "inconclusive"),
        (0.5, 0.1, 0.8, "failed"),
        (0.9, 0.01, 0.8, "passed"),
    ],
)
def test_speedup_is_judged_by_its_interval(speedup, spread, wanted, outcome):
    finding = test_speedup.rule(timed(speedup, spread=spread), Budget(min_speedup=wanted))
    assert finding.outcome == outcome
    assert f"at least {wanted:g}× wanted" in finding.summary


def test_too_slow_says_what_was_seen_and_proposes_less_than_the_interval():
    finding = test_speedup.rule(timed(1.0), Budget(min_speedup=1.5))
    assert finding.summary == "1.00× [1.00, 1.00] over 30 rounds, at least 1.5× wanted"
    assert finding.proposal == {"min_speedup": 0.9}
    assert_proposal_helps(test_speedup.rule, timed(1.0), Budget(min_speedup=1.5))
    assert_proposal_helps(test_speedup.rule, timed(0.37, spread=0.2), Budget(min_speedup=1.5))


def test_inconclusive_proposes_nothing():
    finding = test_speedup.rule(timed(1.5, spread=0.1), Budget(min_speedup=1.5))
    assert "the interval straddles it" in finding.summary
    assert not finding.proposal


def test_too_slow_on_a_busy_machine_is_inconclusive():
    busy = timed(1.0)
    busy = dataclasses.replace(busy, timing=dataclasses.replace(busy.timing, busy=0.5))
    finding = test_speedup.rule(busy, Budget(min_speedup=1.5))
    assert finding.outcome == "inconclusive"
    assert "others took 50% of the processor" in finding.summary
    assert test_speedup.rule(busy, Budget(min_speedup=0.9)).outcome == "passed"


def test_a_small_overhead_is_allowed_whatever_the_ratio():
    slower_by_100_us = timed(0.5, eager_ns=100e3)
    assert test_speedup.rule(slower_by_100_us, Budget(min_speedup=0.8)).outcome == "failed"
    allowing = Budget(min_speedup=0.8, max_call_overhead_us=100)
    finding = test_speedup.rule(slower_by_100_us, allowing)
    assert finding.outcome == "passed"
    assert "within 100 µs of overhead" in finding.summary
    tighter = Budget(min_speedup=0.8, max_call_overhead_us=99)
    assert test_speedup.rule(slower_by_100_us, tighter).outcome == "failed"


def test_overhead_is_no_excuse_where_a_speedup_is_wanted():
    budget = Budget(min_speedup=1.1, max_call_overhead_us=1000)
    assert test_speedup.rule(timed(0.9, eager_ns=100e3), budget).outcome == "failed"


def test_overhead_is_no_excuse_for_a_slow_model():
    budget = Budget(min_speedup=0.8, max_call_overhead_us=150)
    assert test_speedup.rule(timed(0.5, eager_ns=10e6), budget).outcome == "failed"


def under(*throttled):
    """Rounds that are fast enough, on a GPU of which NVML says this."""
    conditions = (
        Condition(sm_mhz=1980, temperature_c=40, power_w=300.0),
        Condition(sm_mhz=1200, temperature_c=88, power_w=650.0, throttled=throttled),
    )
    timing = dataclasses.replace(
        make_timing(2.0), conditions=conditions, items=32, compiled_kernels_ns=4e5
    )
    return test_speedup.rule(make_observation(timing=timing), STRICT)


def test_a_throttled_measurement_is_no_verdict():
    finding = under("hw_thermal_slowdown", "sw_power_cap")
    assert finding.outcome == "inconclusive"
    assert finding.summary.endswith("the GPU held its clocks down: hw_thermal_slowdown")


def test_a_gpu_that_draws_all_its_power_is_at_work():
    assert under("sw_power_cap").outcome == under().outcome == "passed"


def test_a_timing_is_described_side_by_side():
    assert under().details == (
        "eager: median 1 ms, p95 1 ms, 3.2e+04 items/s",
        "compiled: median 0.5 ms, p95 0.5 ms, 6.4e+04 items/s, kernels 0.4 ms",
        "GPU at 1200 to 1980 MHz, up to 88 °C and 650 W",
    )


# CUDA graphs.


def graphs(recorded, *skips):
    return make_observation(capture=make_capture(cudagraphs=recorded, cudagraph_skips=skips))


def test_running_without_the_graphs_that_a_mode_promises_is_a_failure():
    finding = test_cuda_graphs.rule(graphs(0, "skipping cudagraphs due to cpu device"), STRICT)
    assert finding.outcome == "failed"
    assert finding.summary == "runs without CUDA graphs: skipping cudagraphs due to cpu device"
    assert test_cuda_graphs.rule(graphs(0), STRICT).outcome == "failed"


def test_one_graph_skipped_of_several_is_a_failure_too():
    some = graphs(3, "skipping cudagraphs due to mutated inputs (1 instances)")
    assert test_cuda_graphs.rule(some, STRICT).outcome == "failed"
    assert_proposal_helps(test_cuda_graphs.rule, some, STRICT)


def test_a_reason_that_is_budgeted_may_skip_graphs():
    allowing = Budget(cudagraph_skips=("mutated inputs",))
    some = graphs(3, "skipping cudagraphs due to mutated inputs (1 instances)")
    assert test_cuda_graphs.rule(some, allowing).outcome == "passed"
    other = graphs(3, "skipping cudagraphs due to cpu device (x)")
    assert test_cuda_graphs.rule(other, allowing).outcome == "failed"


# Energy.


def test_energy_is_held_to_eagers():
    thirsty = make_observation(energy=Energy(eager_j=0.5, compiled_j=0.6))
    finding = test_energy.rule(thirsty, STRICT)
    assert finding.summary == "0.6 J a call, eager 0.5 J (1.20×), at most 1.1× allowed"
    assert finding.outcome == "failed"
    assert_proposal_helps(test_energy.rule, thirsty, STRICT)


def test_a_little_energy_may_be_wasted_whatever_the_ratio():
    thirsty = make_observation(energy=Energy(eager_j=0.01, compiled_j=0.05))
    allowing = Budget(max_energy_ratio=1.1, energy_slack_j=0.04)
    assert test_energy.rule(thirsty, allowing).outcome == "passed"
    assert test_energy.rule(thirsty, Budget(max_energy_ratio=1.1)).outcome == "failed"


def test_energy_that_nvml_does_not_tell_is_unavailable():
    finding = test_energy.rule(make_observation(energy=Energy(unavailable="NVML: …")), STRICT)
    assert (finding.outcome, finding.summary) == ("skipped", "unavailable: NVML: …")


# Compile time and memory.


def test_a_slow_compile_on_a_busy_machine_is_inconclusive():
    slow = dataclasses.replace(make_compile_time(90.0), busy=0.5)
    finding = test_compile_time.rule(make_observation(cold=True, compile_time=slow), STRICT)
    assert finding.outcome == "inconclusive"
    assert finding.summary.endswith("others took 50% of the processor")
    quick = dataclasses.replace(slow, total_s=50.0)
    finding = test_compile_time.rule(make_observation(cold=True, compile_time=quick), STRICT)
    assert finding.outcome == "passed"


def test_a_warm_compile_time_is_not_judged():
    observation = make_observation(cold=False, compile_time=make_compile_time(1000.0))
    finding = test_compile_time.rule(observation, STRICT)
    assert finding.outcome == "skipped"
    assert "not judged, compiled with a warm cache: 1000.0 s (dynamo 1.0" in finding.summary


def test_a_cold_compile_time_is_held_to_its_budget():
    observation = make_observation(cold=True, compile_time=make_compile_time(90.0))
    finding = test_compile_time.rule(observation, STRICT)
    assert finding.outcome == "failed"
    assert finding.summary.startswith("90.0 s (dynamo 1.0, aot 1.0, inductor 1.0, codegen 1.0)")
    assert finding.summary.endswith("at most 60 s allowed")
    assert finding.proposal == {"max_compile_s": 135.0}
    assert_proposal_helps(test_compile_time.rule, observation, STRICT)


@pytest.mark.parametrize(
    ("compiled", "slack", "outcome"),
    [
        (100, 0, "passed"),
        (110, 0, "passed"),
        (111, 0, "failed"),
        (111, 1, "passed"),
        (112, 1, "failed"),
        (10, 0, "passed"),
    ],
)
def test_peak_memory_is_held_to_ratio_and_slack(compiled, slack, outcome):
    observation = make_observation(memory=make_memory(100, compiled))
    budget = Budget(max_memory_ratio=1.1, memory_slack_bytes=slack)
    assert test_memory.rule(observation, budget).outcome == outcome


def test_too_much_memory_says_how_much_and_proposes_the_ratio():
    observation = make_observation(memory=make_memory(100 * 2**20, 200 * 2**20))
    finding = test_memory.rule(observation, STRICT)
    assert finding.summary == "peak 200.0 MiB, eager 100.0 MiB (2.00×), at most 1.1× allowed"
    assert finding.proposal == {"max_memory_ratio": 2.2}
    assert_proposal_helps(test_memory.rule, observation, STRICT)


def test_memory_where_eager_allocates_nothing():
    nothing = make_observation(memory=make_memory(0, 0))
    something = make_observation(memory=make_memory(0, 4096))
    assert test_memory.rule(nothing, STRICT).outcome == "passed"
    finding = test_memory.rule(something, STRICT)
    assert finding.outcome == "failed"
    assert finding.proposal == {}
    slack = dataclasses.replace(STRICT, memory_slack_bytes=4096)
    assert test_memory.rule(something, slack).outcome == "passed"


@pytest.mark.parametrize(
    ("aspect", "key"),
    [
        ("speedup", "min_speedup"),
        ("compile_time", "max_compile_s"),
        ("memory", "max_memory_ratio"),
    ],
)
def test_without_threshold_nothing_is_judged_and_the_reason_said(aspect, key):
    finding = SUITES[aspect].rule(HEALTHY, Budget())
    assert finding.outcome == "skipped"
    assert "not judged, no threshold: " in finding.summary
    finding = SUITES[aspect].rule(HEALTHY, Budget(elsewhere={key: "NVIDIA H200"}))
    assert finding.outcome == "skipped"
    assert "not judged, the threshold is for NVIDIA H200: " in finding.summary


def test_a_size_that_static_never_compiled_for_fails():
    sizes = [{"input[0] dim 0": size} for size in (8, 8, 4)]
    calls = tuple(make_call(numbers=n, sizes={"batch": n["input[0] dim 0"]}) for n in sizes)
    once_only = make_observation(calls=calls)
    finding = test_recompiles.rule(once_only, Budget())
    assert finding.outcome == "failed"
    assert finding.summary == "call 3 (batch=4): ran eagerly, nothing compiled for its sizes"
    again = make_capture(compilations=(make_compilation(call=0), make_compilation(call=2)))
    healthy = make_observation(calls=calls, capture=again)
    assert test_recompiles.rule(healthy, Budget()).outcome == "passed"


def test_a_frame_that_raises_as_eager_does_is_no_break():
    observed = make_break("Observed exception")
    calls = (make_call(), make_call(raised="ValueError: no"))
    raising = make_observation(calls=calls, capture=make_capture(fallbacks=(observed, PRINT)))
    finding = test_graph_breaks.rule(raising, Budget())
    assert finding.outcome == "failed"
    assert finding.summary.startswith("1 graph break not budgeted: Call to `print`")
    quiet = make_observation(calls=calls, capture=make_capture(fallbacks=(observed,)))
    assert test_graph_breaks.rule(quiet, Budget()).outcome == "passed"
    silent = make_observation(capture=make_capture(fallbacks=(observed,)))
    assert test_graph_breaks.rule(silent, Budget()).outcome == "failed"


# Randomness.


def drawn(**changed):
    return make_observation(draws=True, randomness=make_randomness(**changed))


def test_the_same_statistics_on_both_sides_pass():
    assert test_randomness.rule(drawn(), Budget()).outcome == "passed"


def test_what_draws_nothing_passes_and_says_so():
    finding = test_randomness.rule(make_observation(), Budget())
    assert (finding.outcome, finding.summary) == ("passed", "draws no random numbers")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"repeats": 6}, "compiled calls repeat each other: 6 pairs of 24 calls"),
        ({"spreads": (0.0,) * 6}, "spread of the outputs between calls is 0, in eager 0.2"),
        ({"spreads": (0.3, 0.31, 0.29, 0.3, 0.31, 0.29)}, "spread of the outputs between calls"),
        ({"together": (3.9, 4.1, 4.0, 3.9, 4.1, 4.0)}, "joint spread of a batch's rows is 4"),
        ({"mean_gap": 100.0}, "mean over calls is 10.0 times as far from eager's"),
        (
            {"mean_gap": 9.0, "own_gap": 1.2},
            "times as far from eager's as chance makes it (allowed 2)",
        ),
        ({"slope": 0.986}, "backward and forward use different random numbers"),
    ],
)
def test_other_statistics_fail_and_say_which(changed, said):
    finding = test_randomness.rule(drawn(**changed), Budget())
    assert finding.outcome == "failed"
    assert said in finding.summary


@pytest.mark.parametrize(
    "changed",
    [
        {"repeats": 5},
        {"spreads": (0.2, 0.21, 0.19, 0.22, 0.2, 0.18)},
        {"together": (1.2, 0.8, 1.3, 0.9, 1.1, 0.7)},
        {"mean_gap": 4.0},
        {"mean_gap": 9.0, "own_gap": 3.0},
        {"slope": 1.002},
        {"slope": None},
    ],
)
def test_what_chance_may_do_passes(changed):
    assert test_randomness.rule(drawn(**changed), Budget()).outcome == "passed"
