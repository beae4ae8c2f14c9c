"""The practice ``generation``: the texts that are generated, and how its speed is judged."""

import pytest
import torch

from compilegate.judging.budget import Budget
from compilegate.observe.practices.generation import speeds
from compilegate.observe.practices.texts import BATCH, PLACES, TOKENS, Script
from compilegate.records.performance import Timing
from compilegate.records.practice import Practice, Step
from compilegate.suites.test_generation import rule
from compilegate.zoo.generation import Generation
from tests.unit.making import make_checked, make_error, make_observation
from tests.unit.rules.common import assert_proposal_helps

STEP = Step(name="30 more tokens, static cache", outputs=make_checked(make_error("logits")))
FIGURES = {
    "eager_tokens_per_s": 1000.0,
    "compiled_tokens_per_s": 1500.0,
    "generation_ratio": 1.5,
    "generation_low_ratio": 1.4,
    "generation_high_ratio": 1.6,
    "generation_busy_share": 0.0,
}


def practised(**figures):
    practice = Practice(steps=(STEP,), graphs=1, figures=FIGURES | figures)
    return make_observation(practices={"generation": practice}, wants=("capture", "generation"))


def test_the_speed_is_shown_and_not_judged_without_a_budget():
    finding = rule(practised(generation_low_ratio=0.1, generation_high_ratio=0.2), Budget())
    assert finding.outcome == "passed"
    assert "1000 tokens/s in eager, 1500 compiled: 1.50×" in finding.summary


def test_the_tokens_a_second_never_contradict_their_ratio():
    """On a busy machine, the quickest round of compiled code may be quicker than any of eager's."""
    compiled = (10.0, *(1e9 + number for number in range(20)))
    found = speeds(Timing(eager_ns=(1e8,) * 21, compiled_ns=compiled, iterations=1, busy=0.6))
    assert found["generation_ratio"] == pytest.approx(0.1)
    assert found["compiled_tokens_per_s"] == pytest.approx(0.1 * found["eager_tokens_per_s"])
    text = rule(practised(**found), Budget()).summary
    assert "320 tokens/s in eager, 32 compiled: 0.10×" in text
    assert text.endswith("other processes took 60% of the processor, so the figures are uncertain")


def test_figures_of_an_idle_machine_are_not_called_uncertain():
    assert "uncertain" not in rule(practised(), Budget()).summary


@pytest.mark.parametrize(
    ("wanted", "figures", "outcome"),
    [
        (1.3, {}, "passed"),
        (1.5, {}, "inconclusive"),
        (1.7, {}, "failed"),
        (1.7, {"generation_busy_share": 0.5}, "inconclusive"),
    ],
)
def test_a_budget_judges_the_speed(wanted, figures, outcome):
    assert rule(practised(**figures), Budget(min_generation_speedup=wanted)).outcome == outcome


def test_a_speed_that_was_not_measured_is_inconclusive():
    unmeasured = make_observation(
        practices={"generation": Practice(steps=(STEP,), graphs=1)},
        wants=("capture", "generation"),
    )
    assert rule(unmeasured, Budget()).outcome == "passed"
    assert rule(unmeasured, Budget(min_generation_speedup=1.0)).outcome == "inconclusive"


def test_the_proposed_budget_passes():
    assert_proposal_helps(rule, practised(), Budget(min_generation_speedup=2.0))


def script(*, seed=0, left_padding=True):
    generation = Generation(
        call=lambda run, text: run(text),
        ids=lambda batch, length: torch.randint(1000, (batch, length)),
        contents=lambda cache: {},
        static=lambda module, batch, length: None,
        left_padding=left_padding,
    )
    return Script.of(generation, "cpu", seed, prompt=12, padding=5)


def test_the_first_text_of_a_script_is_padded_on_the_left():
    made = script()
    assert made.ids.shape == (BATCH, 12 + TOKENS)
    assert made.mask.shape == (BATCH, PLACES)
    assert made.mask[0].tolist() == [0] * 5 + [1] * (PLACES - 5)
    assert made.mask[1:].all()
    assert made.positions[0, :8].tolist() == [0, 0, 0, 0, 0, 0, 1, 2]
    assert made.positions[1, :3].tolist() == [0, 1, 2]
    assert script(left_padding=False).mask.all()


def test_a_seed_gives_the_same_tokens_again_and_another_seed_others():
    assert torch.equal(script().ids, script().ids)
    assert not torch.equal(script().ids, script(seed=1).ids)
