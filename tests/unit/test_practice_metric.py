"""The practice ``metric``: the interval of a change, and how it is judged."""

import pytest
import torch

from compilegate.judging.budget import Budget
from compilegate.observe.practices.score_change import mean_change
from compilegate.records.practice import Practice, Step
from compilegate.suites.test_metric import rule
from compilegate.zoo import registry
from compilegate.zoo.example import Example
from tests.unit.making import make_checked, make_error, make_observation

FIGURES = {
    "samples": 500.0,
    "worse_samples": 30.0,
    "better_samples": 5.0,
    "eager_score": 0.9,
    "compiled_score": 0.85,
    "change_score": -0.05,
    "change_low_score": -0.08,
    "change_high_score": -0.02,
    "noise_score": 0.0,
}


def judged(budget=None, **figures):
    step = Step(name="the metric", outputs=make_checked(make_error("output")))
    practice = Practice(steps=(step,), graphs=1, figures=FIGURES | figures)
    seen = make_observation(practices={"metric": practice}, wants=("capture", "metric"))
    return rule(seen, budget or Budget())


@pytest.mark.parametrize(
    ("budget", "figures", "outcome"),
    [
        (Budget(), {}, "failed"),
        (Budget(), {"change_high_score": 0.01}, "passed"),
        (Budget(), {"noise_score": 0.009}, "failed"),
        (Budget(), {"noise_score": 0.011}, "passed"),
        (Budget(max_metric_loss=0.01), {}, "failed"),
        (Budget(max_metric_loss=0.05), {}, "inconclusive"),
        (Budget(max_metric_loss=0.1), {}, "passed"),
        (Budget(max_metric_loss=0.05), {"noise_score": 0.02}, "passed"),
    ],
)
def test_the_interval_decides(budget, figures, outcome):
    assert judged(budget, **figures).outcome == outcome


def test_a_failure_names_both_scores_and_the_allowed_loss():
    assert judged().summary == (
        "metric 0.85, eager 0.9: change -0.05 [-0.08, -0.02] on 500 samples, 30 worse and 5 better;"
        " a loss of 0 is allowed"
    )


def test_equal_scores_pass_whatever_the_budget():
    equal = dict.fromkeys(("worse_samples", "better_samples"), 0.0)
    equal |= dict.fromkeys(("change_score", "change_low_score", "change_high_score"), 0.0)
    finding = judged(Budget(max_metric_loss=0.01), **equal)
    assert finding.outcome == "passed"
    assert finding.summary == "metric 0.9, equal on each of 500 samples"


def change(*differences, same=200):
    before = torch.rand(len(differences) + same, dtype=torch.float64)
    after = before.clone()
    after[: len(differences)] += torch.tensor(differences, dtype=torch.float64)
    return mean_change(before, after)


def test_equal_scores_have_no_interval():
    found = change()
    assert (found.value, found.low, found.high) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(("worse", "is_shown"), [(1, False), (7, False), (8, True), (100, True)])
def test_few_samples_show_no_loss(worse, is_shown):
    """The sign test, to which the interval reduces, reaches 99% with eight of eight."""
    found = change(*[-1.0] * worse)
    assert found.value == pytest.approx(-worse / (worse + 200))
    assert (found.high < 0) == is_shown


def test_a_few_large_losses_show_among_many_small_changes():
    small = torch.linspace(-1e-6, 1e-6, 400).tolist()
    assert change(*small).high > 0
    assert change(*small, *[-5.0] * 20).high < 0


def test_the_interval_excludes_zero_in_one_of_a_hundred_sound_runs():
    generator = torch.Generator().manual_seed(1)
    excluded = 0
    for _ in range(300):
        scores = torch.randn(2, 60, generator=generator, dtype=torch.float64)
        found = mean_change(*scores)
        excluded += not found.low <= 0 <= found.high
    assert excluded <= 9


@pytest.mark.parametrize("name", ["fitted_resnet18", "fitted_test_vit", "fitted_distilbert"])
def test_a_fitted_classifier_is_better_than_chance_and_not_perfect(name):
    """A metric at either end could not show that compiled code decides otherwise."""
    torch.manual_seed(0)
    example = registry.load()[name].example("cpu")
    with torch.no_grad():
        scores = torch.tensor([float(score) for score in example.metric(example.module.eval())])
    chance = 1 / 4 if set(scores.tolist()) == {0.0, 1.0} else 0.0  # a margin over the mean logit
    error = scores.std() / len(scores) ** 0.5
    assert chance + 0.2 < scores.mean() - 3 * error
    assert scores.mean() < 0.98


def test_a_metric_needs_weights_that_stay():
    with pytest.raises(ValueError, match="metric of Example needs signal=False"):
        Example(torch.nn.Linear(2, 2), metric=lambda run: [1.0])
